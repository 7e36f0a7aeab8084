"""Some graphs of a batch, padded to the largest of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from eigenformer.ragged import RaggedGraphs


class PaddedGraphs:
    """Index tensors that lay out the graphs ``members`` as a block of equal width.

    Attributes:
        members: The graphs' positions in the batch, B of them.
        width: Nodes of the largest.
        present: ``[B, width]``, which places hold a node.
        node: ``[B·width]``, the node at each place. An empty place holds the graph's own first
            node, so that nothing foreign can leak into it.
        frequency: ``[B, K]``, positions among the batch's eigenvalues, filled up likewise.
        eigenvectors: ``[B, width, K]``, 0 where there is no node or no frequency.
        edge: The members' edges, as positions among those of the batch.
        edge_pair: For each of them its (target, source) pair among the B·width² pairs.
        edge_target: For each of them its target among the B·width places.
    """

    def __init__(self, graphs: RaggedGraphs, members: Sequence[int]) -> None:
        device = graphs.eigenvalues.device
        self.graphs = graphs
        self.members = tuple(members)
        index = torch.tensor(self.members)
        n = torch.tensor(graphs.sizes)
        k = torch.tensor(graphs.frequencies)
        # A graph's first node, first frequency and first entry of U, and its n and k.
        layout = torch.stack([n.cumsum(0) - n, k.cumsum(0) - k, (n * k).cumsum(0) - n * k, n, k])
        node, wave, entry, n, k = layout[:, index, None].to(device)
        self.width = max(graphs.sizes[g] for g in members)

        column = torch.arange(self.width, device=device)
        tone = torch.arange(max(graphs.frequencies[g] for g in members), device=device)
        self.present = column < n
        sounding = tone < k
        self.node = (node + column * self.present).flatten()
        self.frequency = wave + tone * sounding
        filled = self.present[..., None] & sounding[:, None]
        entries = entry[..., None] + column[:, None] * k[..., None] + tone
        entries = entries.masked_fill(~filled, 0)
        self.eigenvectors = graphs.eigenvectors[entries].masked_fill(~filled, 0.0)

        # Where each node of the batch went, if it is here at all.
        places = torch.full((graphs.num_nodes,), -1, device=device)
        here = self.present.flatten()
        places[self.node[here]] = here.nonzero().squeeze(1)
        self.edge = (places[graphs.edge_index[1]] >= 0).nonzero().squeeze(1)
        source, self.edge_target = places[graphs.edge_index[:, self.edge]]
        self.edge_pair = self.edge_target * self.width + source % self.width

    def __len__(self) -> int:
        return len(self.members)

    def importance(self, importance: Tensor) -> Tensor:
        """``[heads, Σk] → [heads, B, K]``."""
        picked = importance.index_select(1, self.frequency.flatten())
        return picked.view(-1, *self.frequency.shape)

    def heads_first(self, places: Tensor) -> Tensor:
        """``[B·width, heads, C] → [heads, B, width, C]``."""
        return places.view(len(self), self.width, *places.shape[1:]).permute(2, 0, 1, 3)

    def pairs(self, packed: Tensor) -> Tensor:
        """``[heads, Σn²] → [heads, B, width, width]``, 0 where there is no pair."""
        first = [0, *accumulate(n * n for n in self.graphs.sizes)]
        start = torch.tensor([first[g] for g in self.members], device=packed.device)
        n = torch.tensor([self.graphs.sizes[g] for g in self.members], device=packed.device)
        column = torch.arange(self.width, device=packed.device)
        entries = (start[:, None] + column * n[:, None])[..., None] + column
        filled = self.present[:, :, None] & self.present[:, None]
        return packed[:, entries.masked_fill(~filled, 0)].masked_fill(~filled, 0.0)

    def each(self, pairs: Tensor) -> dict[int, Tensor]:
        """``[heads, B, width, width]`` as one ``[heads, n, n]`` per member."""
        return {
            g: pairs[:, b, : self.graphs.sizes[g], : self.graphs.sizes[g]]
            for b, g in enumerate(self.members)
        }
