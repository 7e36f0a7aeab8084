"""The backward pass: tiles are computed again, and their gradients summed in a fixed order.

With D_i = Σ_j keep_ij α_ij dα_ij = d_out_i · out_i:
    dα_ij = d_out_i · (v_j + w_ij),   dx_ij = α_ij (keep_ij dα_ij - D_i)
"""

from __future__ import annotations

import triton
import triton.language as tl

from eigenformer.kernels.triton.dropout import keep, row_keys
from eigenformer.kernels.triton.tiles import (
    FREQUENCIES,
    kernel,
    load_rows,
    logits,
    place,
    psi_slope,
    store_rows,
    vectors,
)

_FREQUENCIES = tl.constexpr(FREQUENCIES)


@triton.jit
def logit_gradients(
    x, edge, i, j, top, inverse, mean, d_out, v, products_at_edges, a, b,
    heads, threshold, keep_scale, DROPOUT: tl.constexpr, EDGE_VALUES: tl.constexpr,
):  # fmt: skip
    """Returns keep_ij α_ij and dx_ij of a tile."""
    alpha = tl.exp(x - top[:, None]) * inverse[:, None]
    weight = keep(alpha, a[:, None], b[:, None], j[None, :], threshold, keep_scale, DROPOUT)
    d_alpha = tl.dot(d_out, tl.trans(v), input_precision="ieee")
    if EDGE_VALUES:
        at = edge.to(tl.int64) * heads + tl.program_id(1)
        d_alpha += tl.load(products_at_edges + at, mask=edge >= 0, other=0.0)
    return weight, weight * d_alpha - alpha * mean[:, None]


@triton.jit
def add_pieces(d_slopes, d_intercepts, piece, s, dx, inside):
    """Adds dx·s and dx to the sums of the pieces that the scores of a tile lie in."""
    lowest = tl.min(tl.min(tl.where(inside, piece, 2147483647), 1), 0)
    highest = tl.max(tl.max(tl.where(inside, piece, -1), 1), 0)
    for m in range(lowest, highest + 1):
        here = tl.where(piece == m, dx, 0.0)
        tl.store(d_intercepts + m, tl.load(d_intercepts + m) + tl.sum(tl.sum(here, 1), 0))
        tl.store(d_slopes + m, tl.load(d_slopes + m) + tl.sum(tl.sum(here * s, 1), 0))


@triton.jit
def add_importance(d_importance, eigenvectors, ds, i, j, nodes, frequencies, heads):
    """Adds Σ_i u_ik Σ_j ds_ij u_jk of a tile to the sums of the frequencies."""
    for first in range(0, frequencies, _FREQUENCIES):
        k = first + tl.arange(0, _FREQUENCIES)
        left = vectors(eigenvectors, i, nodes, k, frequencies)
        right = vectors(eigenvectors, j, nodes, k, frequencies)
        found = tl.sum(left * tl.dot(ds, right, input_precision="ieee"), 0)
        before = tl.load(d_importance + k * heads, mask=k < frequencies, other=0.0)
        tl.store(d_importance + k * heads, before + found, mask=k < frequencies)


@kernel
def rows(
    blocks, first_node, first_frequency, first_entry, first_part, first_edge, edge_source,
    edge_kind, eigenvectors, importance, knots, slopes, intercepts, values, queries, keys,
    edge_logits, seed, out, maximum, inverse, d_out, products_at_edges,
    means, d_queries, weights_at_edges, gradients_at_edges, d_importance, d_slopes, d_intercepts,
    heads, channels, segments, piece_steps, edge_steps, scale, threshold, keep_scale,
    PSI: tl.constexpr, DROPOUT: tl.constexpr, EDGES: tl.constexpr, EDGE_LOGITS: tl.constexpr,
    EDGE_VALUES: tl.constexpr, BLOCK: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """One block of rows, one head: the gradients of queries, and this block's part of the sums
    into φ₂'s values, slopes and intercepts, which start at 0.

    Keeps keep_ij α_ij and dx_ij at edges, and D_i for :func:`columns`.
    """
    graph, row, node, nodes, frequency, frequencies, entry = place(
        blocks, first_node, first_frequency, first_entry
    )
    block, head = tl.program_id(0), tl.program_id(1)
    i = row + tl.arange(0, BLOCK)
    a, b = i, i
    if DROPOUT:
        a, b = row_keys(seed, graph, head, i)
    at = (node + i) * heads + head
    top = tl.load(maximum + at, mask=i < nodes, other=0.0)
    inverses = tl.load(inverse + at, mask=i < nodes, other=0.0)
    d_out_i = load_rows(d_out, node, i, nodes, heads, channels, CHANNELS)
    out_i = load_rows(out, node, i, nodes, heads, channels, CHANNELS)
    mean = tl.sum(d_out_i * out_i, 1)
    tl.store(means + at, mean, mask=i < nodes)
    d_query = tl.zeros((BLOCK, CHANNELS), tl.float32)
    part = tl.load(first_part + block) * heads + head
    pieces = (block * heads + head).to(tl.int64) * segments
    # Wide heads have fewer columns in a tile, so that everything fits into registers.
    COLUMNS: tl.constexpr = BLOCK * 16 // CHANNELS
    for first in range(0, nodes, COLUMNS):
        j = first + tl.arange(0, COLUMNS)
        x, s, piece, slope, product, edge = logits(
            eigenvectors + entry, importance + frequency * heads + head, knots, slopes, intercepts,
            queries, keys, first_edge, edge_source, edge_kind, edge_logits,
            node, nodes, frequencies, heads, channels, scale, segments, piece_steps, edge_steps,
            i, j, PSI, EDGES, EDGE_LOGITS, CHANNELS,
        )  # fmt: skip
        v = load_rows(values, node, j, nodes, heads, channels, CHANNELS)
        weight, dx = logit_gradients(
            x, edge, i, j, top, inverses, mean, d_out_i, v, products_at_edges, a, b,
            heads, threshold, keep_scale, DROPOUT, EDGE_VALUES,
        )  # fmt: skip
        inside = (i < nodes)[:, None] & (j < nodes)[None, :]
        if EDGES:
            at_edges = edge.to(tl.int64) * heads + head
            there = inside & (edge >= 0)
            if EDGE_VALUES:
                tl.store(weights_at_edges + at_edges, weight, mask=there)
            if EDGE_LOGITS:
                tl.store(gradients_at_edges + at_edges, dx, mask=there)
        if PSI != 0:
            d_product = dx * psi_slope(product, PSI) * scale
            k = load_rows(keys, node, j, nodes, heads, channels, CHANNELS)
            d_query = tl.dot(d_product, k, d_query, input_precision="ieee")
        add_pieces(d_slopes + pieces, d_intercepts + pieces, piece, s, dx, inside)
        add_importance(
            d_importance + part, eigenvectors + entry, dx * slope, i, j, nodes, frequencies, heads
        )
        tl.debug_barrier()  # the next tile reads these sums again
    if PSI != 0:
        store_rows(d_queries, d_query, node, i, nodes, heads, channels, CHANNELS)


@kernel
def columns(
    blocks, first_node, first_frequency, first_entry, first_edge, edge_source, edge_kind,
    eigenvectors, importance, knots, slopes, intercepts, values, queries, keys, edge_logits, seed,
    maximum, inverse, d_out, products_at_edges, means, d_values, d_keys,
    heads, channels, segments, piece_steps, edge_steps, scale, threshold, keep_scale,
    PSI: tl.constexpr, DROPOUT: tl.constexpr, EDGES: tl.constexpr, EDGE_LOGITS: tl.constexpr,
    EDGE_VALUES: tl.constexpr, BLOCK: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """One block of columns, one head: the gradients of values and keys."""
    graph, column, node, nodes, frequency, frequencies, entry = place(
        blocks, first_node, first_frequency, first_entry
    )
    head = tl.program_id(1)
    j = column + tl.arange(0, BLOCK)
    v = load_rows(values, node, j, nodes, heads, channels, CHANNELS)
    d_value = tl.zeros((BLOCK, CHANNELS), tl.float32)
    d_key = tl.zeros((BLOCK, CHANNELS), tl.float32)
    # The same for rows.
    ROWS: tl.constexpr = BLOCK * 16 // CHANNELS
    for first in range(0, nodes, ROWS):
        i = first + tl.arange(0, ROWS)
        a, b = i, i
        if DROPOUT:
            a, b = row_keys(seed, graph, head, i)
        at = (node + i) * heads + head
        top = tl.load(maximum + at, mask=i < nodes, other=0.0)
        inverses = tl.load(inverse + at, mask=i < nodes, other=0.0)
        mean = tl.load(means + at, mask=i < nodes, other=0.0)
        x, _, _, _, product, edge = logits(
            eigenvectors + entry, importance + frequency * heads + head, knots, slopes, intercepts,
            queries, keys, first_edge, edge_source, edge_kind, edge_logits,
            node, nodes, frequencies, heads, channels, scale, segments, piece_steps, edge_steps,
            i, j, PSI, EDGES, EDGE_LOGITS, CHANNELS,
        )  # fmt: skip
        d_out_i = load_rows(d_out, node, i, nodes, heads, channels, CHANNELS)
        weight, dx = logit_gradients(
            x, edge, i, j, top, inverses, mean, d_out_i, v, products_at_edges, a, b,
            heads, threshold, keep_scale, DROPOUT, EDGE_VALUES,
        )  # fmt: skip
        d_value = tl.dot(tl.trans(weight), d_out_i, d_value, input_precision="ieee")
        if PSI != 0:
            d_product = dx * psi_slope(product, PSI) * scale
            q = load_rows(queries, node, i, nodes, heads, channels, CHANNELS)
            d_key = tl.dot(tl.trans(d_product), q, d_key, input_precision="ieee")
    store_rows(d_values, d_value, node, j, nodes, heads, channels, CHANNELS)
    if PSI != 0:
        store_rows(d_keys, d_key, node, j, nodes, heads, channels, CHANNELS)


@kernel
def sum_importance(d_importance, parts, first_node, first_frequency, first_part_of_graph,
                   heads, BLOCK: tl.constexpr):  # fmt: skip
    """One graph, one head: adds the parts of the graph's blocks, in their order."""
    graph, head = tl.program_id(0), tl.program_id(1)
    nodes = tl.load(first_node + graph + 1) - tl.load(first_node + graph)
    frequency = tl.load(first_frequency + graph)
    frequencies = tl.load(first_frequency + graph + 1) - frequency
    part = tl.load(first_part_of_graph + graph) * heads + head
    apart = frequencies.to(tl.int64) * heads  # blocks times this may exceed 32 bits
    for first in range(0, frequencies, _FREQUENCIES):
        k = first + tl.arange(0, _FREQUENCIES)
        total = tl.zeros((_FREQUENCIES,), tl.float32)
        for block in range(tl.cdiv(nodes, BLOCK)):
            at = part + block * apart + k * heads
            total += tl.load(parts + at, mask=k < frequencies, other=0.0)
        tl.store(d_importance + (frequency + k) * heads + head, total, mask=k < frequencies)
