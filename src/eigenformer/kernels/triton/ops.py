"""Triton attention as PyTorch operators, with gradients, and with shapes for the compiler."""

from __future__ import annotations

from typing import Any, get_type_hints

import torch
from torch import Tensor

from eigenformer.kernels.triton.launch import Inputs, attend, differentiate, on_device

DIFFERENTIABLE = (
    "importance",
    "slopes",
    "intercepts",
    "values",
    "queries",
    "keys",
    "edge_logits",
    "edge_values",
)
"""Names of the inputs that have gradients."""

_NAMES = {Tensor: "Tensor", Tensor | None: "Tensor?", float: "float", int: "int"}
_SCHEMA = ", ".join(f"{_NAMES[kind]} {name}" for name, kind in get_type_hints(Inputs).items())
_TENSORS = _SCHEMA.count("Tensor")


@torch.library.custom_op(
    "eigenformer::triton_attention",
    mutates_args=(),
    schema=f"({_SCHEMA}) -> (Tensor, Tensor, Tensor)",
)
def attention(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Computes attention over a ragged batch from :class:`Inputs`.

    Returns the attended values of each node, ``[Σn, heads, C]`` in float32, and for each row of
    the softmax the largest logit and the inverse of the sum, ``[Σn, heads]``.
    """
    inputs = Inputs(*arguments)
    outputs = _outputs(inputs)
    with on_device(inputs.values):
        attend(inputs, *outputs)
    return outputs


@torch.library.custom_op(
    "eigenformer::triton_attention_backward",
    mutates_args=(),
    schema=f"({_SCHEMA}, Tensor out, Tensor maximum, Tensor inverse, Tensor d_out)"
    f" -> ({', '.join(['Tensor'] * len(DIFFERENTIABLE))})",
)
def attention_backward(*arguments: Any) -> tuple[Tensor, ...]:
    """Returns the gradients of the differentiable inputs; empty for missing inputs."""
    *given, out, maximum, inverse, d_out = arguments
    inputs = Inputs(*given)
    with on_device(inputs.values):
        found = differentiate(inputs, (out, maximum, inverse), d_out)
    nothing = inputs.values.new_empty
    return tuple(found.get(name, nothing(0)) for name in DIFFERENTIABLE)


@attention.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    return _outputs(Inputs(*arguments))


@attention_backward.register_fake
def _(*arguments: Any) -> tuple[Tensor, ...]:
    inputs = Inputs(*arguments[:-4])
    given = (getattr(inputs, name) for name in DIFFERENTIABLE)
    nothing = inputs.values.new_empty
    return tuple(nothing(0) if x is None else torch.empty_like(x) for x in given)


def _outputs(inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    new, shape = inputs.importance.new_empty, inputs.values.shape
    return new(shape), new(shape[:2]), new(shape[:2])


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:_TENSORS], *output)
    ctx.settings = inputs[_TENSORS:]
    ctx.mark_non_differentiable(*output[1:])


def _backward(ctx: Any, d_out: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    *tensors, out, maximum, inverse = ctx.saved_tensors
    inputs = Inputs(*tensors, *ctx.settings)
    found = attention_backward(*inputs, out, maximum, inverse, d_out.contiguous())
    gradients = dict(zip(DIFFERENTIABLE, found, strict=True))
    return tuple(
        None if x is None else gradients.get(name)
        for name, x in zip(Inputs._fields, inputs, strict=True)
    )


attention.register_autograd(_backward, setup_context=_setup_context)
