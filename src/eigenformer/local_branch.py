"""A local branch beside the attention: messages along real edges."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from eigenformer.edges import Edges
from eigenformer.kernels import AttentionKernel


class LocalBranch(nn.Module):
    r"""Sums messages from the neighbours of a node, as GINE does in `"Strategies for Pre-training
    Graph Neural Networks" <https://arxiv.org/abs/1905.12265>`_. Runs beside attention, as in
    `"Recipe for a General, Powerful, Scalable Graph Transformer"
    <https://arxiv.org/abs/2205.12454>`_.

    .. math::
        \ell_i = W_2 \, \rho \Bigl( W_1 \bigl( x_i + \sum_{j \to i} \rho(x_j + W_E e_{ij}) \bigr)
        \Bigr)

    where :math:`j` runs over the edges :math:`j \to i`, the columns :math:`(j, i)` of PyG's
    ``edge_index``. Parallel edges count once, with the sum of their features.

    Args:
        channels: d, the width of nodes and edges.
        edge_features: Whether edges carry features.
        dropout: Dropout on the result.
    """

    def __init__(self, channels: int, edge_features: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.edge = nn.Linear(channels, channels) if edge_features else None  # W_E
        self.hidden = nn.Linear(channels, channels)  # W_1
        self.out = nn.Linear(channels, channels)  # W_2
        self.dropout = nn.Dropout(dropout)

    def reset_parameters(self) -> None:
        """Draws new initial weights."""
        for module in self.children():
            if isinstance(module, nn.Linear):
                module.reset_parameters()

    def forward(self, x: Tensor, kernel: AttentionKernel, edges: Edges | None = None) -> Tensor:
        """Computes ``[Σn, d] → [Σn, d]``. Pass ``edges`` if the branch has ``edge_features``."""
        source, target = kernel.graphs.edge_index
        messages = x.index_select(0, source)
        if self.edge is not None and edges is not None:
            messages += edges.project(self.edge.weight, self.edge.bias)
        total = x.index_add(0, target, F.relu(messages, inplace=True))
        return self.dropout(self.out(F.relu(self.hidden(total), inplace=True)))

    def describe(self) -> tuple[str, ...]:
        """Returns a short description, one string per line."""
        return "plus local branch", "along edges"
