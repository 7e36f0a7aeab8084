"""The linear pieces of scalar ReLU networks as a PyTorch operator, with gradients."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenformer.kernels.native.address import address
from eigenformer.kernels.native.binding import library
from eigenformer.kernels.native.structures import Networks
from eigenformer.scalar_mlp import check_pieces

_SCHEMA = "Tensor[] weights, Tensor[] biases, Tensor low, Tensor high, int modules"


@torch.library.custom_op(
    "eigenformer::linear_pieces", mutates_args=(), schema=f"({_SCHEMA}) -> (Tensor, Tensor, Tensor)"
)
def linear_pieces(
    weights: Sequence[Tensor], biases: Sequence[Tensor], low: Tensor, high: Tensor, modules: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns knots, slopes and intercepts of all heads of all modules, as in ``LinearPieces``.

    Args:
        weights: Weights ``[heads, out, in]``, module after module, layer by layer.
        biases: Biases ``[heads, out]``, in the same order.
        low: Lower ends of the ranges, one per head and module.
        high: Upper ends of the ranges.
        modules: Number of modules, each a network with several heads.
    """
    functions = len(low)
    # A unit of any layer usually switches once or twice in the range.
    segments = 1 + 2 * sum(bias.size(1) for bias in biases[: len(biases) // max(modules, 1) - 1])
    room = 0
    while room < segments:
        room = segments
        knots = low.new_empty(functions, room - 1)
        slopes, intercepts = low.new_empty(functions, room), low.new_empty(functions, room)
        outputs = knots, slopes, intercepts
        networks = _networks(weights, biases, low, high, modules, outputs)
        segments = library().linear_pieces(networks)
        check_pieces(segments)
    return (
        knots[:, : segments - 1].contiguous(),
        slopes[:, :segments].contiguous(),
        intercepts[:, :segments].contiguous(),
    )


@torch.library.custom_op(
    "eigenformer::linear_pieces_backward",
    mutates_args=(),
    schema=f"({_SCHEMA}, Tensor d_slopes, Tensor d_intercepts) -> Tensor[]",
)
def linear_pieces_backward(
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    low: Tensor,
    high: Tensor,
    modules: int,
    d_slopes: Tensor,
    d_intercepts: Tensor,
) -> list[Tensor]:
    """Returns the gradients of all weights, then of all biases."""
    d_weights, d_biases = ([torch.empty_like(x) for x in part] for part in (weights, biases))
    gradients = d_slopes, d_intercepts
    networks = _networks(weights, biases, low, high, modules, gradients, (d_weights, d_biases))
    library().linear_pieces_backward(networks)
    return d_weights + d_biases


@linear_pieces.register_fake
def _(
    weights: Sequence[Tensor], biases: Sequence[Tensor], low: Tensor, high: Tensor, modules: int
) -> tuple[Tensor, Tensor, Tensor]:
    # The number of knots depends on the weights.
    knots = torch.library.get_ctx().new_dynamic_size()
    sizes = knots, knots + 1, knots + 1
    a, b, c = (low.new_empty(len(low), size) for size in sizes)
    return a, b, c


@linear_pieces_backward.register_fake
def _(weights: Sequence[Tensor], biases: Sequence[Tensor], *_: Any) -> list[Tensor]:
    return [torch.empty_like(x) for x in (*weights, *biases)]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    weights, biases, low, high, ctx.modules = inputs
    ctx.save_for_backward(*weights, *biases, low, high)
    ctx.mark_non_differentiable(output[0])


def _gradients(
    ctx: Any, _: Tensor, d_slopes: Tensor, d_intercepts: Tensor
) -> tuple[list[Tensor] | None, ...]:
    *parameters, low, high = ctx.saved_tensors
    half = len(parameters) // 2
    weights, biases = parameters[:half], parameters[half:]
    given = d_slopes.contiguous(), d_intercepts.contiguous()
    found = linear_pieces_backward(weights, biases, low, high, ctx.modules, *given)
    return found[:half], found[half:], None, None, None


linear_pieces.register_autograd(_gradients, setup_context=_setup)


def _networks(
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    low: Tensor,
    high: Tensor,
    modules: int,
    pieces: Sequence[Tensor],
    gradients: Sequence[Sequence[Tensor]] = ((), ()),
) -> Networks:
    """Returns the structure that describes networks to the library.

    ``pieces`` are knots, slopes and intercepts, or the gradients of slopes and intercepts.
    """
    if modules < 1 or len(weights) % modules or len(weights) != len(biases):
        raise ValueError("weights, biases: expected as many of each for every module")
    layers = len(weights) // modules
    if layers < 2 or weights[0].dim() != 3 or not weights[0].numel():
        raise ValueError("weights: expected a hidden layer or more of [heads, out, in]")
    heads, width = weights[0].shape[:2]
    functions, depth = heads * modules, layers - 1
    sizes = [1, *[width] * depth, 1]
    shapes = [(heads, sizes[layer + 1], sizes[layer]) for layer in range(layers)] * modules
    *knots, slopes, intercepts = pieces
    if slopes.dim() != 2:
        raise ValueError("slopes: expected 2 dimensions")
    room = slopes.size(1)
    d_weights, d_biases = (
        _addresses(part, "gradients", [x.shape for x in part]) for part in gradients
    )
    return Networks(
        functions=functions,
        heads=heads,
        width=width,
        depth=depth,
        capacity=room,
        weights=_addresses(weights, "weights", shapes),
        biases=_addresses(biases, "biases", [shape[:2] for shape in shapes]),
        low=address(low, "low", (functions,)),
        high=address(high, "high", (functions,)),
        knots=address(knots[0], "knots", (functions, room - 1)) if knots else None,
        slopes=address(slopes, "slopes", (functions, room)),
        intercepts=address(intercepts, "intercepts", (functions, room)),
        d_weights=d_weights,
        d_biases=d_biases,
        threads=torch.get_num_threads(),
    )


def _addresses(
    tensors: Sequence[Tensor], name: str, shapes: Sequence[tuple[int, ...]]
) -> ctypes.Array[ctypes.c_void_p] | None:
    if not tensors:
        return None
    found = [address(x, name, shape) for x, shape in zip(tensors, shapes, strict=True)]
    return (ctypes.c_void_p * len(found))(*found)
