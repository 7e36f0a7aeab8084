"""The exchangeable parts of a model: by name, see ``options.py``, or by what makes them.

Whatever makes a part is called as the classes here are: a norm with the width; a feed-forward
network with the width, its hidden width and dropout; a local branch with the width, whether edges
carry features, and dropout; a head with the width and the number of outputs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from eigenformer.batch_norm import BatchNorm
from eigenformer.lazy import find
from eigenformer.nearest import unknown
from eigenformer.options import FEED_FORWARDS, LOCAL_BRANCHES, NORMS

Part = str | Callable[..., nn.Module]
"""A part's name, or what makes it."""


def make_norm(norm: Part, channels: int, affine: bool = False) -> nn.Module:
    """A norm; ``affine`` is whether a batch norm scales and shifts."""
    make = _maker("norm", norm, NORMS)
    return BatchNorm(channels, affine=affine) if make is BatchNorm else make(channels)


def make_feed_forward(network: Part, channels: int, width: int, dropout: float) -> nn.Module:
    """A feed-forward network, ``[Σn, d] → [Σn, d]``."""
    return _maker("feed_forward", network, FEED_FORWARDS)(channels, width, dropout)


def make_local_branch(
    branch: Part, channels: int, edge_features: bool, dropout: float
) -> nn.Module:
    """A local branch: called with nodes ``[Σn, d]``, RaggedGraphs, and Edges or None."""
    return _maker("local_branch", branch, LOCAL_BRANCHES)(channels, edge_features, dropout)


def make_head(channels: int, out_channels: int, layers: int = 1) -> nn.Module:
    """From a graph or a node to its predictions: a linear map, or a network that narrows.

    Each hidden layer has half the width of the one before it, and a ReLU.
    """
    modules: list[nn.Module] = []
    for _ in range(layers - 1):
        narrower = max(channels // 2, 1)
        modules += [nn.Linear(channels, narrower), nn.ReLU()]
        channels = narrower
    last = nn.Linear(channels, out_channels)
    return nn.Sequential(*modules, last) if modules else last


def takes_graphs(norm: nn.Module) -> bool:
    """Whether a norm is told which graph each node is in, as many of PyG's are."""
    return "batch" in inspect.signature(norm.forward).parameters


def describe(part: nn.Module) -> tuple[str, ...]:
    """A part in a few words, line by line: its own, or what it is called."""
    own = getattr(part, "describe", None)
    if own is not None:
        return own()
    maps = [part] if isinstance(part, nn.Linear) else [*part.children()]
    linear = [m for m in maps if isinstance(m, nn.Linear)]
    if linear and all(isinstance(m, nn.Linear | nn.ReLU) for m in maps):
        sizes = " → ".join(map(str, [*(m.in_features for m in linear), linear[-1].out_features]))
        return (f"linear {sizes}",) if len(linear) == 1 else ("linear maps, ReLU", sizes)
    return (type(part).__name__,)


def _maker(what: str, part: Part, known: Mapping[str, str]) -> Callable[..., Any]:
    if not isinstance(part, str):
        return part
    if part not in known:
        raise ValueError(unknown(f"{what}: '{part}'", part, known))
    return find(known[part])
