"""The models that are measured: the Eigenformer by each backend, and its peers from PyG."""

from __future__ import annotations

import bisect
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from eigenformer.attention import SpectrumAwareAttention
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.speed.setups import PEERS, Setup


def make_model(setup: Setup) -> nn.Module:
    """A module that takes a batch and returns a tensor to sum."""
    config = setup.config()
    if setup.model in PEERS:
        return _peer(setup.model, config.layers, Eigenformer(config).num_parameters())
    if setup.part == "attention":
        return _Attention(setup)
    return Eigenformer(config, setup.model)  # type: ignore[arg-type]


class _Attention(nn.Module):
    """One attention layer, without edges, on given nodes."""

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
            backend=setup.model,  # type: ignore[arg-type]
        )

    def forward(self, data: Data) -> Tensor:
        x = torch.ones(data.num_nodes or 0, self.attention.channels, requires_grad=True)
        return self.attention(x, data)


class _Stack(nn.Module):
    """Layers of PyG on given features, each followed by batch norm, ReLU and a residual, which
    GPSConv has inside.
    """

    def __init__(self, layers: list[nn.Module], width: int, inside: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norms = nn.ModuleList(
            nn.BatchNorm1d(width) for _ in range(0 if inside else len(layers))
        )
        self.width = width
        self.features: dict[int, tuple[Tensor, Tensor]] = {}

    def forward(self, data: Data) -> Tensor:
        if id(data) not in self.features:  # made once per batch: no part of a step
            x, edges = (torch.randn(n or 0, self.width) for n in (data.num_nodes, data.num_edges))
            self.features[id(data)] = x, edges
        x, edges = self.features[id(data)]
        for i, layer in enumerate(self.layers):
            if self.norms:
                x = x + self.norms[i](layer(x, data.edge_index, edges)).relu()
            else:
                x = layer(x, data.edge_index, data.batch, edge_attr=edges)
        return x


def _peer(name: str, layers: int, parameters: int) -> nn.Module:
    if name == "gps":
        return _build_peer(name, 10, 64)

    # The widest that has no more parameters than the Eigenformer; they grow with the width.
    def size(width: int) -> int:
        return sum(p.numel() for p in _build_peer(name, layers, width).parameters())

    with torch.device("meta"):
        width = bisect.bisect(range(1, 1024), parameters, key=size)
    return _build_peer(name, layers, max(width, 1))


def _build_peer(name: str, layers: int, width: int) -> nn.Module:
    from torch_geometric.nn import GINEConv, GPSConv, ResGatedGraphConv

    def gine() -> nn.Module:
        mlp = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        return GINEConv(mlp)

    make: dict[str, Callable[[], nn.Module]] = {
        "gps": lambda: GPSConv(width, gine(), heads=4, attn_kwargs={"dropout": 0.5}),
        "gated": lambda: ResGatedGraphConv(width, width, edge_dim=width),
        "gine": gine,
    }
    return _Stack([make[name]() for _ in range(layers)], width, inside=name == "gps")
