"""Exact attention in plain PyTorch, for any device and type. Memory is O(H·Σn²) for any width of φ.

Two facts make it cheap. First, the score Σ_k u_k[i] u_k[j] φ₂(λ_k) is an ordinary product of
queries U·φ₂(Λ) and keys U. Second, φ₁ is a ReLU network of one variable and so is linear between a
few knots; evaluating it on a pair is a table lookup.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenformer.kernels.base import (
    AttentionKernel,
    AttentionTerms,
    PhiTable,
    ScalarFunction,
    phi_table,
)
from eigenformer.kernels.padded import PaddedGraphs
from eigenformer.options import Backend
from eigenformer.ragged import RaggedGraphs

# A graph joins a group if it has at least this share of the nodes of the group's largest graph.
_SMALLEST_SHARE = 0.8


class TorchAttention(AttentionKernel):
    """Attention over groups of graphs of similar size, with φ₁ through its linear pieces."""

    name: ClassVar[Backend] = "torch"

    def __init__(self, graphs: RaggedGraphs) -> None:
        super().__init__(graphs)
        self.groups = [PaddedGraphs(graphs, members) for members in _similar_sizes(graphs.sizes)]
        # One gather moves all nodes to their places in all groups; another moves them back.
        self.gather = torch.cat([group.node for group in self.groups])
        present = torch.cat([group.present.flatten() for group in self.groups])
        place = torch.arange(self.gather.size(0), device=present.device)
        self.place = torch.zeros_like(graphs.node_graph).index_add(0, self.gather, place * present)
        # Rows of U have norm 1. Measuring the norms keeps the bound valid for any other spectrum.
        norms = [group.eigenvectors.square().sum(-1).amax() for group in self.groups]
        self.longest = torch.stack(norms).amax()

    def attend(
        self,
        terms: AttentionTerms,
        dropout: float = 0.0,
        keep: Tensor | None = None,
        return_attention: bool = False,
    ) -> tuple[Tensor, list[Tensor] | None]:
        edges = terms.edges.by_edge()
        table = terms.table or self.tables([(terms.phi1, terms.phi2)])[0]
        importance = table.importance.T
        values, queries, keys = map(self._pad, (terms.values, terms.queries, terms.keys))
        attended: list[Tensor] = []
        attentions: dict[int, Tensor] = {}
        for group, v, q, k in zip(self.groups, values, queries, keys, strict=True):
            u = group.eigenvectors
            logits = table.phi1((u * group.importance(importance)[:, :, None]) @ u.mT)
            if q is not None and k is not None:
                logits = logits + terms.feature_logits(q, k)
            if edges.logits is not None:
                at_edges = edges.logits.index_select(0, group.edge).T
                logits = logits.flatten(1).index_add(1, group.edge_pair, at_edges).view_as(logits)
            attention = logits.masked_fill(~group.present[:, None, :], -torch.inf).softmax(-1)
            if return_attention:
                attentions |= group.each(attention)
            attention = (
                F.dropout(attention, dropout) if keep is None else attention * group.pairs(keep)
            )
            out = (attention @ v).permute(1, 2, 0, 3).flatten(0, 1)
            if edges.values is not None:
                at_edges = attention.flatten(1).index_select(1, group.edge_pair).T
                message = at_edges[..., None] * edges.values.index_select(0, group.edge)
                out = out.index_add(0, group.edge_target, message)
            attended.append(out)
        out = torch.cat(attended).index_select(0, self.place)
        return out, [attentions[g] for g in sorted(attentions)] if return_attention else None

    def tables(self, phis: Sequence[tuple[ScalarFunction, ScalarFunction]]) -> list[PhiTable]:
        return [phi_table(self, self.longest, *pair) for pair in phis]

    def filter(self, values: Tensor, importance: Tensor) -> Tensor:
        filtered = []
        for group, x in zip(self.groups, self._pad(values), strict=True):
            u = group.eigenvectors
            modes = (u.mT @ x) * group.importance(importance.t())[..., None]
            filtered.append((u @ modes).permute(1, 2, 0, 3).flatten(0, 1))
        return torch.cat(filtered).index_select(0, self.place)

    def _pad(self, nodes: Tensor | None) -> list[Any]:
        """Splits ``[Σn, heads, C]`` into ``[heads, B, width, C]`` per group; None stays None."""
        if nodes is None:
            return [None] * len(self.groups)
        places = nodes.index_select(0, self.gather)
        parts = places.split([group.node.size(0) for group in self.groups])
        return [group.heads_first(part) for group, part in zip(self.groups, parts, strict=True)]


def _similar_sizes(sizes: tuple[int, ...]) -> list[list[int]]:
    """Groups graphs from the largest down; one that needs too much padding starts a new group."""
    groups: list[list[int]] = []
    for graph in sorted(range(len(sizes)), key=lambda g: -sizes[g]):
        if not groups or sizes[graph] < _SMALLEST_SHARE * sizes[groups[-1][0]]:
            groups.append([])
        groups[-1].append(graph)
    return groups
