"""The interface of all attention kernels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from eigenformer.kernels.products import exact_products
from eigenformer.options import Backend
from eigenformer.ragged import RaggedGraphs
from eigenformer.scalar_mlp import LinearPieces, ScalarMLP

ScalarFunction = Callable[[Tensor], Tensor]

_CPU = torch.device("cpu")

SMALLEST_SUM = 1e-6
"""Added to the sum of the gates in :meth:`AttentionKernel.gated_mean`, as in GatedGCN."""

ROUNDING_MARGIN = 1 + 1e-3
"""|score| ≤ max |φ₂| holds in exact arithmetic; with rounding, a score may exceed it slightly."""


def signed_sqrt(x: Tensor, eps: float = 1e-6) -> Tensor:
    r"""Returns :math:`x / \sqrt{|x| + \epsilon}`: a signed square root with a finite slope at 0."""
    return x * torch.rsqrt(x.abs() + eps)


@dataclass(frozen=True, eq=False)
class PhiTable:
    r"""φ₁ and φ₂ of one layer, evaluated for one batch.

    Args:
        importance: :math:`\phi_2(\lambda_k)` times the weight of the frequency, ``[Σk, heads]``.
        phi1: Linear pieces of :math:`\phi_1`, over the range of all possible scores of the batch.
    """

    importance: Tensor
    phi1: LinearPieces


@dataclass(frozen=True, eq=False)
class Request:
    """What a kernel must support: types, devices and options of a call.

    Args:
        dtype: Type of all numbers.
        device: The device to compute on.
        psi: ψ, see :class:`AttentionTerms`.
        keep: Whether the factors of dropout are given instead of random.
        return_attention: Whether the attention weights are returned.
        features: Whether attention also depends on features, through queries and keys.
        edges: Whether edges add to the values or to the logits.
        dropout: Whether attention weights are dropped.
        channels: C, the width of a head.
    """

    dtype: torch.dtype = torch.float32
    device: torch.device = _CPU
    psi: ScalarFunction | None = None
    keep: bool = False
    return_attention: bool = False
    features: bool = False
    edges: bool = False
    dropout: bool = False
    channels: int = 1


@dataclass(frozen=True, eq=False)
class EdgeTerms:
    r"""What edges add to the attention of one layer: *differences to a pair without an edge*.

    What all pairs have in common cancels in the softmax, or is part of the values.

    Args:
        values: :math:`w_{ij}`, ``[M, heads, C]`` for the distinct edges of the batch.
        logits: :math:`b_{ij}`, ``[M, heads]`` likewise.
        kinds: Row of ``values`` and ``logits`` that each edge uses, ``[M]``, if many edges are
            alike (default: each edge has its own row).
        coefficients: Coefficients ``[M, F]``, if edges combine F shared rows of ``values``:
            :math:`w_{ij} = \sum_f a_{ij}[f] w_f`. ``logits`` then has one row per edge.
    """

    values: Tensor | None = None
    logits: Tensor | None = None
    kinds: Tensor | None = None
    coefficients: Tensor | None = None

    def by_edge(self) -> EdgeTerms:
        """Returns the same terms with one row per edge and nothing shared."""
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
        """Returns the same terms with all numbers converted to ``dtype``."""
        values, logits, coefficients = (
            None if x is None else x.to(dtype)
            for x in (self.values, self.logits, self.coefficients)
        )
        return EdgeTerms(values, logits, self.kinds, coefficients)


@dataclass(frozen=True, eq=False)
class AttentionTerms:
    r"""What one layer contributes to its attention.

    Args:
        phi1: Function from scores to logits, ``[heads, *] → [heads, *]``, head by head.
        phi2: Function from eigenvalues to importances, ``[heads, *] → [heads, *]``.
        values: :math:`v_j`, ``[Σn, heads, C]``.
        queries: :math:`q_i`, ``[Σn, heads, C]``, for feature attention.
        keys: :math:`k_j`, likewise.
        psi: :math:`\psi`, applied to the scaled product of queries and keys.
        edges: What edges add to logits and values (default: nothing).
        table: φ₁ and φ₂ on this batch, if :meth:`AttentionKernel.tables` has already evaluated
            them.
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
        """Returns ψ(q_i·k_j / √C) for all pairs of ``[…, n, C]`` queries and keys.

        The signed square root is so steep at 0 that the last digit of a float32 product changes
        its gradient by 1e-3. The product is therefore exact to the last digit of float32.
        """
        scale = 1 / math.sqrt(self.channels)
        if self.psi is None:
            return queries @ keys.mT * scale
        return self.psi(exact_products(queries, keys, scale))

    def to(self, dtype: torch.dtype) -> AttentionTerms:
        """Returns the same terms with all tensors converted to ``dtype``."""
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

    where :math:`j` runs over the nodes of the graph that contains :math:`i`.
    """

    name: ClassVar[Backend]
    """Name of the kernel as a backend."""

    def __init__(self, graphs: RaggedGraphs) -> None:
        self.graphs = graphs

    @classmethod
    def unavailable(cls) -> str | None:
        """Returns why the kernel cannot be used on this machine at all; None if it can."""
        return None

    @classmethod
    def details(cls) -> str:
        """Returns details about the kernel on this machine, if it is available."""
        return ""

    @classmethod
    def unsupported(cls, request: Request) -> str | None:
        """Returns why the kernel cannot fulfil the request; None if it can."""
        return None

    @classmethod
    def doubts(cls, request: Request) -> str | None:
        """Returns why ``auto`` must not select the kernel although it supports the request.

        None if there is no doubt.
        """
        return None

    def tables(
        self, phis: Sequence[tuple[ScalarFunction, ScalarFunction]]
    ) -> Sequence[PhiTable | None]:
        """Evaluates (φ₁, φ₂) of several layers for this batch.

        Each table belongs to the terms of its layer. It is None if the kernel uses φ directly.
        """
        return [None] * len(phis)

    def importances(self, functions: Sequence[ScalarFunction], heads: int) -> list[Tensor]:
        r"""Evaluates several :math:`\phi` at the eigenvalues of this batch.

        Returns :math:`\phi(\lambda_k)` times the weight of the frequency, ``[Σk, heads]`` for each.
        """
        values, weights = self.graphs.eigenvalues, self.graphs.frequency_weights
        found = [phi(values.expand(heads, -1)).t() for phi in functions]
        return found if weights is None else [f * weights[:, None] for f in found]

    def filter(self, values: Tensor, importance: Tensor) -> Tensor:
        r"""Applies filters of the spectrum to the nodes: :math:`U (f \odot U^\top x)`.

        Args:
            values: x, ``[Σn, filters, C]``: the channels of each filter.
            importance: f, ``[Σk, filters]``, from :meth:`importances`.
        """
        g, filtered = self.graphs, []
        entries = [n * k for n, k in zip(g.sizes, g.num_frequencies, strict=True)]
        by_graph = (
            g.sizes,
            g.eigenvectors.split(entries),
            values.split(list(g.sizes)),
            importance.split(list(g.num_frequencies)),
        )
        for n, u, x, f in zip(*by_graph, strict=True):
            modes = torch.einsum("ik,ifc->kfc", u.view(n, -1), x) * f[..., None]
            filtered.append(torch.einsum("ik,kfc->ifc", u.view(n, -1), modes))
        return torch.cat(filtered)

    def gated_mean(
        self, target: Tensor, source: Tensor, values: Tensor, edges: EdgeTerms | None = None
    ) -> Tensor:
        r"""Averages the values of neighbours, with gates as weights, channel by channel.

        .. math::
            \frac{\sum_{j \to i} \eta_{ij} \odot v_j}{\sum_{j \to i} \eta_{ij} + \epsilon}, \qquad
            \eta_{ij} = \sigma(a_i + b_j + c_{ij})

        Args:
            target: a, ``[Σn, d]``.
            source: b, ``[Σn, d]``.
            values: v, ``[Σn, d]``.
            edges: c, with rows ``[*, 1, d]`` (default: no features).
        """
        senders, receivers = self.graphs.edge_index
        gates = target.index_select(0, receivers) + source.index_select(0, senders)
        rows = None if edges is None else edges.by_edge().values
        gates = torch.sigmoid(gates if rows is None else gates + rows.flatten(1))
        messages = gates * values.index_select(0, senders)
        nothing = messages.new_zeros(values.shape)
        received, total = (nothing.index_add(0, receivers, x) for x in (messages, gates))
        return received / (total + SMALLEST_SUM)

    @abstractmethod
    def attend(
        self,
        terms: AttentionTerms,
        dropout: float = 0.0,
        keep: Tensor | None = None,
        return_attention: bool = False,
    ) -> tuple[Tensor, list[Tensor] | None]:
        """Computes the attention of one layer.

        Args:
            terms: What the layer contributes.
            dropout: Probability of dropping an attention weight, after the softmax.
            keep: Factors to apply instead of ``dropout``, ``[heads, Σn²]``: graph after graph,
                the pairs of each graph row by row.
            return_attention: Whether to also return the attention before dropout.

        Returns:
            The attended values ``[Σn, heads, C]``, and the attention ``[heads, n, n]`` of each
            graph, or None.
        """


def phi_table(
    kernel: AttentionKernel, longest: Tensor, phi1: ScalarFunction, phi2: ScalarFunction
) -> PhiTable:
    """Evaluates (φ₁, φ₂) of one layer in PyTorch; ``longest`` is max_i ‖u[i]‖² of the batch."""
    if not isinstance(phi1, ScalarMLP):
        raise TypeError(
            f"phi1 is a {type(phi1).__name__}, whose linear pieces are not known: use "
            f"the 'literal' backend, which takes any function"
        )
    (importance,) = kernel.importances([phi2], phi1.heads)
    # |Σ_k u_k[i] u_k[j] φ₂(λ_k)| ≤ max_k |φ₂(λ_k)| · max_i ‖u[i]‖², head by head.
    bound = importance.detach().abs().amax(0) * (longest * ROUNDING_MARGIN)
    return PhiTable(importance, phi1.linear_pieces(-bound, bound))
