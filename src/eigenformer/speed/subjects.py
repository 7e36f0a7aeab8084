"""The measured models: the Eigenformer with each backend, and its peers from PyG."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from eigenformer.attention import SpectrumAwareAttention
from eigenformer.config import EigenformerConfig
from eigenformer.models import build_model, comparable
from eigenformer.models.message_passing import make_layers, widest
from eigenformer.options import Backend, Convolution
from eigenformer.speed.setups import PEERS, Setup


def make_model(setup: Setup) -> nn.Module:
    """Builds a module that takes a batch and returns a tensor to sum."""
    config = setup.config()
    if setup.model in PEERS:
        return _peer(cast(Convolution, setup.model), config)
    if setup.part == "attention":
        return _Attention(setup)
    return build_model(config, cast(Backend, setup.model))


class _Attention(nn.Module):
    """One attention layer without edge features, on constant nodes."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        config = setup.config()
        self.attention = SpectrumAwareAttention(
            config.hidden_dim,
            config.heads,
            config.phi_width,
            config.phi_depth,
            feature_attention=config.feature_attention,
            dropout=config.attention_dropout,
            backend=cast(Backend, setup.model),
        )

    def forward(self, data: Data) -> Tensor:
        device = data.eigenvectors.device
        size = data.num_nodes or 0, self.attention.channels
        x = torch.ones(size, device=device, requires_grad=True)
        return self.attention(x, data)


class _Peer(nn.Module):
    """The layers of a message-passing network, on encoded features."""

    def __init__(self, convolution: Convolution, layers: int, width: int) -> None:
        super().__init__()
        dropout = 0.5 if convolution == "gps" else 0.0
        self.layers = make_layers(convolution, layers, width, attention_dropout=dropout)
        self.width = width
        self.features: dict[int, tuple[Tensor, Tensor]] = {}

    def forward(self, data: Data) -> Tensor:
        if id(data) not in self.features:  # made once per batch, not in every step
            device, counts = data.edge_index.device, (data.num_nodes, data.num_edges)
            x, edges = (torch.randn(n or 0, self.width, device=device) for n in counts)
            self.features[id(data)] = x, edges
        x, edges = self.features[id(data)]
        return self.layers(x, data.edge_index, edges, data.batch)


def _peer(convolution: Convolution, like: EigenformerConfig) -> nn.Module:
    """Builds a peer sized as in :func:`comparable`, but counting the parameters of layers only."""
    if convolution == "gps":
        config = comparable(convolution, like)
        return _Peer(convolution, config.layers, config.hidden_dim)
    with torch.device("meta"):
        parameters = build_model(like).num_parameters()
    width = widest(lambda width: _Peer(convolution, like.layers, width), parameters)
    return _Peer(convolution, like.layers, width)
