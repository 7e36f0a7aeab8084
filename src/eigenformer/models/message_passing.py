"""Message-passing networks from PyG, with the encoders, the pool and the head of all models."""

from __future__ import annotations

import bisect
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GIN, GINEConv, GPSConv, ResGatedGraphConv

from eigenformer.batch_norm import check_batch_norm
from eigenformer.config import EigenformerConfig, MessagePassingConfig
from eigenformer.encoders import build_encoder
from eigenformer.models import build_model
from eigenformer.models.base import Model
from eigenformer.options import Convolution
from eigenformer.parts import make_head
from eigenformer.ragged import checked_edges, graph_of_nodes

# Networks that PyG provides as a whole, and that use no edge features.
_WHOLE = {"gcn": GCN, "gin": GIN}
# Size of GPS on ZINC in "Recipe for a General, Powerful, Scalable Graph Transformer".
_GPS_LAYERS, _GPS_WIDTH = 10, 64


class MessagePassing(Model):
    """A message-passing network from PyG.

    It uses nodes, edges and, depending on the convolution, edge features. The convolutions are:

    * ``gcn``: `"Semi-supervised Classification with Graph Convolutional Networks"
      <https://arxiv.org/abs/1609.02907>`_
    * ``gin``: `"How Powerful are Graph Neural Networks?" <https://arxiv.org/abs/1810.00826>`_
    * ``gine``: `"Strategies for Pre-training Graph Neural Networks"
      <https://arxiv.org/abs/1905.12265>`_
    * ``gated``: `"Residual Gated Graph ConvNets" <https://arxiv.org/abs/1711.07553>`_
    * ``gps``: GINE beside attention, from `"Recipe for a General, Powerful, Scalable Graph
      Transformer" <https://arxiv.org/abs/2205.12454>`_

    Args:
        config: The architecture.
    """

    config: MessagePassingConfig

    def __init__(self, config: MessagePassingConfig) -> None:
        super().__init__(config)
        d = config.hidden_dim
        self.node_encoder = build_encoder(config.node_encoder, d)
        sees_edges = config.edge_encoder is not None and config.convolution not in _WHOLE
        self.edge_encoder = (
            build_encoder(config.edge_encoder, d) if sees_edges and config.edge_encoder else None
        )
        self.layers = make_layers(
            config.convolution,
            config.layers,
            d,
            edge_features=sees_edges,
            dropout=config.dropout,
            heads=config.heads,
            attention_dropout=config.attention_dropout,
        )
        self.head = make_head(d, config.out_channels)

    def forward(self, batch: Data) -> Tensor:
        """Predicts for every graph ``[B, out]``, or for every node ``[Σn, out]``."""
        node_graph, num_graphs = graph_of_nodes(batch)
        edge_index = checked_edges(batch, node_graph)
        x, edge_attr = self.features(batch, node_graph)
        check_batch_norm(self, len(node_graph))
        edges = None
        if self.edge_encoder is not None and edge_attr is not None:
            edges = self.edge_encoder(edge_attr)
        x = self.layers(self.node_encoder(x), edge_index, edges, node_graph)
        pooled = self.pool(x, node_graph, num_graphs)
        return self.head(x if pooled is None else pooled)


def make_layers(
    convolution: Convolution,
    layers: int,
    width: int,
    edge_features: bool = True,
    dropout: float = 0.0,
    heads: int = 4,
    attention_dropout: float = 0.0,
) -> nn.Module:
    """Builds the layers alone.

    They take the encoded nodes, ``edge_index``, the encoded edges and ``node_graph``.
    """
    if convolution in _WHOLE:
        return _WholeNetwork(convolution, layers, width, dropout)

    def gine() -> nn.Module:
        mlp = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        return GINEConv(mlp)

    attention = {"dropout": attention_dropout}
    make: dict[str, Callable[[], nn.Module]] = {
        "gps": lambda: GPSConv(width, gine(), heads, dropout=dropout, attn_kwargs=attention),
        "gated": lambda: ResGatedGraphConv(width, width, edge_dim=width if edge_features else None),
        "gine": gine,
    }
    return _Convolutions([make[convolution]() for _ in range(layers)], width, dropout)


class _Convolutions(nn.Module):
    """Convolutions, each followed by batch norm, ReLU, dropout and a residual connection.

    GPSConv contains these itself.
    """

    def __init__(self, layers: list[nn.Module], width: int, dropout: float) -> None:
        super().__init__()
        inside = isinstance(layers[0], GPSConv)
        self.layers = nn.ModuleList(layers)
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in layers[len(layers) * inside :])
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(
        self, x: Tensor, edge_index: Tensor, edges: Tensor | None, node_graph: Tensor
    ) -> Tensor:
        if edges is None and not isinstance(self.layers[0], ResGatedGraphConv):
            edges = x.new_zeros(1, x.size(1)).expand(edge_index.size(1), -1)
        for i, layer in enumerate(self.layers):
            if self.norms:
                x = x + self.dropout(self.norms[i](layer(x, edge_index, edges)).relu())
            else:
                x = layer(x, edge_index, node_graph, edge_attr=edges)
        return x


class _WholeNetwork(nn.Module):
    """GCN or GIN, computed with a sparse product instead of one message per edge."""

    def __init__(self, convolution: str, layers: int, width: int, dropout: float) -> None:
        super().__init__()
        self.network = _WHOLE[convolution](width, width, layers, dropout=dropout, norm="BatchNorm")

    def forward(
        self, x: Tensor, edge_index: Tensor, edges: Tensor | None, node_graph: Tensor
    ) -> Tensor:
        ones = x.new_ones(edge_index.size(1))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse ")  # CSR is in beta in PyTorch
            pairs = torch.sparse_coo_tensor(edge_index.flip(0), ones, (len(x), len(x)))
            adjacency = pairs.to_sparse_csr()  # Aᵀ in compressed rows
        return self.network(x, adjacency)


def comparable(convolution: Convolution, like: EigenformerConfig) -> MessagePassingConfig:
    """Returns the settings of a network to compare an Eigenformer with.

    It has the same encoders and outputs, as many layers, and the largest width that needs no more
    parameters. GPS is an exception: it has ten layers of width 64, as published.
    """
    layers = _GPS_LAYERS if convolution == "gps" else like.layers

    def config(width: int) -> MessagePassingConfig:
        return MessagePassingConfig(
            node_encoder=like.node_encoder,
            out_channels=like.out_channels,
            edge_encoder=like.edge_encoder,
            layers=layers,
            hidden_dim=width,
            pooling=like.pooling,
            convolution=convolution,
            attention_dropout=0.5 if convolution == "gps" else 0.0,
        )

    if convolution == "gps":
        return config(_GPS_WIDTH)
    with torch.device("meta"):
        parameters = build_model(like).num_parameters()
    return config(widest(lambda width: build_model(config(width)), parameters))


def widest(make: Callable[[int], nn.Module], parameters: int) -> int:
    """Returns the largest width, at least 1, of a network with at most this many parameters."""

    def size(width: int) -> int:
        return sum(p.numel() for p in make(width).parameters())

    with torch.device("meta"):  # shapes only: no memory, no random numbers
        return max(bisect.bisect(range(1, 1024), parameters, key=size), 1)
