// Backward: the tiles are computed again, and their gradients summed.
//
// Part of lanes.cpp, compiled once per instruction set.
#pragma once

#include "logits.h"

namespace eigenformer {
namespace EIGENFORMER_TARGET {
namespace {

// Rows of a tile, backward. With D_i = Σ_j keep_ij α_ij dα_ij = d_out_i · out_i:
//   dα_ij = d_out_i · (v_j + w_ij),   dx_ij = α_ij (keep_ij dα_ij - D_i)
// and dx_ij goes to `gradient`, keep_ij α_ij to `kept`, both [rows, kWidth].
void backward_rows(const View& g, const Scratch& s, const BackwardState& state, const Sums& sums,
                   const Gradients& d, Span rows, Span columns, int64_t row_stride,
                   int64_t column_stride, vf* gradient) {
    const AttentionCall& p = g.p;
    const int64_t channels = p.channels;
    const bool has_edges = p.edge_logits || p.edge_values;
    for (int64_t r = 0; r < rows.count; ++r) {
        const int64_t i = rows.first + r;
        const vf* d_out = s.d_out + i * channels;
        vf *x = s.row, *d_alpha = s.other, *kept = s.kept + r * kWidth, *dx = gradient + r * kWidth;
        int64_t first = 0, last = 0;
        if (has_edges) {
            first = g.first_edge(i, columns.first);
            last = g.first_edge(i, columns.first + columns.count);
        }
        row_logits(g, s, i, columns, s.logits + r * row_stride, column_stride, first, last, x);
        dot(d_out, s.values + columns.first * channels, channels, columns.count, d_alpha);
        if (p.edge_coefficients)
            for (int64_t f = 0; f < p.factors; ++f) {
                vf extra;
                dot(d_out, g.shared_value(f), channels, 1, &extra);
                for (int64_t e = first; e < last; ++e)
                    d_alpha[p.edge_source[e] - columns.first] += extra * g.coefficient(e, f);
            }
        else if (p.edge_values)
            for (int64_t e = first; e < last; ++e) {
                vf extra;
                dot(d_out, g.edge_value(e, s.edge), channels, 1, &extra);
                d_alpha[p.edge_source[e] - columns.first] += extra;
            }
        const vf top = s.maximum[i], inverse = s.inverse[i], mean = s.weighted[i];
        const DropoutRow keys(g, i);
        for (int64_t j = 0; j < columns.count; ++j) {
            const vf alpha = exponential(x[j] - top) * inverse;
            vf weight = alpha;
            if (p.dropout > 0) {
                vi drop = DropoutRow::dropped(keys.a, keys.b, columns.first + j, g.threshold);
                weight = drop ? vf{} : alpha * g.keep_scale;
            }
            kept[j] = weight;
            dx[j] = weight * d_alpha[j] - alpha * mean;
        }
        for (int64_t e = first; e < last; ++e) {
            const int64_t j = p.edge_source[e] - columns.first, kind = p.edge_kind[e];
            if (p.edge_logits) {
                if (p.shared_kinds) {
                    vf* sum = (vf*)sums.edge_logits + kind;
                    *sum += dx[j];
                } else {
                    store(d.edge_logits + kind * p.heads + g.job.head, dx[j], g.lanes);
                }
            }
            if (p.edge_values && !p.edge_coefficients) {
                vf* sum = p.shared_kinds ? (vf*)sums.edge_values + kind * channels : s.edge;
                for (int64_t c = 0; c < channels; ++c)
                    sum[c] = (p.shared_kinds ? sum[c] : vf{}) + kept[j] * d_out[c];
                if (!p.shared_kinds) g.heads_first_row(s.edge, kind, d.edge_values);
            }
        }
        for (int64_t f = 0; p.edge_coefficients && f < p.factors; ++f) {
            vf total = {}, *sum = (vf*)sums.edge_values + f * channels;
            for (int64_t e = first; e < last; ++e)
                total += kept[p.edge_source[e] - columns.first] * g.coefficient(e, f);
            for (int64_t c = 0; c < channels; ++c) sum[c] += total * d_out[c];
        }
        if (p.psi) {
            // d(q·k/√C) = dx ψ'; the product is computed again, which is cheaper than to keep it.
            const vf* keys_of_columns = s.keys + columns.first * channels;
            vf* dq = s.d_product + r * kWidth;
            feature_products(s.wide_queries + i * channels, s.wide_keys + columns.first * channels,
                             channels, columns.count, g.scale, dq);
            for (int64_t j = 0; j < columns.count; ++j)
                dq[j] = dx[j] * psi_slope(dq[j], p.psi) * (float)g.scale;
            accumulate(dq, 1, keys_of_columns, channels, columns.count,
                       state.queries + i * channels);
        }
    }
    for (int64_t j = 0; j < columns.count; ++j) {
        const int64_t column = (columns.first + j) * channels;
        accumulate(s.kept + j, kWidth, s.d_out + rows.first * channels, channels, rows.count,
                   state.values + column);
        if (p.psi)
            accumulate(s.d_product + j, kWidth, s.queries + rows.first * channels, channels,
                       rows.count, state.keys + column);
    }
}

// φ₁ backward, for both halves at once: dφ₁/ds = slope, and the piece that s lies in gets
// d_slope += dx·s and d_intercept += dx. Turns the scores into their gradients.
void backward_phi1(const Scratch& s, Piece* sums, Span rows, Span columns, bool diagonal) {
    for (int64_t i = 0; i < rows.count; ++i) {
        vf* score = s.scores + i * kWidth;
        int64_t j = 0;
        if (diagonal)
            for (; j < i; ++j) score[j] = vf{};
        for (; j < columns.count; ++j) {
            vf dx = s.gradient[i * kWidth + j];
            if (!diagonal) dx += s.mirrored[j * kWidth + i];
            else if (j > i) dx += s.gradient[j * kWidth + i];
            scatter_pairs(sums, s.segment[i * kWidth + j], dx * score[j], dx);
            score[j] = dx * s.slope[i * kWidth + j];
        }
    }
    // A register block may reach one row further.
    for (int64_t j = 0; j < columns.count; ++j) s.scores[rows.count * kWidth + j] = vf{};
}

// dφ₂(λ_k) = Σ_i u_ik Σ_j ds_ij u_jk
void backward_importance(const Scratch& s, const BackwardState& state, Span rows, Span columns,
                         bool diagonal, int64_t padded) {
    for (int64_t i = 0; i < rows.count; i += kRows)
        for (int64_t k = 0; k < padded; k += kColumns) {
            vf sum[kRows][kColumns] = {};
            for (int64_t j = diagonal ? i : 0; j < columns.count; ++j)
                for (int c = 0; c < kColumns; ++c)
                    for (int r = 0; r < kRows; ++r)
                        sum[r][c] += s.scores[(i + r) * kWidth + j] * s.right[j * padded + k + c];
            for (int r = 0; r < kRows; ++r)
                for (int c = 0; c < kColumns; ++c)
                    state.importance[k + c] += sum[r][c] * s.left[(i + r) * padded + k + c];
        }
}

void finish_backward(const View& g, const BackwardState& state, const Gradients& d) {
    const AttentionCall& p = g.p;
    float* importance = d.importance + (g.importance - p.importance);
    for (int64_t k = 0; k < g.k; ++k) store(importance + k * p.heads, state.importance[k], g.lanes);
    g.heads_first(state.values, d.values);
    if (p.psi) {
        g.heads_first(state.queries, d.queries);
        g.heads_first(state.keys, d.keys);
    }
}

void backward(const AttentionCall& p, const Gradients& d, const Table& table, const float* edge_values,
              const Job& job, const Sums& sums, char* memory) {
    const View g(p, job, edge_values);
    const Shape shape(p, g.n, g.k);
    Carver carver{memory};
    const Scratch s(carver, p, shape, true);
    if (job.state) carver.at = (char*)job.state;
    char* begin = carver.at;
    const BackwardState state(carver, p, shape);
    memset(begin, 0, carver.at - begin);
    load_graph(g, s, shape);
    g.lanes_last(d.d_out, s.d_out);
    for (int64_t i = 0; i < g.n; ++i) {
        const int64_t at = (g.node + i) * p.heads + job.head;
        s.maximum[i] = load(p.maximum + at, g.lanes);
        s.inverse[i] = load(p.inverse + at, g.lanes);
        g.lanes_last_row(p.out, g.node + i, s.edge);
        dot(s.d_out + i * p.channels, s.edge, p.channels, 1, s.weighted + i);
    }
    // A large graph sums tile by tile first: millions of pairs, one by one, would lose digits.
    const bool split = block_count(g.n) > 1;
    const int64_t pieces = p.segments * kLanes;
    Tiles tile(g.n, job.first_tile);
    for (int64_t t = job.first_tile; t < job.last_tile; ++t, tile.next()) {
        const Span rows = block_span(g.n, tile.row), columns = block_span(g.n, tile.column);
        const bool diagonal = tile.row == tile.column;
        if (diagonal || t == job.first_tile)
            copy_rows(g, rows, shape.padded, rows.count + kRows, s.left);
        copy_rows(g, columns, shape.padded, columns.count + kColumns, s.right);
        compute_scores(s, rows, columns, diagonal, shape.padded);
        apply_phi1<true>(s, table, rows, columns, diagonal);
        backward_rows(g, s, state, sums, d, rows, columns, kWidth, 1, s.gradient);
        if (!diagonal)
            backward_rows(g, s, state, sums, d, columns, rows, 1, kWidth, s.mirrored);
        if (split) memset(s.pieces, 0, pieces * sizeof(Piece));
        backward_phi1(s, split ? s.pieces : sums.pieces, rows, columns, diagonal);
        for (int64_t m = 0; split && m < pieces; ++m) {
            sums.pieces[m].slope += s.pieces[m].slope;
            sums.pieces[m].intercept += s.pieces[m].intercept;
        }
        backward_importance(s, state, rows, columns, diagonal, shape.padded);
    }
    if (!job.state) finish_backward(g, state, d);
}

void merge_backward(const AttentionCall& p, const Gradients& d, const Job* jobs) {
    const View g(p, jobs[0], nullptr);
    const Shape shape(p, g.n, g.k);
    Carver carver{(char*)jobs[0].state};
    const BackwardState whole(carver, p, shape);
    const int64_t count = (carver.at - (char*)jobs[0].state) / sizeof(float);
    for (int64_t part = 1; part < jobs[0].parts; ++part)
        for (int64_t c = 0; c < count; ++c) jobs[0].state[c] += jobs[part].state[c];
    finish_backward(g, whole, d);
}

}  // namespace
}  // namespace EIGENFORMER_TARGET
}  // namespace eigenformer
