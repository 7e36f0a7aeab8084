"""A batch sorted by size: graphs of one size form a block, without padding and without masks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Blocks:
    """The nodes, and all pairs of nodes of the same graph, with graphs sorted by size.

    B graphs of n nodes are B·n consecutive rows of the nodes ``[Σn, *]``, and B·n² consecutive rows
    of the pairs ``[Σn², *]``. A block is therefore a view of them, of shape ``[B, n, *]`` or
    ``[B, n, n, *]``. A pair (i, j) is row i, the target of messages, and column j, their source.

    Args:
        shapes: B and n of each block.
        graphs: The graphs of the batch, in the order of the blocks.
        order: ``[Σn]``, the node of the batch at each place.
        edge_pair: ``[M]``, the pair of each edge.
    """

    shapes: tuple[tuple[int, int], ...]
    graphs: tuple[int, ...]
    order: Tensor
    edge_pair: Tensor

    @classmethod
    def of(cls, sizes: Sequence[int], edge_index: Tensor) -> Blocks:
        """Sorts graphs of these sizes, with edges ``[2, M]`` between nodes of the batch."""
        device, counts = edge_index.device, torch.tensor(sizes)
        by_size = counts.argsort(stable=True)
        starts = counts.cumsum(0) - counts
        sorted_counts = counts[by_size]
        sorted_starts = sorted_counts.cumsum(0) - sorted_counts
        shift = (starts[by_size] - sorted_starts).repeat_interleave(sorted_counts)
        order = torch.arange(int(counts.sum())) + shift
        # The first pair of each node's row: the pairs of all rows before it.
        lengths = sorted_counts.repeat_interleave(sorted_counts)
        rows = lengths.cumsum(0) - lengths
        local = torch.arange(len(order)) - sorted_starts.repeat_interleave(sorted_counts)
        place = torch.empty_like(order).index_copy_(0, order, torch.arange(len(order)))
        source, target = place[edge_index.cpu()]
        shapes = tuple((count, size) for size, count in sorted(Counter(sizes).items()))
        pairs = rows[target] + local[source]
        return cls(shapes, tuple(by_size.tolist()), order.to(device), pairs.to(device))

    @cached_property
    def inverse(self) -> Tensor:
        """``[Σn]``, the place of each node of the batch."""
        places = torch.arange(len(self.order), device=self.order.device)
        return torch.empty_like(self.order).index_copy_(0, self.order, places)

    @property
    def num_pairs(self) -> int:
        """Σn², the number of pairs."""
        return sum(count * size * size for count, size in self.shapes)

    def nodes(self, x: Tensor) -> list[Tensor]:
        """Views nodes ``[Σn, *]`` as blocks ``[B, n, *]``."""
        parts = x.split([count * size for count, size in self.shapes])
        return [p.view(*shape, *x.shape[1:]) for p, shape in zip(parts, self.shapes, strict=True)]

    def pairs(self, pairs: Tensor) -> list[Tensor]:
        """Views pairs ``[Σn², *]`` as blocks ``[B, n, n, *]``."""
        parts = pairs.split([count * size * size for count, size in self.shapes])
        return [
            p.view(count, size, size, *pairs.shape[1:])
            for p, (count, size) in zip(parts, self.shapes, strict=True)
        ]

    def adjacency(self, dtype: torch.dtype) -> list[Tensor]:
        """Returns the matrices A of the simple undirected graphs, ``[B, n, n]``."""
        flat = torch.zeros(self.num_pairs, dtype=dtype, device=self.order.device)
        flat[self.edge_pair] = 1.0
        blocks = []
        for block in self.pairs(flat):
            both = torch.maximum(block, block.transpose(1, 2))
            both.diagonal(dim1=1, dim2=2).zero_()
            blocks.append(both)
        return blocks


def join_nodes(blocks: Iterable[Tensor]) -> Tensor:
    """Concatenates blocks ``[B, n, *]`` to nodes ``[Σn, *]``."""
    return torch.cat([block.flatten(0, 1) for block in blocks])


def join_pairs(blocks: Iterable[Tensor]) -> Tensor:
    """Concatenates blocks ``[B, n, n, *]`` to pairs ``[Σn², *]``."""
    return torch.cat([block.flatten(0, 2) for block in blocks])


def walk_probabilities(adjacency: Sequence[Tensor], steps: int) -> Tensor:
    r"""Returns the relative random-walk probabilities of all pairs, ``[Σn², steps]``.

    .. math::
        R_{ij} = \bigl[ I, P, P^2, \dots, P^{K-1} \bigr]_{ij}, \qquad P = D^{-1} A
    """
    pairs = []
    for a in adjacency:
        walk = a / a.sum(2, keepdim=True).clamp(min=1)
        powers = [torch.eye(a.size(1), dtype=a.dtype, device=a.device).expand_as(a)]
        for _ in range(steps - 1):
            powers.append(powers[-1] @ walk if len(powers) > 1 else walk)
        pairs.append(torch.stack(powers, -1))
    return join_pairs(pairs)


def path_distances(adjacency: Sequence[Tensor], longest: int) -> Tensor:
    """Returns the shortest-path distances of all pairs, ``[Σn²]``.

    Distances above ``longest``, also between nodes that no path connects, are ``longest`` + 1.
    """
    pairs = []
    for a in adjacency:
        reached = torch.eye(a.size(1), dtype=a.dtype, device=a.device).expand_as(a)
        distances = torch.full_like(a, longest + 1).masked_fill_(reached > 0, 0)
        for distance in range(1, longest + 1):
            reached = ((reached @ a) > 0).to(a.dtype)
            new = (reached > 0) & (distances > distance)
            if not new.any():
                break
            distances = distances.masked_fill(new, distance)
        pairs.append(distances)
    return join_pairs(pairs).long()


class BlockAttention(nn.Module):
    r"""Multi-head attention between all nodes of a graph, with an optional bias of each pair.

    .. math::
        x_i = W_O \sum_j \mathrm{softmax}_j \Bigl( \frac{q_i \cdot k_j}{\sqrt{c}} + b_{ij} \Bigr)
        f_{ij} v_j

    The parameters are those of ``torch.nn.MultiheadAttention``.

    Args:
        channels: d, the width of the nodes.
        heads: H, the number of heads.
        dropout: Dropout on attention weights.
    """

    def __init__(self, channels: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.in_proj = nn.Linear(channels, 3 * channels)
        self.out_proj = nn.Linear(channels, channels)
        nn.init.xavier_uniform_(self.in_proj.weight)
        nn.init.zeros_(self.in_proj.bias)
        nn.init.zeros_(self.out_proj.bias)

    def forward(
        self,
        x: Tensor,
        blocks: Blocks,
        bias: Sequence[Tensor] | None = None,
        factor: Sequence[Tensor] | None = None,
    ) -> Tensor:
        """Computes ``[Σn, d] → [Σn, d]``.

        Args:
            x: The nodes, in the order of the blocks.
            blocks: The graphs.
            bias: b of each block, ``[B, H, n, n]``.
            factor: f of each block, ``[B, H, n, n]``.
        """
        dropout = self.dropout if self.training else 0.0
        outputs = []
        for number, block in enumerate(blocks.nodes(self.in_proj(x))):
            graphs, size, width = block.shape
            parts = block.view(graphs, size, 3, self.heads, width // (3 * self.heads))
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            given = None if bias is None else bias[number]
            if factor is None:
                out = F.scaled_dot_product_attention(query, key, value, given, dropout)
            else:
                scores = query @ key.transpose(2, 3) / query.size(-1) ** 0.5
                weights = (scores if given is None else scores + given).softmax(-1)
                out = (F.dropout(weights, dropout) * factor[number]) @ value
            outputs.append(out.transpose(1, 2).reshape(graphs, size, width // 3))
        return self.out_proj(join_nodes(outputs))
