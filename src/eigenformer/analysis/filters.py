"""What each head learned: φ₂ over the spectrum, φ₁ over the scores it can meet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from eigenformer.attention import SpectrumAwareAttention
from eigenformer.model import Eigenformer


@dataclass(frozen=True, eq=False)
class Filters:
    r"""The two scalar functions of every layer and head, sampled.

    A head scores a pair by :math:`s_{ij} = \sum_k u_k[i] u_k[j] \phi_2(\lambda_k)`, so that
    :math:`|s_{ij}| \le \max |\phi_2|`: the range of :math:`\phi_1` is known without any graph.

    Args:
        eigenvalues: ``[samples]`` over [0, 2].
        phi2: ``[layers, heads, samples]`` at these eigenvalues.
        scores: ``[layers, heads, samples]``, each head's own range.
        phi1: ``[layers, heads, samples]`` at these scores.
    """

    eigenvalues: np.ndarray
    phi2: np.ndarray
    scores: np.ndarray
    phi1: np.ndarray


@torch.no_grad()
def learned_filters(model: Eigenformer, samples: int = 401) -> Filters:
    """The filters of a model.

    Args:
        model: Any.
        samples: Points per curve.
    """
    eigenvalues = torch.linspace(0, 2, samples)
    phi2, scores, phi1 = [], [], []
    attentions = (m for m in model.modules() if isinstance(m, SpectrumAwareAttention))
    for attention in attentions:
        dtype = attention.value.weight.dtype
        importance = attention.phi2(eigenvalues.to(dtype).expand(attention.heads, -1))
        bound = importance.abs().amax(1, keepdim=True)
        score = torch.linspace(-1, 1, samples, dtype=dtype) * bound
        phi2.append(importance)
        scores.append(score)
        phi1.append(attention.phi1(score))
    stacks = (torch.stack(part).float().numpy() for part in (phi2, scores, phi1))
    return Filters(eigenvalues.numpy(), *stacks)
