"""Attention by the native library, behind the interface of all kernels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from eigenformer.kernels.base import AttentionKernel, AttentionTerms, ScalarFunction, signed_sqrt
from eigenformer.kernels.grouped import GroupedAttention
from eigenformer.kernels.native import networks, ops
from eigenformer.kernels.native.binding import library
from eigenformer.ragged import RaggedGraphs
from eigenformer.scalar_mlp import LinearPieces, ScalarMLP

# |score| ≤ max |φ₂| holds in exact arithmetic; rounding may exceed it a little.
_ROUNDING_MARGIN = 1 + 1e-3
# Sums over all edges of a kind are kept per thread: up to so many kinds.
_FEW_KINDS = 256
# A factor costs a row about as much as a channel of an edge.
_FEW_FACTORS = 8


class NativeAttention(AttentionKernel):
    """Attention by compiled code on the CPU, in float32, memory O(Σn·d) whatever the graphs.

    What it does not do (other types and devices, given dropout factors, returning the attention)
    it leaves to :class:`GroupedAttention`.
    """

    @torch.compiler.disable
    def __init__(self, graphs: RaggedGraphs) -> None:
        super().__init__(graphs)
        if not supports(graphs.eigenvectors):
            raise TypeError("native attention is for float32 on the CPU")
        native = library()  # an error here rather than in the middle of a step
        self.first_node, self.first_frequency = _first(graphs.sizes), _first(graphs.frequencies)
        # Edges sorted by target, then by source, which is counted from its graph's first node.
        source, target = graphs.edge_index
        self.edge_order = (target * graphs.num_nodes + source).argsort()
        local = source - self.first_node[graphs.node_graph[source]]
        self.edge_source = local[self.edge_order]
        self.first_edge = _first(target.bincount(minlength=graphs.num_nodes))
        self.eigenvectors = graphs.eigenvectors.contiguous()
        self.longest = native.longest_row(self.first_node, self.first_frequency, self.eigenvectors)
        # What `tabulate` found, until the layer comes that it is for.
        self._tables: dict[tuple[ScalarFunction, ...], tuple[Tensor, LinearPieces]] = {}

    @cached_property
    def grouped(self) -> GroupedAttention:
        """The same batch, for what the library does not do."""
        return GroupedAttention(self.graphs)

    def attend(
        self,
        terms: AttentionTerms,
        dropout: float = 0.0,
        keep: Tensor | None = None,
        return_attention: bool = False,
    ) -> tuple[Tensor, list[Tensor] | None]:
        if keep is not None or return_attention or not _fits(terms):
            return self.grouped.attend(terms, dropout, keep, return_attention)
        # The seed comes from PyTorch's generator: torch.manual_seed makes dropout repeatable.
        seed = torch.randint(2**62, ()) if dropout else torch.zeros((), dtype=torch.long)
        return self.attend_seeded(terms, dropout, seed), None

    def attend_seeded(self, terms: AttentionTerms, dropout: float, seed: Tensor) -> Tensor:
        """One layer's attention, with dropout drawn from ``seed``, see :meth:`keep`."""
        return ops.attention(*self.inputs(terms, dropout, seed))[0]

    def inputs(self, terms: AttentionTerms, dropout: float, seed: Tensor) -> ops.Inputs:
        """What the operator takes."""
        phis = terms.phi1, terms.phi2
        if phis not in self._tables:
            self._tabulate([phis])
        importance, phi1 = self._tables.pop(phis)
        shared = terms.edge_kind is not None and self._few_kinds(terms)
        terms = terms if shared or _few_factors(terms) else terms.by_edge()
        kind = self.edge_order if terms.edge_kind is None else terms.edge_kind[self.edge_order]
        psi = ops.IDENTITY if terms.psi is None else ops.SIGNED_SQRT
        return ops.Inputs(
            first_node=self.first_node,
            first_frequency=self.first_frequency,
            first_edge=self.first_edge,
            edge_source=self.edge_source,
            edge_kind=kind,
            edge_coefficients=_contiguous(terms.edge_coefficients),
            eigenvectors=self.eigenvectors,
            importance=importance,
            knots=phi1.knots,
            slopes=phi1.slopes,
            intercepts=phi1.intercepts,
            values=terms.values.contiguous(),
            queries=_contiguous(terms.queries),
            keys=_contiguous(terms.keys),
            edge_logits=_contiguous(terms.edge_logits),
            edge_values=_contiguous(terms.edge_values),
            seed=seed,
            dropout=dropout,
            psi=ops.NO_FEATURES if terms.queries is None else psi,
            shared_kinds=shared,
        )

    def tabulate(self, phis: Sequence[tuple[ScalarFunction, ScalarFunction]]) -> None:
        functions = [phi for pair in phis for phi in pair]
        if len({_shape(phi) for phi in functions}) == 1 and _shape(functions[0]) is not None:
            # Tables stay in full precision under autocast, like all that is looked up in them.
            with torch.autocast("cpu", enabled=False):
                self._tabulate(phis)

    def _tabulate(self, phis: Sequence[tuple[ScalarFunction, ScalarFunction]]) -> None:
        """φ₂ at the eigenvalues, and φ₁'s linear pieces, of networks of one shape."""
        phi1: list[Any] = [pair[0] for pair in phis]
        phi2: list[Any] = [pair[1] for pair in phis]
        heads: int = phi1[0].heads
        values = self.graphs.eigenvalues
        knots, slopes, intercepts = _pieces(phi2, *values.aminmax())
        importance = ops.pieces(values, knots, slopes, intercepts, heads)
        if self.graphs.frequency_weights is not None:
            importance = importance * self.graphs.frequency_weights[:, None]
        # |Σ_k u_k[i] u_k[j] φ₂(λ_k)| ≤ max_k |φ₂(λ_k)| · max_i ‖u[i]‖², head by head.
        bound = importance.detach().abs().amax(1).flatten() * (self.longest * _ROUNDING_MARGIN)
        pieces = _pieces(phi1, -bound, bound)
        for layer, pair in enumerate(phis):
            own = slice(layer * heads, (layer + 1) * heads)
            self._tables[pair] = (
                importance[layer],
                LinearPieces(*(part[own] for part in pieces)),
            )

    def _few_kinds(self, terms: AttentionTerms) -> bool:
        rows = next(x for x in (terms.edge_values, terms.edge_logits) if x is not None)
        return len(rows) <= _FEW_KINDS

    def keep(self, heads: int, dropout: float, seed: Tensor) -> Tensor:
        """The factors that dropout applies for ``seed``, ``[heads, Σn²]``: for other kernels."""
        return library().dropout(torch.tensor(self.graphs.sizes), heads, dropout, int(seed))


def supports(x: Tensor) -> bool:
    """Whether numbers of this type, on this device, are what the library computes with."""
    return x.dtype == torch.float32 and x.device.type == "cpu"


def _fits(terms: AttentionTerms) -> bool:
    return (
        supports(terms.values)
        and terms.psi in (None, signed_sqrt)
        and _shape(terms.phi1) == _shape(terms.phi2) is not None
    )


def _few_factors(terms: AttentionTerms) -> bool:
    a = terms.edge_coefficients
    # The library has no gradient for them: they are data, as a rule.
    return a is not None and a.size(1) <= _FEW_FACTORS and not a.requires_grad


def _shape(phi: ScalarFunction) -> tuple[int, ...] | None:
    """What networks must have in common to be evaluated together; None if it cannot be done."""
    if not isinstance(phi, ScalarMLP) or not supports(phi.weights[0]):
        return None
    return phi.heads, phi.width, phi.depth


def _pieces(functions: Sequence[Any], low: Tensor, high: Tensor) -> LinearPieces:
    """The linear pieces of several networks, all heads side by side."""
    count = len(functions) * functions[0].heads
    weights = [weight for f in functions for weight in f.weights]
    biases = [bias for f in functions for bias in f.biases]
    ends = (end.detach().expand(count).contiguous() for end in (low, high))
    return LinearPieces(*networks.linear_pieces(weights, biases, *ends, len(functions)))


def _first(counts: Sequence[int] | Tensor) -> Tensor:
    """Where each starts, and where the last one ends."""
    first = torch.zeros(len(counts) + 1, dtype=torch.long)
    torch.cumsum(torch.as_tensor(counts), 0, out=first[1:])
    return first


def _contiguous(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()
