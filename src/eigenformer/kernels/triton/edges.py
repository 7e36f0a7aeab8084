"""What edges add to the sums of attention, w_ij, and the gradients of their terms.

Edges are sorted by target, then by source. Row ``edge_kind[e]`` of the edge terms is that of edge
e: its own, or one that it shares. With factors, w_ij = Σ_f a_ij[f] w_f.
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigenformer.kernels.triton.dropout import keep, row_keys
from eigenformer.kernels.triton.tiles import kernel


@triton.jit
def edge_value(edge_values, edge_coefficients, kind, there, heads, channels, factors,
               BLOCK: tl.constexpr, CHANNELS: tl.constexpr, FACTORS: tl.constexpr):  # fmt: skip
    """Returns w_ij of some edges, [BLOCK, CHANNELS]."""
    head = tl.program_id(1)
    c = tl.arange(0, CHANNELS)
    value = tl.zeros((BLOCK, CHANNELS), tl.float32)
    if FACTORS:
        for f in range(factors):
            a = tl.load(edge_coefficients + kind * factors + f, mask=there, other=0.0)
            at = (f * heads + head) * channels + c
            shared = tl.load(edge_values + at, mask=c < channels, other=0.0).to(tl.float32)
            value += a.to(tl.float32)[:, None] * shared[None, :]
    else:
        row = (kind * heads + head) * channels
        inside = there[:, None] & (c < channels)[None, :]
        value += tl.load(edge_values + row[:, None] + c[None, :], mask=inside, other=0.0)
    return value


@kernel
def messages(
    first_node, node_graph, first_edge, edge_source, edge_kind, edge_coefficients, edge_values,
    seed, logits_at_edges, maximum, inverse, out,
    nodes, heads, channels, factors, threshold, keep_scale,
    FACTORS: tl.constexpr, DROPOUT: tl.constexpr, BLOCK: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Some nodes, one head: out_i += Σ_edges keep_ij α_ij w_ij."""
    head = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < nodes
    first = tl.load(first_edge + i, mask=inside, other=0)
    last = tl.load(first_edge + i + 1, mask=inside, other=0)
    top = tl.load(maximum + i * heads + head, mask=inside, other=0.0)
    inverses = tl.load(inverse + i * heads + head, mask=inside, other=0.0)
    a, b = i, i
    if DROPOUT:
        graph = tl.load(node_graph + i, mask=inside, other=0)
        local = i - tl.load(first_node + graph, mask=inside, other=0)
        a, b = row_keys(seed, graph, head, local)
    c = tl.arange(0, CHANNELS)
    at_out = ((i.to(tl.int64) * heads + head) * channels)[:, None] + c[None, :]
    in_out = inside[:, None] & (c < channels)[None, :]
    total = tl.load(out + at_out, mask=in_out, other=0.0)
    for step in range(tl.max(last - first, 0)):
        edge = first + step
        there = edge < last
        kind = tl.load(edge_kind + edge, mask=there, other=0).to(tl.int64)
        source = tl.load(edge_source + edge, mask=there, other=0)
        at = edge.to(tl.int64) * heads + head
        x = tl.load(logits_at_edges + at, mask=there, other=-float("inf"))
        weight = tl.exp(x - top) * inverses
        weight = keep(weight, a, b, source, threshold, keep_scale, DROPOUT)
        value = edge_value(
            edge_values, edge_coefficients, kind, there, heads, channels, factors,
            BLOCK, CHANNELS, FACTORS,
        )  # fmt: skip
        total += weight[:, None] * value
    tl.store(out + at_out, total, mask=in_out)


@kernel
def products(
    first_edge, edge_kind, edge_coefficients, edge_values, d_out, products_at_edges,
    nodes, heads, channels, factors,
    FACTORS: tl.constexpr, BLOCK: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Some nodes, one head: d_out_i · w_ij at their edges, the edges' part of dα_ij."""
    head = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < nodes
    first = tl.load(first_edge + i, mask=inside, other=0)
    last = tl.load(first_edge + i + 1, mask=inside, other=0)
    c = tl.arange(0, CHANNELS)
    at_out = ((i.to(tl.int64) * heads + head) * channels)[:, None] + c[None, :]
    d = tl.load(d_out + at_out, mask=inside[:, None] & (c < channels)[None, :], other=0.0)
    for step in range(tl.max(last - first, 0)):
        edge = first + step
        there = edge < last
        kind = tl.load(edge_kind + edge, mask=there, other=0).to(tl.int64)
        value = edge_value(
            edge_values, edge_coefficients, kind, there, heads, channels, factors,
            BLOCK, CHANNELS, FACTORS,
        )  # fmt: skip
        at = edge.to(tl.int64) * heads + head
        tl.store(products_at_edges + at, tl.sum(d * value, 1), mask=there)


@kernel
def sums(
    by_kind, first_of_kind, edge_target, edge_kind, edge_coefficients, weights_at_edges,
    gradients_at_edges, d_out, d_values, d_logits,
    edges, heads, channels, factors, splits,
    FACTORS: tl.constexpr, EDGE_LOGITS: tl.constexpr, EDGE_VALUES: tl.constexpr,
    BLOCK: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """One row of the edge terms, one head, one part of its edges: the gradients of the row.

    ``by_kind`` are the edges in the order of their rows. With factors, all edges use all rows.
    """
    row, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first, last = 0, edges
    if not FACTORS:
        first = tl.load(first_of_kind + row)
        last = tl.load(first_of_kind + row + 1)
    length = tl.cdiv(last - first, splits)
    first += split * length
    last = tl.minimum(last, first + length)
    c = tl.arange(0, CHANNELS)
    value = tl.zeros((BLOCK, CHANNELS), tl.float32)
    logit = tl.zeros((BLOCK,), tl.float32)
    for start in range(first, last, BLOCK):
        at = start + tl.arange(0, BLOCK)
        there = at < last
        edge = tl.load(by_kind + at, mask=there, other=0)
        at_edge = edge.to(tl.int64) * heads + head
        if EDGE_VALUES:
            weight = tl.load(weights_at_edges + at_edge, mask=there, other=0.0)
            if FACTORS:
                kind = tl.load(edge_kind + edge, mask=there, other=0).to(tl.int64)
                a = tl.load(edge_coefficients + kind * factors + row, mask=there, other=0.0)
                weight *= a.to(tl.float32)
            node = tl.load(edge_target + edge, mask=there, other=0).to(tl.int64)
            at_out = ((node * heads + head) * channels)[:, None] + c[None, :]
            inside = there[:, None] & (c < channels)[None, :]
            value += weight[:, None] * tl.load(d_out + at_out, mask=inside, other=0.0)
        if EDGE_LOGITS:
            logit += tl.load(gradients_at_edges + at_edge, mask=there, other=0.0)
    at = (row.to(tl.int64) * splits + split) * heads + head
    if EDGE_VALUES:
        tl.store(d_values + at * channels + c, tl.sum(value, 0), mask=c < channels)
    if EDGE_LOGITS:
        tl.store(d_logits + at, tl.sum(logit, 0))
