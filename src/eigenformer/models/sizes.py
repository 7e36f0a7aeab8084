"""Networks of the same size, to compare them with each other."""

from __future__ import annotations

import bisect
from typing import cast, get_args

import torch

from eigenformer.config import ModelConfig
from eigenformer.config.settings import kinds_of
from eigenformer.models import build_model

_WIDEST = 1024


def count_parameters(config: ModelConfig) -> int:
    """Returns the number of trainable parameters of a network. Allocates and draws nothing."""
    with torch.device("meta"):
        return build_model(config).num_parameters()


def comparable(kind: str, like: ModelConfig) -> ModelConfig:
    """Returns the settings of a network of this kind to compare another network with.

    It has the same inputs and outputs, as many layers, and the largest width that needs no more
    parameters. All other settings are the defaults of its kind.
    """
    member = kinds_of(get_args(ModelConfig))[kind]
    names = ("node_encoder", "edge_encoder", "out_channels", "layers", "pooling")
    given = {name: like.to_dict()[name] for name in names}
    heads, encoding = getattr(member, "heads", 1), getattr(member, "encoding", None)

    def config(steps: int) -> ModelConfig:
        values = {**given, "kind": kind, "hidden_dim": steps * heads}
        return cast(ModelConfig, member.from_dict(values, "model"))

    limit = count_parameters(like)
    narrowest = 1 if encoding is None else 1 + encoding.width // heads
    widths = range(narrowest, _WIDEST // heads)
    fitting = bisect.bisect(widths, limit, key=lambda steps: count_parameters(config(steps)))
    return config(widths[max(fitting - 1, 0)])
