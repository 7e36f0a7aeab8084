"""A local branch with gates: each channel of each edge decides how much it passes."""

from __future__ import annotations

from torch import Tensor, nn

from eigenformer.edges import Edges
from eigenformer.kernels import AttentionKernel


class GatedBranch(nn.Module):
    r"""Averages messages from the neighbours of a node, with learned gates as weights, as in
    `"Residual Gated Graph ConvNets" <https://arxiv.org/abs/1711.07553>`_. Runs beside attention,
    as in `"Recipe for a General, Powerful, Scalable Graph Transformer"
    <https://arxiv.org/abs/2205.12454>`_.

    .. math::
        \ell_i = \frac{\sum_{j \to i} \eta_{ij} \odot V x_j}{\sum_{j \to i} \eta_{ij} + \epsilon},
        \qquad \eta_{ij} = \sigma(A x_i + B x_j + C e_{ij})

    where :math:`j` runs over the edges :math:`j \to i`, the columns :math:`(j, i)` of PyG's
    ``edge_index``. Parallel edges count once, with the sum of their features. Unlike the original,
    edges keep their features from layer to layer, and the node itself is left to the residual
    connection.

    Args:
        channels: d, the width of nodes and edges.
        edge_features: Whether edges carry features.
        dropout: Dropout on the result.
    """

    def __init__(self, channels: int, edge_features: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.target = nn.Linear(channels, channels)  # A
        self.source = nn.Linear(channels, channels, bias=False)  # B; A has the bias
        self.edge = nn.Linear(channels, channels) if edge_features else None  # C
        self.value = nn.Linear(channels, channels)  # V
        self.dropout = nn.Dropout(dropout)

    def reset_parameters(self) -> None:
        """Draws new initial weights."""
        for module in self.children():
            if isinstance(module, nn.Linear):
                module.reset_parameters()

    def forward(self, x: Tensor, kernel: AttentionKernel, edges: Edges | None = None) -> Tensor:
        """Computes ``[Σn, d] → [Σn, d]``. Pass ``edges`` if the branch has ``edge_features``."""
        target, terms = self.target(x), None
        if self.edge is not None and edges is not None:
            everywhere, terms = edges.shared(self.edge.weight, self.edge.bias)
            target = target + everywhere
        return self.dropout(kernel.gated_mean(target, self.source(x), self.value(x), terms))

    def describe(self) -> tuple[str, ...]:
        """Returns a short description, one string per line."""
        return "plus gated branch", "along edges"
