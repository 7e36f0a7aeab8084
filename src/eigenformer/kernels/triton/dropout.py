"""Attention dropout: a function of seed, graph, head, i and j, the same as in the native kernel."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def mix(x):
    """Returns 32 bits that all depend on all bits of x."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def row_keys(seed, graph, head, row):
    """Returns two random numbers for each row."""
    whole = tl.load(seed) + tl.zeros_like(row).to(tl.int64)
    a = mix((whole & 0xFFFFFFFF).to(tl.uint32)) + graph.to(tl.uint32)
    a = mix(mix(mix(a) + head.to(tl.uint32)) + row.to(tl.uint32))
    return a, mix(mix((whole >> 32).to(tl.uint32)) ^ a)


@triton.jit
def dropped(a, b, column, threshold):
    """Returns whether the weights at these columns are dropped."""
    x = a ^ (column.to(tl.uint32) * 0x9E3779B9)
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = x ^ b
    x = (x ^ (x >> 15)) * 0x846CA68B
    return ((x ^ (x >> 16)) >> 1).to(tl.int32) < threshold


@triton.jit
def keep(x, a, b, column, threshold, keep_scale, DROPOUT: tl.constexpr):
    """Returns weights x after dropout."""
    if DROPOUT:
        x = tl.where(dropped(a, b, column, threshold), 0.0, x * keep_scale)
    return x
