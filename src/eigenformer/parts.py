"""The exchangeable parts of a model, given by name (see ``options.py``) or as a function.

A function that makes a part takes the same arguments as the classes here:

- a norm: the width;
- a feed-forward network: the width, its hidden width, and dropout;
- a local branch: the width, whether edges carry features, and dropout;
- a head: the width and the number of outputs.
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
"""The name of a part, or a function that makes it."""


def make_norm(norm: Part, channels: int, affine: bool = False) -> nn.Module:
    """Makes a norm. ``affine`` is whether a batch norm has a learned scale and shift."""
    make = _maker("norm", norm, NORMS)
    return BatchNorm(channels, affine=affine) if make is BatchNorm else make(channels)


def make_feed_forward(network: Part, channels: int, width: int, dropout: float) -> nn.Module:
    """Makes a feed-forward network, ``[Σn, d] → [Σn, d]``."""
    return _maker("feed_forward", network, FEED_FORWARDS)(channels, width, dropout)


def make_local_branch(
    branch: Part, channels: int, edge_features: bool, dropout: float
) -> nn.Module:
    """Makes a local branch, which takes nodes ``[Σn, d]``, the kernel of the batch, and
    Edges or None.
    """
    return _maker("local_branch", branch, LOCAL_BRANCHES)(channels, edge_features, dropout)


def make_head(
    channels: int, out_channels: int, layers: int = 1, narrowing: bool = True
) -> nn.Module:
    """Makes a head, which maps a graph or a node to its predictions.

    A head is a linear map, or a network with ReLUs in which each hidden layer has half the width of
    the previous one or, if it is not ``narrowing``, the same width.
    """
    modules: list[nn.Module] = []
    for _ in range(layers - 1):
        narrower = max(channels // 2, 1) if narrowing else channels
        modules += [nn.Linear(channels, narrower), nn.ReLU()]
        channels = narrower
    last = nn.Linear(channels, out_channels)
    return nn.Sequential(*modules, last) if modules else last


def takes_graphs(norm: nn.Module) -> bool:
    """Returns whether a norm takes the graph of each node, as many of PyG's norms do."""
    return "batch" in inspect.signature(norm.forward).parameters


def describe(part: nn.Module) -> tuple[str, ...]:
    """Returns a short description of a part, one string per line.

    Uses the part's own ``describe`` if it has one. Otherwise describes linear maps by their sizes,
    and any other part by its class name.
    """
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
