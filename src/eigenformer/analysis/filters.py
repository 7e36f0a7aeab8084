"""What each head learned: φ₂ over the spectrum, φ₁ over the possible scores; and each filter."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from eigenformer.attention import SpectrumAwareAttention
from eigenformer.models import Model
from eigenformer.models.base import no_spectral_attention
from eigenformer.spectral_filters import SpectralFilters


@dataclass(frozen=True, eq=False)
class Filters:
    r"""The sampled scalar functions :math:`\phi_1` and :math:`\phi_2` of every layer and head.

    A head scores a pair by :math:`s_{ij} = \sum_k u_k[i] u_k[j] \phi_2(\lambda_k)`. The
    eigenvectors are orthonormal. Therefore :math:`s_{ii}` is a weighted mean of :math:`\phi_2`,
    between its smallest and its largest value. A constant in :math:`\phi_2` adds nothing to the
    scores of different nodes: :math:`|s_{ij}| \le (\max \phi_2 - \min \phi_2) / 2`. The range of
    possible arguments of :math:`\phi_1` is thus known without any graph.

    Args:
        eigenvalues: ``[samples]`` over [0, 2].
        phi2: ``[layers, heads, samples]`` at these eigenvalues.
        scores: ``[layers, heads, samples]``, from the lowest possible score to the highest.
        phi1: ``[layers, heads, samples]`` at these scores.
        reach: ``[layers, heads]``, the largest :math:`|s_{ij}|` of two different nodes.
        spectral: ``[layers, filters, samples]``, the :math:`\phi` of the spectral filters at the
            eigenvalues; None for a model without them.
    """

    eigenvalues: np.ndarray
    phi2: np.ndarray
    scores: np.ndarray
    phi1: np.ndarray
    reach: np.ndarray
    spectral: np.ndarray | None = None


@torch.no_grad()
def learned_filters(model: Model, samples: int = 401) -> Filters:
    """Returns the filters of a model.

    Args:
        model: A model with spectrum-aware attention.
        samples: The number of points per curve.
    """
    attentions = [m for m in model.modules() if isinstance(m, SpectrumAwareAttention)]
    if not attentions:
        raise ValueError(no_spectral_attention(model))
    eigenvalues = torch.linspace(0, 2, samples)
    parts = []
    for attention in attentions:
        places = eigenvalues.to(attention.value.weight)
        phi2 = attention.phi2(places.expand(attention.heads, -1))
        least, most = phi2.amin(1, keepdim=True), phi2.amax(1, keepdim=True)
        reach = (most - least) / 2
        low, high = torch.minimum(least, -reach), torch.maximum(most, reach)
        scores = low + (high - low) * places / 2
        parts.append((phi2, scores, attention.phi1(scores), reach[:, 0]))
    stacks = (torch.stack(part).float().cpu().numpy() for part in zip(*parts, strict=True))
    phis = [m.phi for m in model.modules() if isinstance(m, SpectralFilters)]
    spectral = [phi(eigenvalues.to(phi.weights[0]).expand(phi.heads, -1)) for phi in phis]
    found = Filters(eigenvalues.numpy(), *stacks)
    if not spectral:
        return found
    return replace(found, spectral=torch.stack(spectral).float().cpu().numpy())
