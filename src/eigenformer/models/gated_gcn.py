"""The layer of GatedGCN, which PyG has without states of edges."""

from __future__ import annotations

from torch import Tensor, nn
from torch_geometric.utils import scatter


class GatedGCNLayer(nn.Module):
    r"""Residual gated graph convolution with states of edges, from `"Residual Gated Graph ConvNets"
    <https://arxiv.org/abs/1711.07553>`_, as in `"Benchmarking Graph Neural Networks"
    <https://arxiv.org/abs/2003.00982>`_.

    .. math::
        \hat{e}_{ij} &= C e_{ij} + D x_i + E x_j \\
        \eta_{ij} &= \frac{\sigma(\hat{e}_{ij})}{\sum_{k \to i} \sigma(\hat{e}_{ik}) + \epsilon} \\
        x_i' &= x_i + \rho \Bigl( \mathrm{BN} \bigl( A x_i
        + \sum_{j \to i} \eta_{ij} \odot B x_j \bigr) \Bigr) \\
        e_{ij}' &= e_{ij} + \rho ( \mathrm{BN} ( \hat{e}_{ij} ) )

    Args:
        channels: d, the width of nodes and edges.
        dropout: Dropout on nodes and edges, before they are added.
    """

    def __init__(self, channels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.nodes = nn.Linear(channels, 4 * channels)  # A, B, D, E
        self.edge = nn.Linear(channels, channels)  # C
        self.node_norm = nn.BatchNorm1d(channels)
        self.edge_norm = nn.BatchNorm1d(channels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the next nodes ``[Σn, d]`` and edges ``[M, d]``."""
        source, target = edge_index
        own, message, to, of = self.nodes(x).chunk(4, 1)
        hidden = self.edge(edges) + to[target] + of[source]
        gates = hidden.sigmoid()
        total = scatter(gates, target, 0, len(x))
        received = scatter(gates * message[source], target, 0, len(x)) / (total + 1e-6)
        x = x + self.dropout(self.node_norm(own + received).relu())
        if self.training and len(edges) < 2:  # too few to normalise, as in a batch without edges
            return x, edges
        return x, edges + self.dropout(self.edge_norm(hidden).relu())
