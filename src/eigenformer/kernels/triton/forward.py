"""The forward pass: softmax and sums, tile by tile, with a running maximum."""

from __future__ import annotations

import triton.language as tl

from eigenformer.kernels.triton.dropout import keep, row_keys
from eigenformer.kernels.triton.tiles import (
    LOWEST,
    kernel,
    load_rows,
    logits,
    place,
    store_rows,
    vectors,
)


@kernel
def attend(
    blocks, first_node, first_frequency, first_entry, first_edge, edge_source, edge_kind,
    eigenvectors, importance, knots, slopes, intercepts, values, queries, keys, edge_logits, seed,
    out, maximum, inverse, logits_at_edges,
    heads, channels, segments, piece_steps, edge_steps, scale, threshold, keep_scale,
    PSI: tl.constexpr, DROPOUT: tl.constexpr, EDGES: tl.constexpr, EDGE_LOGITS: tl.constexpr,
    EDGE_VALUES: tl.constexpr, BLOCK: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """One block of rows, one head: out_i = Σ_j keep_ij α_ij v_j, and for each row of the softmax
    the largest logit and the inverse of the sum.

    The logits at edges are kept for :func:`messages`.
    """
    graph, row, node, nodes, frequency, frequencies, entry = place(
        blocks, first_node, first_frequency, first_entry
    )
    head = tl.program_id(1)
    i = row + tl.arange(0, BLOCK)
    a, b = i, i
    if DROPOUT:
        a, b = row_keys(seed, graph, head, i)
    top = tl.full((BLOCK,), LOWEST, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    sums = tl.zeros((BLOCK, CHANNELS), tl.float32)
    for first in range(0, nodes, BLOCK):
        j = first + tl.arange(0, BLOCK)
        x, _, _, _, _, edge = logits(
            eigenvectors + entry, importance + frequency * heads + head, knots, slopes, intercepts,
            queries, keys, first_edge, edge_source, edge_kind, edge_logits,
            node, nodes, frequencies, heads, channels, scale, segments, piece_steps, edge_steps,
            i, j, PSI, EDGES, EDGE_LOGITS, CHANNELS,
        )  # fmt: skip
        if EDGE_VALUES:
            at = edge.to(tl.int64) * heads + head
            tl.store(logits_at_edges + at, x, mask=(edge >= 0) & (j < nodes)[None, :])
        before = top
        top = tl.maximum(before, tl.max(x, 1))
        x = tl.exp(x - top[:, None])
        shrink = tl.exp(before - top)  # what was summed under a lower maximum
        total = total * shrink + tl.sum(x, 1)
        x = keep(x, a[:, None], b[:, None], j[None, :], threshold, keep_scale, DROPOUT)
        v = load_rows(values, node, j, nodes, heads, channels, CHANNELS)
        sums = tl.dot(x, v, sums * shrink[:, None], input_precision="ieee")
    at = (node + i) * heads + head
    tl.store(maximum + at, top, mask=i < nodes)
    tl.store(inverse + at, 1.0 / total, mask=i < nodes)
    store_rows(out, sums / total[:, None], node, i, nodes, heads, channels, CHANNELS)


@kernel
def norms(blocks, first_node, first_frequency, first_entry, eigenvectors, found,
          FREQUENCIES: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """One block of rows: ‖u[i]‖²."""
    _, row, node, nodes, _, frequencies, entry = place(
        blocks, first_node, first_frequency, first_entry
    )
    i = row + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, frequencies, FREQUENCIES):
        k = first + tl.arange(0, FREQUENCIES)
        u = vectors(eigenvectors + entry, i, nodes, k, frequencies)
        total += tl.sum(u * u, 1)
    tl.store(found + node + i, total, mask=i < nodes)
