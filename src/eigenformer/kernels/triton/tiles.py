"""What the kernels have in common: one tile of logits, for one head of one graph.

Numbers of nodes are counted within their graph. A tile is [ROWS, COLUMNS]: rows i attend to
columns j.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import triton
import triton.language as tl

FREQUENCIES = 16
"""Frequencies that are multiplied at a time."""

_FREQUENCIES = tl.constexpr(FREQUENCIES)
_PSI_EPSILON = tl.constexpr(1e-6)
_UPPER_HALF = tl.constexpr(-4096)
LOWEST = tl.constexpr(-3.4e38)


def kernel(function: Callable[..., None]) -> Any:
    """Declares a kernel that is compiled for its constants, which have names in capitals.

    Triton would compile it again for numbers and addresses that are multiples of 16, and for 1.
    """
    names = [name for name in signature(function).parameters if name.islower()]
    return triton.jit(do_not_specialize=names)(function)


@triton.jit
def place(blocks, first_node, first_frequency, first_entry):
    """Returns the place of this program's block: graph, first row, first node and size of the
    graph, its first frequency and how many it has, and its first entry among the eigenvectors.
    """
    block = tl.program_id(0)
    graph = tl.load(blocks + 2 * block)
    row = tl.load(blocks + 2 * block + 1)
    node = tl.load(first_node + graph)
    nodes = tl.load(first_node + graph + 1) - node
    frequency = tl.load(first_frequency + graph)
    frequencies = tl.load(first_frequency + graph + 1) - frequency
    return graph, row, node, nodes, frequency, frequencies, tl.load(first_entry + graph)


@triton.jit
def bisect(ascending, first, last, x, steps):
    """Returns the first position in [first, last) whose entry is not below ``x``.

    The number of steps does not depend on the data: 2^steps must exceed last - first.
    """
    for _ in range(steps):
        middle = (first + last) // 2
        searching = first < last
        below = searching & (tl.load(ascending + middle, mask=searching, other=0) < x)
        first = tl.where(below, middle + 1, first)
        last = tl.where(below, last, middle)
    return first


@triton.jit
def load_rows(base, node, rows, nodes, heads, channels, CHANNELS: tl.constexpr):
    """Loads this head's part of ``[Σn, heads, channels]`` as float32; 0 outside of the graph."""
    c = tl.arange(0, CHANNELS)
    at = ((node + rows).to(tl.int64) * heads + tl.program_id(1)) * channels
    inside = (rows < nodes)[:, None] & (c < channels)[None, :]
    return tl.load(base + at[:, None] + c[None, :], mask=inside, other=0.0).to(tl.float32)


@triton.jit
def store_rows(base, x, node, rows, nodes, heads, channels, CHANNELS: tl.constexpr):
    """Stores what :func:`load_rows` loads."""
    c = tl.arange(0, CHANNELS)
    at = ((node + rows).to(tl.int64) * heads + tl.program_id(1)) * channels
    inside = (rows < nodes)[:, None] & (c < channels)[None, :]
    tl.store(base + at[:, None] + c[None, :], x, mask=inside)


@triton.jit
def vectors(eigenvectors, rows, nodes, k, frequencies):
    """Loads some frequencies of some rows of U; 0 outside."""
    at = rows.to(tl.int64)[:, None] * frequencies + k[None, :]
    inside = (rows < nodes)[:, None] & (k < frequencies)[None, :]
    return tl.load(eigenvectors + at, mask=inside, other=0.0)


@triton.jit
def scores(eigenvectors, importance, i, j, nodes, frequencies, heads):
    """Returns s_ij = Σ_k u_ik φ₂(λ_k) u_jk."""
    s = tl.zeros((i.shape[0], j.shape[0]), tl.float32)
    for first in range(0, frequencies, _FREQUENCIES):
        k = first + tl.arange(0, _FREQUENCIES)
        phi2 = tl.load(importance + k * heads, mask=k < frequencies, other=0.0)
        left = vectors(eigenvectors, i, nodes, k, frequencies) * phi2[None, :]
        right = vectors(eigenvectors, j, nodes, k, frequencies)
        s = tl.dot(left, tl.trans(right), s, input_precision="ieee")
    return s


@triton.jit
def piece_of(knots, s, segments, steps):
    """Returns the linear piece of φ₁ that each score lies in."""
    first = tl.zeros_like(s).to(tl.int32)
    return bisect(knots, first, first + segments - 1, s, steps)


@triton.jit
def edge_of(first_edge, edge_source, node, nodes, i, j, steps):
    """Returns the edge j → i of each pair; -1 if there is none."""
    inside = i < nodes
    first = tl.load(first_edge + node + i, mask=inside, other=0)
    last = tl.load(first_edge + node + i + 1, mask=inside, other=0)
    columns = tl.zeros_like(first)[:, None] + j[None, :]
    last = last[:, None] + tl.zeros_like(columns)
    found = bisect(edge_source, first[:, None] + tl.zeros_like(columns), last, columns, steps)
    source = tl.load(edge_source + found, mask=found < last, other=-1)
    return tl.where(source == columns, found, -1)


@triton.jit
def halves(x):
    """Splits x into two numbers of 12 bits each, whose products are exact in float32."""
    upper = (x.to(tl.int32, bitcast=True) & _UPPER_HALF).to(tl.float32, bitcast=True)
    return upper, x - upper


@triton.jit
def add_exactly(total, rest, x):
    """Adds x to the total, and the rounding error of this sum to the rest."""
    new = total + x
    part = new - total
    return new, rest + ((total - (new - part)) + (x - part))


@triton.jit
def feature_products(
    queries, keys, node, i, j, nodes, heads, channels, scale,
    PSI: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Returns q_i·k_j / √C.

    ψ' is so steep at 0 that the last digit of the product matters, however much it cancels: the
    product is then a sum of exact products with the rounding errors of that sum. A compiler may
    fuse these products with their sums, since it makes no difference to exact products.
    """
    total = tl.zeros((i.shape[0], j.shape[0]), tl.float32)
    rest = tl.zeros_like(total)
    if PSI == 1:
        q = load_rows(queries, node, i, nodes, heads, channels, CHANNELS)
        k = load_rows(keys, node, j, nodes, heads, channels, CHANNELS)
        total = tl.dot(q, tl.trans(k), total, input_precision="ieee")
    else:
        head = tl.program_id(1)
        at_i = ((node + i).to(tl.int64) * heads + head) * channels
        at_j = ((node + j).to(tl.int64) * heads + head) * channels
        for c in range(channels):
            query = tl.load(queries + at_i + c, mask=i < nodes, other=0.0).to(tl.float32)
            key = tl.load(keys + at_j + c, mask=j < nodes, other=0.0).to(tl.float32)
            q_upper, q_lower = halves(query[:, None])
            k_upper, k_lower = halves(key[None, :])
            total, rest = add_exactly(total, rest, q_upper * k_upper)
            total, rest = add_exactly(total, rest, q_upper * k_lower)
            total, rest = add_exactly(total, rest, q_lower * k_upper)
            rest += q_lower * k_lower
    return (total + rest) * scale


@triton.jit
def psi_of(x, PSI: tl.constexpr):
    """Returns ψ(x)."""
    if PSI == 2:
        x = x / tl.sqrt(tl.abs(x) + _PSI_EPSILON)
    return x


@triton.jit
def psi_slope(x, PSI: tl.constexpr):
    """Returns ψ'(x) = r - |x| r³ / 2 with r = 1 / √(|x| + ε)."""
    slope = tl.full(x.shape, 1.0, tl.float32)
    if PSI == 2:
        inverse = 1.0 / (tl.abs(x) + _PSI_EPSILON)
        slope = tl.sqrt(inverse) * (1.0 - 0.5 * tl.abs(x) * inverse)
    return slope


@triton.jit
def logits(
    eigenvectors, importance, knots, slopes, intercepts, queries, keys,
    first_edge, edge_source, edge_kind, edge_logits,
    node, nodes, frequencies, heads, channels, scale, segments, piece_steps, edge_steps, i, j,
    PSI: tl.constexpr, EDGES: tl.constexpr, EDGE_LOGITS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Returns the logits of a tile, -∞ outside of the graph, and what the backward pass needs:
    scores, their pieces, the slopes there, q_i·k_j / √C, and the edge of each pair.

    ``eigenvectors`` points to the graph, ``importance`` also to the head.
    """
    head = tl.program_id(1)
    s = scores(eigenvectors, importance, i, j, nodes, frequencies, heads)
    piece = piece_of(knots + head * (segments - 1), s, segments, piece_steps)
    slope = tl.load(slopes + head * segments + piece)
    x = slope * s + tl.load(intercepts + head * segments + piece)
    product = s
    if PSI != 0:
        product = feature_products(
            queries, keys, node, i, j, nodes, heads, channels, scale, PSI, CHANNELS
        )
        x += psi_of(product, PSI)
    edge = piece
    if EDGES:
        edge = edge_of(first_edge, edge_source, node, nodes, i, j, edge_steps)
    if EDGE_LOGITS:
        there = edge >= 0
        kind = tl.load(edge_kind + edge, mask=there, other=0).to(tl.int64)
        x += tl.load(edge_logits + kind * heads + head, mask=there, other=0.0).to(tl.float32)
    inside = (i < nodes)[:, None] & (j < nodes)[None, :]
    return tl.where(inside, x, -float("inf")), s, piece, slope, product, edge
