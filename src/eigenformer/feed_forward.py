"""A feed-forward network that keeps less for its backward pass."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class FeedForward(nn.Sequential):
    r"""Two linear maps with a ReLU between them.

    .. math::
        W_2 \, \rho(W_1 x + b_1) + b_2

    In training without dropout, the network keeps only its input, which the preceding batch norm
    keeps anyway. It computes the hidden units again in the backward pass.

    Args:
        channels: d, the width of the nodes.
        width: The width of the hidden layer.
        dropout: Dropout inside and after the network.
    """

    def __init__(self, channels: int, width: int, dropout: float = 0.0) -> None:
        super().__init__(
            nn.Linear(channels, width),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(width, channels),
            nn.Dropout(dropout),
        )
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        plain = self.dropout > 0 or torch.is_autocast_enabled(x.device.type)
        if plain or not (self.training and x.requires_grad):
            return super().forward(x)
        first, last = self[0], self[3]
        return _FeedForward.apply(x, first.weight, first.bias, last.weight, last.bias)

    def describe(self) -> tuple[str, ...]:
        """Returns a short description, one string per line."""
        first = cast(nn.Linear, self[0])
        channels, width = first.in_features, first.out_features
        dropout = (f"dropout {self.dropout:g}",) * bool(self.dropout)
        return "feed-forward, ReLU", f"{channels} → {width} → {channels}", *dropout


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
        ctx.save_for_backward(x, w1, b1, w2)
        return F.linear(F.linear(x, w1, b1).relu_(), w2, b2)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor, ...]:
        x, w1, b1, w2 = ctx.saved_tensors
        hidden = F.linear(x, w1, b1).relu_()
        d_hidden = torch.ops.aten.threshold_backward(d_out @ w2, hidden, 0)
        return (
            d_hidden @ w1,
            d_hidden.t() @ x,
            d_hidden.sum(0),
            d_out.t() @ hidden,
            d_out.sum(0),
        )
