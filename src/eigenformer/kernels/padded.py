"""Graphs of a batch, padded to the largest of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from eigenformer.ragged import RaggedGraphs
from eigenformer.transfer import on_device


class PaddedGraphs:
    """Index tensors that arrange the graphs ``members`` as a block of equal width.

    Attributes:
        members: Positions of the B graphs in the batch.
        width: Number of nodes of the largest graph.
        present: ``[B, width]``, whether a place holds a node.
        node: ``[B·width]``, the node at each place. An empty place holds the first node of the
            same graph, so that no other graph can leak into it.
        frequency: ``[B, K]``, positions among the eigenvalues of the batch, filled in the same way.
        eigenvectors: ``[B, width, K]``, 0 if the node or the frequency is missing.
        edge: Edges of the members, as positions among the edges of the batch.
        edge_pair: (target, source) pair of each of these edges among the B·width² pairs.
        edge_target: Target of each of these edges among the B·width places.
    """

    def __init__(self, graphs: RaggedGraphs, members: Sequence[int]) -> None:
        self.graphs = graphs
        self.members = tuple(members)
        self.width = max(graphs.sizes[g] for g in members)
        source, target = graphs.edge_index
        if graphs.num_graphs == 1:
            self._fill_with_one()
            self.edge = torch.arange(graphs.edge_index.size(1), device=source.device)
            self.edge_target = target
            self.edge_pair = target * self.width + source
            return
        first = self._fill_with_many()
        # The place of a node is that of the first node of its graph plus its number in the graph.
        graph = graphs.node_graph[target]
        self.edge = self._edges(first[graph] >= 0)
        graph, source, target = graph[self.edge], source[self.edge], target[self.edge]
        start = self._starts(graphs.sizes)[graph]
        self.edge_target = first[graph] + target - start
        self.edge_pair = self.edge_target * self.width + source - start

    def _edges(self, own: Tensor) -> Tensor:
        """Returns the marked edges, whose number the CPU knows if the batch was checked there."""
        counts = self.graphs.edge_counts
        if counts is None:
            return own.nonzero().squeeze(1)
        order = own.to(torch.uint8).argsort(descending=True, stable=True)
        return order[: sum(counts[g] for g in self.members)]

    def _fill_with_one(self) -> None:
        """Fills the tensors for one graph, which needs no padding and no lookup.

        This holds for any size, also in ``torch.export``.
        """
        n, k = self.width, self.graphs.num_frequencies[0]
        device = self.graphs.eigenvalues.device
        self.present = torch.ones(1, n, dtype=torch.bool, device=device)
        self.node = torch.arange(n, device=device)
        self.frequency = torch.arange(k, device=device)[None]
        self.eigenvectors = self.graphs.eigenvectors.view(1, n, k)

    def _fill_with_many(self) -> Tensor:
        """Fills the tensors; returns the place of each graph's first node, -1 if not a member."""
        graphs, device = self.graphs, self.graphs.eigenvalues.device
        members = on_device(self.members, device)
        entries = [n * k for n, k in zip(graphs.sizes, graphs.num_frequencies, strict=True)]
        counts = (graphs.sizes, graphs.num_frequencies, entries)
        node, value, entry = (self._starts(c)[members, None] for c in counts)
        n, k = (on_device(c, device)[members, None] for c in counts[:2])
        column = torch.arange(self.width, device=device)
        rank = torch.arange(max(graphs.num_frequencies[g] for g in self.members), device=device)
        self.present = column < n
        in_spectrum = rank < k
        self.node = (node + column * self.present).flatten()
        self.frequency = value + rank * in_spectrum
        filled = self.present[..., None] & in_spectrum[:, None]
        at = entry[..., None] + column[:, None] * k[..., None] + rank
        self.eigenvectors = graphs.eigenvectors[at * filled].masked_fill(~filled, 0.0)
        first = torch.full((graphs.num_graphs,), -1, device=device)
        first[members] = torch.arange(len(members), device=device) * self.width
        return first

    def _starts(self, counts: Sequence[int]) -> Tensor:
        """Returns where each graph starts if the graphs have these lengths."""
        lengths = torch.tensor(counts)
        return on_device(lengths.cumsum(0) - lengths, self.graphs.eigenvalues.device)

    def __len__(self) -> int:
        return len(self.members)

    def importance(self, importance: Tensor) -> Tensor:
        """Arranges importances, ``[heads, Σk] → [heads, B, K]``."""
        picked = importance.index_select(1, self.frequency.flatten())
        return picked.view(-1, *self.frequency.shape)

    def heads_first(self, places: Tensor) -> Tensor:
        """Moves the heads first, ``[B·width, heads, C] → [heads, B, width, C]``."""
        return places.view(len(self), self.width, *places.shape[1:]).permute(2, 0, 1, 3)

    def pairs(self, packed: Tensor) -> Tensor:
        """Arranges pairs, ``[heads, Σn²] → [heads, B, width, width]``; empty places are 0."""
        members = on_device(self.members, packed.device)
        start = self._starts([n * n for n in self.graphs.sizes])[members, None]
        n = on_device(self.graphs.sizes, packed.device)[members, None]
        column = torch.arange(self.width, device=packed.device)
        filled = self.present[:, :, None] & self.present[:, None]
        at = (start + column * n)[..., None] + column
        return packed[:, at * filled].masked_fill(~filled, 0.0)

    def each(self, pairs: Tensor) -> dict[int, Tensor]:
        """Splits ``[heads, B, width, width]`` into one ``[heads, n, n]`` per member."""
        return {
            g: pairs[:, b, : self.graphs.sizes[g], : self.graphs.sizes[g]]
            for b, g in enumerate(self.members)
        }
