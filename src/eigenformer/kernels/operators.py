"""What the operators of attention have in common: their inputs, and how they pass gradients on.

The inputs of an operator are a NamedTuple: first tensors, some of which may be missing, then
numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_type_hints

import torch
from torch import Tensor

NO_FEATURES, IDENTITY, SIGNED_SQRT = 0, 1, 2
"""Values of ψ."""

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

_NAMES = {Tensor: "Tensor", Tensor | None: "Tensor?", float: "float", int: "int", bool: "bool"}


def schemas(kind: type[Any]) -> tuple[str, str]:
    """Returns the schemas of an operator with inputs of this kind, and of its backward pass.

    The operator returns the attended values, and for each row of the softmax the largest logit and
    the inverse of the sum. The backward pass takes these, too, and the gradient of the values.
    """
    given = ", ".join(f"{_NAMES[of]} {name}" for name, of in get_type_hints(kind).items())
    gradients = ", ".join(["Tensor"] * len(DIFFERENTIABLE))
    saved = "Tensor out, Tensor maximum, Tensor inverse, Tensor d_out"
    return f"({given}) -> (Tensor, Tensor, Tensor)", f"({given}, {saved}) -> ({gradients})"


def new_gradients(inputs: Any) -> tuple[Tensor, ...]:
    """Returns room for the gradients of the differentiable inputs; empty for missing inputs."""
    given = (getattr(inputs, name) for name in DIFFERENTIABLE)
    nothing = inputs.values.new_empty
    return tuple(nothing(0) if x is None else torch.empty_like(x) for x in given)


def register_backward(
    operator: Any, backward: Callable[..., tuple[Tensor, ...]], kind: type[Any]
) -> None:
    """Makes one operator the backward pass of another; both have inputs of this kind."""
    tensors = sum("Tensor" in _NAMES[of] for of in get_type_hints(kind).values())

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs[:tensors], *output)
        ctx.numbers = inputs[tensors:]
        ctx.mark_non_differentiable(*output[1:])

    def differentiate(ctx: Any, d_out: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        *saved, out, maximum, inverse = ctx.saved_tensors
        inputs = kind(*saved, *ctx.numbers)
        found = backward(*inputs, out, maximum, inverse, d_out.contiguous())
        gradients = dict(zip(DIFFERENTIABLE, found, strict=True))
        return tuple(
            None if x is None else gradients.get(name)
            for name, x in zip(kind._fields, inputs, strict=True)
        )

    operator.register_autograd(differentiate, setup_context=setup_context)
