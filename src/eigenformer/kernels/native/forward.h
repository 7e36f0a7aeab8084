// Forward: softmax and output of one graph, tile by tile.
//
// Part of lanes.cpp, compiled once per instruction set.
#pragma once

#include "logits.h"

namespace eigenformer {
namespace EIGENFORMER_TARGET {
namespace {

// Rows of a tile: adds their part of softmax and output to the state.
void forward_rows(const View& g, const Scratch& s, const ForwardState& state, Span rows,
                  Span columns, int64_t row_stride, int64_t column_stride) {
    const int64_t channels = g.p.channels;
    const bool has_edges = g.p.edge_logits || g.p.edge_values;
    vf* x = s.row;
    for (int64_t r = 0; r < rows.count; ++r) {
        const int64_t i = rows.first + r;
        int64_t first = 0, last = 0;
        if (has_edges) {
            first = g.first_edge(i, columns.first);
            last = g.first_edge(i, columns.first + columns.count);
        }
        row_logits(g, s, i, columns, s.logits + r * row_stride, column_stride, first, last, x);
        const vf before = state.maximum[i];
        vf top = before;
        for (int64_t j = 0; j < columns.count; ++j) top = maximum(top, x[j]);
        vf sum = {};
        for (int64_t j = 0; j < columns.count; ++j) {
            x[j] = exponential(x[j] - top);
            sum += x[j];
        }
        vf* out = state.out + i * channels;
        const vf shrink = exponential(before - top);  // what was summed under a lower maximum
        state.sum[i] = state.sum[i] * shrink + sum;
        state.maximum[i] = top;
        for (int64_t c = 0; c < channels; ++c) out[c] *= shrink;
        if (g.p.dropout > 0) {
            const DropoutRow keys(g, i);
            for (int64_t j = 0; j < columns.count; ++j) {
                vi drop = DropoutRow::dropped(keys.a, keys.b, columns.first + j, g.threshold);
                x[j] = drop ? vf{} : x[j] * g.keep_scale;
            }
        }
        accumulate(x, 1, s.values + columns.first * channels, channels, columns.count, out);
        if (g.p.edge_coefficients)  // Σ_f (Σ_j α_ij a_ij[f]) w_f
            for (int64_t f = 0; f < g.p.factors; ++f) {
                vf total = {};
                for (int64_t e = first; e < last; ++e)
                    total += x[g.p.edge_source[e] - columns.first] * g.coefficient(e, f);
                accumulate(&total, 1, g.shared_value(f), channels, 1, out);
            }
        else if (g.p.edge_values)
            for (int64_t e = first; e < last; ++e)
                accumulate(x + (g.p.edge_source[e] - columns.first), 1, g.edge_value(e, s.edge),
                           channels, 1, out);
    }
}

void finish_forward(const View& g, const ForwardState& state) {
    const AttentionCall& p = g.p;
    for (int64_t i = 0; i < g.n; ++i) {
        const vf inverse = 1.0f / state.sum[i];
        vf* out = state.out + i * p.channels;
        for (int64_t c = 0; c < p.channels; ++c) out[c] *= inverse;
        store(p.maximum + (g.node + i) * p.heads + g.job.head, state.maximum[i], g.lanes);
        store(p.inverse + (g.node + i) * p.heads + g.job.head, inverse, g.lanes);
    }
    g.heads_first(state.out, p.out);
}

void forward(const AttentionCall& p, const Table& table, const float* edge_values, const Job& job,
             char* memory) {
    const View g(p, job, edge_values);
    const Shape shape(p, g.n, g.k);
    Carver carver{memory};
    const Scratch s(carver, p, shape, false);
    if (job.state) carver.at = (char*)job.state;
    const ForwardState state(carver, shape);
    for (int64_t i = 0; i < g.n; ++i) {
        state.maximum[i] = splat(-FLT_MAX);  // not -∞: two parts may both not know a row
        state.sum[i] = vf{};
    }
    memset(state.out, 0, g.n * p.channels * sizeof(vf));
    load_graph(g, s, shape);
    Tiles tile(g.n, job.first_tile);
    for (int64_t t = job.first_tile; t < job.last_tile; ++t, tile.next()) {
        const Span rows = block_span(g.n, tile.row), columns = block_span(g.n, tile.column);
        const bool diagonal = tile.row == tile.column;
        if (diagonal || t == job.first_tile)
            copy_rows(g, rows, shape.padded, rows.count + kRows, s.left);
        copy_rows(g, columns, shape.padded, columns.count + kColumns, s.right);
        compute_scores(s, rows, columns, diagonal, shape.padded);
        apply_phi1<false>(s, table, rows, columns, diagonal);
        forward_rows(g, s, state, rows, columns, kWidth, 1);
        if (!diagonal) forward_rows(g, s, state, columns, rows, 1, kWidth);
    }
    if (!job.state) finish_forward(g, state);
}

// Adds the parts of one graph: each has its own maxima.
void merge_forward(const AttentionCall& p, const Job* jobs) {
    const View g(p, jobs[0], nullptr);
    const Shape shape(p, g.n, g.k);
    Carver carver{(char*)jobs[0].state};
    const ForwardState whole(carver, shape);
    for (int64_t part = 1; part < jobs[0].parts; ++part) {
        carver.at = (char*)jobs[part].state;
        const ForwardState state(carver, shape);
        for (int64_t i = 0; i < g.n; ++i) {
            const vf top = maximum(whole.maximum[i], state.maximum[i]);
            const vf mine = exponential(whole.maximum[i] - top);
            const vf theirs = exponential(state.maximum[i] - top);
            whole.maximum[i] = top;
            whole.sum[i] = whole.sum[i] * mine + state.sum[i] * theirs;
            for (int64_t c = i * p.channels; c < (i + 1) * p.channels; ++c)
                whole.out[c] = whole.out[c] * mine + state.out[c] * theirs;
        }
    }
    finish_forward(g, whole);
}

}  // namespace
}  // namespace EIGENFORMER_TARGET
}  // namespace eigenformer
