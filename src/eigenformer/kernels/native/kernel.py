"""The kernel that computes attention with the native library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from eigenformer.kernels.base import (
    ROUNDING_MARGIN,
    AttentionTerms,
    EdgeTerms,
    PhiTable,
    Request,
    ScalarFunction,
)
from eigenformer.kernels.fused import FusedAttention, few_factors
from eigenformer.kernels.native import binding, gates, networks, ops
from eigenformer.kernels.native.filters import filter_nodes
from eigenformer.options import Backend
from eigenformer.ragged import RaggedGraphs
from eigenformer.scalar_mlp import LinearPieces, ScalarMLP

# Each thread keeps sums over all edges of a kind, for at most this many kinds.
_FEW_KINDS = 256


class NativeAttention(FusedAttention):
    """Attention in compiled code on the CPU."""

    name: ClassVar[Backend] = "native"

    @torch.compiler.disable
    def __init__(self, graphs: RaggedGraphs) -> None:
        super().__init__(graphs)
        given = graphs.eigenvectors
        reason = self.unsupported(Request(given.dtype, given.device))
        if reason is not None:
            raise TypeError(f"native attention: {reason}")
        library = binding.library()  # raise an error here rather than in the middle of a step
        self.first_node, self.first_frequency = _first(graphs.sizes), _first(graphs.num_frequencies)
        # Edges are sorted by target, then by source. Sources are counted from the first node of
        # their graph.
        source, target = graphs.edge_index
        self.edge_order = (target * graphs.num_nodes + source).argsort()
        local = source - self.first_node[graphs.node_graph[source]]
        self.edge_source = local[self.edge_order]
        self.first_edge = _first(target.bincount(minlength=graphs.num_nodes))
        self.eigenvectors = given.contiguous()
        self.longest = library.longest_row(self.first_node, self.first_frequency, self.eigenvectors)

    @classmethod
    def unavailable(cls) -> str | None:
        return binding.load()[1] or None

    @classmethod
    def details(cls) -> str:
        library = binding.library()
        pool = "PyTorch's threads" if library.shares_threads else "threads of its own"
        return f"{library.instructions}, {pool}"

    @classmethod
    def unsupported(cls, request: Request) -> str | None:
        if request.device.type != "cpu":
            return f"it runs on the CPU only, not on '{request.device}'"
        return super().unsupported(request)

    def attend_seeded(self, terms: AttentionTerms, dropout: float, seed: Tensor) -> Tensor:
        """Computes the attention of one layer, with dropout from ``seed``, see :meth:`keep`."""
        return ops.attention(*self.inputs(terms, dropout, seed))[0]

    def inputs(self, terms: AttentionTerms, dropout: float, seed: Tensor) -> ops.Inputs:
        """Returns the inputs of the operator."""
        table = terms.table or self.tables([(terms.phi1, terms.phi2)])[0]
        edges = self._usable(terms.edges)
        return ops.Inputs(
            first_node=self.first_node,
            first_frequency=self.first_frequency,
            first_edge=self.first_edge,
            edge_source=self.edge_source,
            seed=seed,
            dropout=dropout,
            shared_kinds=edges.kinds is not None,
            **self.layer_inputs(terms, edges, table),
        )

    def _usable(self, edges: EdgeTerms) -> EdgeTerms:
        """Returns the same terms, with rows that edges share only if there are few of them."""
        a = edges.coefficients
        few = _few_kinds(edges) or (a is not None and few_factors(a))
        return edges if few else edges.by_edge()

    def tables(self, phis: Sequence[tuple[ScalarFunction, ScalarFunction]]) -> list[PhiTable]:
        shapes = {_shape(phi) for pair in phis for phi in pair}
        if len(shapes) == 1 and None not in shapes:
            return self._tables(phis)
        if len(phis) > 1:
            return [self.tables([pair])[0] for pair in phis]
        return self.fallback.tables(phis)

    def _tables(self, phis: Sequence[tuple[Any, Any]]) -> list[PhiTable]:
        """Evaluates φ₂ at the eigenvalues, and the linear pieces of φ₁, for all layers together.

        All networks must have the same shape.
        """
        phi1, phi2 = zip(*phis, strict=True)
        heads: int = phi1[0].heads
        importance = self._importances(phi2)
        # |Σ_k u_k[i] u_k[j] φ₂(λ_k)| ≤ max_k |φ₂(λ_k)| · max_i ‖u[i]‖², head by head.
        bound = importance.detach().abs().amax(1).flatten() * (self.longest * ROUNDING_MARGIN)
        pieces = _linear_pieces(phi1, -bound, bound)
        by_layer = zip(importance, *(part.split(heads) for part in pieces), strict=True)
        return [PhiTable(own, LinearPieces(*parts)) for own, *parts in by_layer]

    def importances(self, functions: Sequence[ScalarFunction], heads: int) -> list[Tensor]:
        shapes = {_shape(phi) for phi in functions}
        if len(shapes) == 1 and None not in shapes:
            return list(self._importances(functions))
        return super().importances(functions, heads)

    def _importances(self, functions: Sequence[Any]) -> Tensor:
        """Evaluates networks of the same shape, ``[networks, Σk, heads]``."""
        values, weights = self.graphs.eigenvalues, self.graphs.frequency_weights
        pieces = _linear_pieces(functions, *values.aminmax())
        found = ops.evaluate_pieces(values, *pieces, functions[0].heads)
        return found if weights is None else found * weights[:, None]

    def filter(self, values: Tensor, importance: Tensor) -> Tensor:
        spectra = self.first_node, self.first_frequency, self.eigenvectors
        return filter_nodes(*spectra, importance.contiguous(), values.contiguous())[0]

    def gated_mean(
        self, target: Tensor, source: Tensor, values: Tensor, edges: EdgeTerms | None = None
    ) -> Tensor:
        if not _fits(values):
            return super().gated_mean(target, source, values, edges)
        edges = EdgeTerms() if edges is None else self._usable(edges)
        row = self.edge_order if edges.kinds is None else edges.kinds[self.edge_order]
        inputs = gates.GateInputs(
            self.first_node,
            self.first_edge,
            self.edge_source,
            row,
            None if edges.coefficients is None else edges.coefficients.contiguous(),
            edges.kinds is not None,
            target.contiguous(),
            source.contiguous(),
            values.contiguous(),
            None if edges.values is None else edges.values.flatten(1).contiguous(),
        )
        return gates.gated_mean(*inputs)[0]

    def keep(self, heads: int, dropout: float, seed: Tensor) -> Tensor:
        """Returns the factors that dropout applies for ``seed``, ``[heads, Σn²]``.

        They can be passed to other kernels.
        """
        sizes = torch.tensor(self.graphs.sizes)
        return binding.library().dropout(sizes, heads, dropout, int(seed))


def _few_kinds(edges: EdgeTerms) -> bool:
    if edges.kinds is None:
        return False
    rows = next(x for x in (edges.values, edges.logits) if x is not None)
    return len(rows) <= _FEW_KINDS


def _shape(phi: ScalarFunction) -> tuple[int, ...] | None:
    """Returns the shape that networks evaluated together must share; None if unsupported."""
    if not isinstance(phi, ScalarMLP) or not _fits(phi.weights[0]):
        return None
    return phi.heads, phi.width, phi.depth


def _fits(x: Tensor) -> bool:
    return NativeAttention.unsupported(Request(x.dtype, x.device)) is None


def _linear_pieces(functions: Sequence[Any], low: Tensor, high: Tensor) -> LinearPieces:
    """Returns the linear pieces of several networks, all heads concatenated."""
    count = len(functions) * functions[0].heads
    weights = [weight for f in functions for weight in f.weights]
    biases = [bias for f in functions for bias in f.biases]
    ends = (end.detach().expand(count).contiguous() for end in (low, high))
    return LinearPieces(*networks.linear_pieces(weights, biases, *ends, len(functions)))


def _first(counts: Sequence[int] | Tensor) -> Tensor:
    """Returns where each item starts, followed by where the last one ends."""
    first = torch.zeros(len(counts) + 1, dtype=torch.long)
    torch.cumsum(torch.as_tensor(counts), 0, out=first[1:])
    return first
