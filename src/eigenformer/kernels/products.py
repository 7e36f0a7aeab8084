"""Products of queries and keys that are exact to the last digit of float32."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from eigenformer.transfer import has_float64

# Keeps the sign, the exponent and 11 of the 23 stored bits of a float32 number.
_UPPER_HALF = -4096


def exact_products(queries: Tensor, keys: Tensor, scale: float) -> Tensor:
    """Returns ``scale`` times q_i·k_j for all pairs of ``[…, n, C]`` queries and keys.

    In float64 where the device has it, and otherwise from exact products of half as many bits.
    """
    if has_float64(queries.device):
        return (queries.double() @ keys.double().mT * scale).to(queries.dtype)
    return _SplitProducts.apply(queries, keys) * scale


class _SplitProducts(torch.autograd.Function):
    """Sums exact products with the rounding errors of that sum, all in float32."""

    @staticmethod
    def forward(queries: Tensor, keys: Tensor) -> Tensor:
        (q_upper, q_lower), (k_upper, k_lower) = _halves(queries), _halves(keys)
        total = queries.new_zeros(*queries.shape[:-1], keys.size(-2))
        rest = torch.zeros_like(total)
        for left, right in ((q_upper, k_upper), (q_upper, k_lower), (q_lower, k_upper)):
            for c in range(queries.size(-1)):
                product = left[..., c, None] * right[..., None, :, c]
                with_it = total + product
                part = with_it - total
                rest += (total - (with_it - part)) + (product - part)
                total = with_it
        return total + (rest + q_lower @ k_lower.mT)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor, Tensor]:
        queries, keys = ctx.saved_tensors
        return d @ keys, d.mT @ queries


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """Splits x into two numbers of 12 bits each, whose products are exact in float32."""
    upper = (x.contiguous().view(torch.int32) & _UPPER_HALF).view(torch.float32)
    return upper, x - upper
