"""Message-passing networks: PyG's convolutions, in one kind of block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, GINEConv, PNAConv

from eigenformer.config import MessagePassingConfig
from eigenformer.models.gated_gcn import GatedGCNLayer
from eigenformer.models.peer import Inputs, Peer


class MessagePassing(Peer):
    """A message-passing network, named by the ``kind`` of its settings:

    * ``gcn``: `"Semi-supervised Classification with Graph Convolutional Networks"
      <https://arxiv.org/abs/1609.02907>`_
    * ``gin``: `"How Powerful are Graph Neural Networks?" <https://arxiv.org/abs/1810.00826>`_
    * ``gine``: `"Strategies for Pre-training Graph Neural Networks"
      <https://arxiv.org/abs/1905.12265>`_
    * ``gat``: `"Graph Attention Networks" <https://arxiv.org/abs/1710.10903>`_
    * ``gatedgcn``: `"Residual Gated Graph ConvNets" <https://arxiv.org/abs/1711.07553>`_
    * ``pna``: `"Principal Neighbourhood Aggregation for Graph Nets"
      <https://arxiv.org/abs/2004.05718>`_

    A block is a convolution, batch norm, ReLU, dropout and a residual connection, as in
    `"Benchmarking Graph Neural Networks" <https://arxiv.org/abs/2003.00982>`_.

    Args:
        config: The architecture.
    """

    config: MessagePassingConfig

    def __init__(self, config: MessagePassingConfig) -> None:
        chosen = _CONVOLUTIONS[config.kind]
        super().__init__(config, sees_edges=chosen.edges != "ignored")
        self.needs_edges = chosen.edges == "needed"
        self.layers = nn.ModuleList(chosen.make(config) for _ in range(config.layers))

    def nodes(self, inputs: Inputs) -> Tensor:
        """Computes the last nodes, ``[Σn, d]``, in the order of the batch."""
        x, edges = inputs.x, inputs.edges
        if edges is None and self.needs_edges:
            edges = x.new_zeros(inputs.edge_index.size(1), x.size(1))
        for layer in self.layers:
            x, edges = layer(x, inputs.edge_index, edges)
        return x


class ConvolutionBlock(nn.Module):
    """A convolution of PyG, followed by batch norm, ReLU, dropout and a residual connection.

    Args:
        convolution: Called with nodes, ``edge_index`` and, unless they are None, encoded edges.
        channels: d, the width of the nodes.
        dropout: Dropout on the nodes, before they are added.
    """

    def __init__(self, convolution: nn.Module, channels: int, dropout: float) -> None:
        super().__init__()
        self.convolution = convolution
        self.norm = nn.BatchNorm1d(channels)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, edge_index: Tensor, edges: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Computes the next nodes ``[Σn, d]``; the edges stay as they are."""
        named = {} if edges is None else {"edge_attr": edges}
        received = self.convolution(x, edge_index, **named)
        return x + self.dropout(self.norm(received).relu()), edges


def gine(channels: int) -> GINEConv:
    """Makes GINE's convolution, with a network of two layers."""
    return GINEConv(_two_layers(channels))


def _two_layers(channels: int) -> nn.Module:
    return nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, channels))


def _gat(config: MessagePassingConfig) -> nn.Module:
    d, edges = config.hidden_dim, config.edge_encoder is not None
    return GATConv(d, d // config.heads, config.heads, edge_dim=d if edges else None)


def _pna(config: MessagePassingConfig) -> nn.Module:
    d, edges = config.hidden_dim, config.edge_encoder is not None
    # PyG takes a histogram of degrees, and keeps their mean and mean logarithm.
    histogram = torch.zeros(config.typical_degree + 1, device="cpu")
    histogram[-1] = 1
    return PNAConv(
        *(d, d, ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"]),
        deg=histogram.long(),
        edge_dim=d if edges else None,
    )


def _block(
    convolution: Callable[[MessagePassingConfig], nn.Module],
) -> Callable[[MessagePassingConfig], nn.Module]:
    return lambda config: ConvolutionBlock(convolution(config), config.hidden_dim, config.dropout)


class _Convolution(NamedTuple):
    """How a layer is made, and what it does with edge features: if it needs them, and there are
    none, they are zeros.
    """

    make: Callable[[MessagePassingConfig], nn.Module]
    edges: Literal["ignored", "used", "needed"]


_CONVOLUTIONS = {
    "gcn": _Convolution(_block(lambda c: GCNConv(c.hidden_dim, c.hidden_dim)), "ignored"),
    "gin": _Convolution(_block(lambda c: GINConv(_two_layers(c.hidden_dim))), "ignored"),
    "gine": _Convolution(_block(lambda c: gine(c.hidden_dim)), "needed"),
    "gat": _Convolution(_block(_gat), "used"),
    "pna": _Convolution(_block(_pna), "used"),
    "gatedgcn": _Convolution(lambda c: GatedGCNLayer(c.hidden_dim, c.dropout), "needed"),
}
