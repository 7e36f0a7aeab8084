"""The measured models: the Eigenformer with each backend, and its peers."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from eigenformer.attention import SpectrumAwareAttention
from eigenformer.models import build_model
from eigenformer.options import Backend
from eigenformer.speed.setups import PEERS, Setup


def make_model(setup: Setup) -> nn.Module:
    """Builds a module that takes a batch and returns a tensor to sum."""
    if setup.model in PEERS:
        return build_model(setup.config())
    if setup.part == "attention":
        return _Attention(setup)
    return build_model(setup.config(), cast(Backend, setup.model))


class _Attention(nn.Module):
    """One attention layer without edge features, on constant nodes."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        config = setup.eigenformer()
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
        place = self.attention.value.weight.device
        shape = data.num_nodes or 0, self.attention.channels
        x = torch.ones(shape, requires_grad=True, device=place)
        return self.attention(x, data)
