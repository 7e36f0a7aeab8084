"""Triton attention as PyTorch operators, with gradients, and with shapes for the compiler."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from eigenformer.kernels.operators import (
    DIFFERENTIABLE,
    new_gradients,
    register_backward,
    schemas,
)
from eigenformer.kernels.triton.launch import Inputs, attend, differentiate, on_device

_FORWARD, _BACKWARD = schemas(Inputs)


@torch.library.custom_op("eigenformer::triton_attention", mutates_args=(), schema=_FORWARD)
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
    "eigenformer::triton_attention_backward", mutates_args=(), schema=_BACKWARD
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
    return new_gradients(Inputs(*arguments[:-4]))


def _outputs(inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    new, shape = inputs.importance.new_empty, inputs.values.shape
    return new(shape), new(shape[:2]), new(shape[:2])


register_backward(attention, attention_backward, Inputs)
