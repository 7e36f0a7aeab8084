"""Batch norm that keeps less for its backward pass, and a check for batches that are too small."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class BatchNorm(nn.BatchNorm1d):
    r"""A ``torch.nn.BatchNorm1d`` whose backward pass, without affine, needs only its output.

    .. math::
        \frac{\partial L}{\partial x} = \frac{1}{\sigma} \bigl( g - \overline{g} -
        y \, \overline{g \odot y} \bigr), \qquad g = \frac{\partial L}{\partial y}

    The next layer keeps the output anyway. The input is not kept.
    """

    def forward(self, input: Tensor) -> Tensor:
        full = input.dtype in (torch.float32, torch.float64)
        if not (self.training and input.requires_grad and full) or self.affine:
            return super().forward(input)
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # a plain mean over all batches
                momentum = 1.0 / float(self.num_batches_tracked)
        running = self.running_mean, self.running_var
        return _Normalize.apply(input, *running, momentum, self.eps)

    def describe(self) -> tuple[str, ...]:
        """Returns a short description, one string per line."""
        return "batch norm", "scales and shifts" if self.affine else "without affine"


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        momentum: float,
        eps: float,
    ) -> Tensor:
        y, _, inverse = torch.native_batch_norm(
            x, None, None, running_mean, running_var, True, momentum, eps
        )
        ctx.save_for_backward(y, inverse)
        ctx.eps = eps
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        y, inverse = ctx.saved_tensors
        # Batch norm of y, with mean 0, a standard deviation taken as 1, and a scale of 1/σ.
        mean, one = torch.zeros_like(inverse), torch.ones_like(inverse)
        d_x, _, _ = torch.ops.aten.native_batch_norm_backward(
            d_y, y, inverse, None, None, mean, one, True, ctx.eps, [True, False, False]
        )
        return d_x, None, None, None, None


def check_batch_norm(module: nn.Module, num_nodes: int) -> None:
    """Raises an error that says what to do if a batch norm in training gets only one node."""
    norms = (m for m in module.modules() if isinstance(m, nn.BatchNorm1d))
    if num_nodes < 2 and any(norm.training for norm in norms):
        raise ValueError(
            "graph 0 of the batch: x: a training batch of one node is too small for batch norm, "
            "which needs at least two nodes; use a larger batch, or eval()"
        )
