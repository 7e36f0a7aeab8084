"""The interface of all attention kernels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from eigenformer.options import Backend
from eigenformer.ragged import RaggedGraphs
from eigenformer.scalar_mlp import LinearPieces

ScalarFunction = Callable[[Tensor], Tensor]

ROUNDING_MARGIN = 1 + 1e-3
"""|score| ≤ max |φ₂| holds in exact arithmetic; rounding may exceed it a little."""


def signed_sqrt(x: Tensor, eps: float = 1e-6) -> Tensor:
    r""":math:`\psi(x) = x / \sqrt{|x| + \epsilon}`: signed square root, finite slope at 0."""
    return x * torch.rsqrt(x.abs() + eps)


@dataclass(frozen=True, eq=False)
class PhiTable:
    r"""φ₁ and φ₂ of one layer, evaluated for one batch.

    Args:
        importance: :math:`\phi_2(\lambda_k)` times the weight of the frequency, ``[Σk, heads]``.
        phi1: The linear pieces of :math:`\phi_1`, over all scores that the batch can have.
    """

    importance: Tensor
    phi1: LinearPieces


@dataclass(frozen=True, eq=False)
class Request:
    """What a kernel is asked to compute with, and what for.

    Args:
        dtype: The type of all numbers.
        device: The type of the device, such as ``"cpu"`` or ``"cuda"``.
        psi: ψ, see :class:`AttentionTerms`.
        keep: Whether dropout's factors are given instead of drawn.
        return_attention: Whether the attention weights are returned.
    """

    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    psi: ScalarFunction | None = None
    keep: bool = False
    return_attention: bool = False


@dataclass(frozen=True, eq=False)
class EdgeTerms:
    r"""What one layer puts into its attention at edges: *differences to a pair that is no edge*.

    What all pairs have in common cancels in the softmax, or is part of the values.

    Args:
        values: :math:`w_{ij}`, ``[M, heads, C]`` for the distinct edges of the batch.
        logits: :math:`b_{ij}`, ``[M, heads]`` likewise.
        kinds: ``[M]``, where many edges are alike: the row of ``values`` and ``logits`` that each
            edge takes (default: its own).
        coefficients: ``[M, F]``, where edges share F rows of ``values`` in another way:
            :math:`w_{ij} = \sum_f a_{ij}[f] w_f`. ``logits`` has a row for every edge then.
    """

    values: Tensor | None = None
    logits: Tensor | None = None
    kinds: Tensor | None = None
    coefficients: Tensor | None = None

    def by_edge(self) -> EdgeTerms:
        """The same with a row for every edge, whatever edges share."""
        if self.coefficients is not None and self.values is not None:
            rows = self.coefficients @ self.values.flatten(1)
            return EdgeTerms(rows.view(-1, *self.values.shape[1:]), self.logits)
        if self.kinds is None:
            return self
        values, logits = (
            None if rows is None else rows.index_select(0, self.kinds)
            for rows in (self.values, self.logits)
        )
        return EdgeTerms(values, logits)

    def to(self, dtype: torch.dtype) -> EdgeTerms:
        """The same with all numbers in one type."""
        values, logits, coefficients = (
            None if x is None else x.to(dtype)
            for x in (self.values, self.logits, self.coefficients)
        )
        return EdgeTerms(values, logits, self.kinds, coefficients)


@dataclass(frozen=True, eq=False)
class AttentionTerms:
    r"""What one layer puts into its attention.

    Args:
        phi1: Scores to logits, ``[heads, *] → [heads, *]``, head by head.
        phi2: Eigenvalues to importances, ``[heads, *] → [heads, *]``.
        values: :math:`v_j`, ``[Σn, heads, C]``.
        queries: :math:`q_i`, ``[Σn, heads, C]``, for feature attention.
        keys: :math:`k_j`, likewise.
        psi: :math:`\psi`, applied to the scaled product of queries and keys.
        edges: What edges add to logits and values (default: nothing).
        table: φ₁ and φ₂ on this batch, where :meth:`AttentionKernel.tables` evaluated them
            already.
    """

    phi1: ScalarFunction
    phi2: ScalarFunction
    values: Tensor
    queries: Tensor | None = None
    keys: Tensor | None = None
    psi: ScalarFunction | None = None
    edges: EdgeTerms = EdgeTerms()
    table: PhiTable | None = None

    def feature_logits(self, queries: Tensor, keys: Tensor) -> Tensor:
        """ψ(q_i·k_j / √C) for all pairs of ``[…, n, C]`` queries and keys.

        The signed square root is so steep at 0 that the last digit of a product in float32 moves
        its gradient by 1e-3. In float64 the product is exact to its own last digit.
        """
        scale = 1 / math.sqrt(self.channels)
        if self.psi is None:
            return queries @ keys.mT * scale
        product = queries.double() @ keys.double().mT * scale
        return self.psi(product.to(queries.dtype))

    def to(self, dtype: torch.dtype) -> AttentionTerms:
        """The same with all tensors in one type."""
        given = {name: getattr(self, name) for name in ("values", "queries", "keys")}
        numbers = {n: x.to(dtype) for n, x in given.items() if x is not None}
        return replace(self, edges=self.edges.to(dtype), **numbers)

    @property
    def heads(self) -> int:
        return self.values.size(1)

    @property
    def channels(self) -> int:
        return self.values.size(2)


class AttentionKernel(ABC):
    r"""Spectrum-aware attention over a batch of graphs, built once and called by every layer.

    .. math::
        \alpha[i,j] &= \mathrm{softmax}_{j}\bigl( \phi_1(\textstyle\sum_k u_k[i] u_k[j]
        \phi_2(\lambda_k)) + \psi(q_i^\top k_j / \sqrt{C}) + b_{ij} \bigr) \\
        \hat{x}_i &= \sum_j \alpha[i,j] \, (v_j + w_{ij})

    with :math:`j` over the nodes of :math:`i`'s own graph.
    """

    name: ClassVar[Backend]
    """What it is called as an option."""

    def __init__(self, graphs: RaggedGraphs) -> None:
        self.graphs = graphs

    @classmethod
    def unavailable(cls) -> str | None:
        """Why the kernel cannot be used on this machine at all; None if it can."""
        return None

    @classmethod
    def details(cls) -> str:
        """What else is to be known about the kernel on this machine, where it is available."""
        return ""

    @classmethod
    def unsupported(cls, request: Request) -> str | None:
        """Why the kernel cannot do what is asked for; None if it can."""
        return None

    def tables(
        self, phis: Sequence[tuple[ScalarFunction, ScalarFunction]]
    ) -> Sequence[PhiTable | None]:
        """The (φ₁, φ₂) of several layers, evaluated for this batch.

        Each goes into the terms of its layer. None where the kernel takes φ as it is.
        """
        return [None] * len(phis)

    @abstractmethod
    def attend(
        self,
        terms: AttentionTerms,
        dropout: float = 0.0,
        keep: Tensor | None = None,
        return_attention: bool = False,
    ) -> tuple[Tensor, list[Tensor] | None]:
        """One layer's attention.

        Args:
            terms: What the layer contributes.
            dropout: Probability of dropping an attention weight, after the softmax.
            keep: Instead of ``dropout``: the factors to apply, ``[heads, Σn²]``, each graph's
                pairs row by row, graph after graph.
            return_attention: Also return the attention before dropout.

        Returns:
            The attended values ``[Σn, heads, C]``, and per graph the attention
            ``[heads, n, n]`` or None.
        """
