// The logits of a tile: φ₁ of the scores, and what features and edges add.
//
// Part of lanes.cpp, compiled once per instruction set.
#pragma once

#include "graph.h"
#include "lookup.h"

namespace eigenformer {
namespace EIGENFORMER_TARGET {
namespace {

// s_ij = Σ_k u_ik φ₂(λ_k) u_jk, from j = i on where the tile lies on the diagonal.
void compute_scores(const Scratch& s, Span rows, Span columns, bool diagonal, int64_t padded) {
    for (int64_t i = 0; i < rows.count; i += kRows) {
        for (int r = 0; r < kRows; ++r)
            for (int64_t k = 0; k < padded; ++k)
                s.product[r * padded + k] = s.left[(i + r) * padded + k] * s.importance[k];
        for (int64_t j = diagonal ? i : 0; j < columns.count; j += kColumns) {
            const float* u = s.right + j * padded;
            vf sum[kRows][kColumns] = {};
            for (int64_t k = 0; k < padded; ++k)
                for (int c = 0; c < kColumns; ++c)
                    for (int r = 0; r < kRows; ++r)
                        sum[r][c] += s.product[r * padded + k] * u[c * padded + k];
            for (int r = 0; r < kRows; ++r)
                for (int c = 0; c < kColumns; ++c)
                    s.scores[(i + r) * kWidth + j + c] = sum[r][c];
        }
    }
}

// x_ij = φ₁(s_ij) of the tile, both halves where it lies on the diagonal.
template <bool kKeep>
void apply_phi1(const Scratch& s, const Table& table, Span rows, Span columns, bool diagonal) {
    for (int64_t i = 0; i < rows.count; ++i)
        for (int64_t j = diagonal ? i : 0; j < columns.count; ++j) {
            const vf score = s.scores[i * kWidth + j];
            const vi m = find_segment(table, score);
            vf slope, intercept;
            gather_pairs(table.pieces, m, slope, intercept);
            const vf x = slope * score + intercept;
            s.logits[i * kWidth + j] = x;
            if (diagonal) s.logits[j * kWidth + i] = x;
            if (kKeep) {
                s.segment[i * kWidth + j] = m;
                s.slope[i * kWidth + j] = slope;
            }
        }
}

constexpr float kPsiEpsilon = 1e-6f;
INLINE vf psi(vf x, int32_t kind) {
    if (kind == kIdentity) return x;
    vf size = x > vf{} ? x : -x;
    return x / square_root(size + kPsiEpsilon);
}
// dψ/dx = r - |x| r³ / 2 with r = 1 / √(|x| + ε)
INLINE vf psi_slope(vf x, int32_t kind) {
    if (kind == kIdentity) return splat(1.0f);
    vf size = x > vf{} ? x : -x;
    vf inverse = 1.0f / (size + kPsiEpsilon);
    return square_root(inverse) * (1.0f - 0.5f * size * inverse);
}

// The logits of row i over some columns: φ₁'s, plus those of features and edges.
void row_logits(const View& g, const Scratch& s, int64_t i, Span columns, const vf* phi1,
                int64_t stride, int64_t first_edge, int64_t last_edge, vf* x) {
    const int64_t channels = g.p.channels;
    if (g.p.psi) {
        feature_products(s.wide_queries + i * channels, s.wide_keys + columns.first * channels,
                         channels, columns.count, g.scale, x);
        for (int64_t j = 0; j < columns.count; ++j)
            x[j] = psi(x[j], g.p.psi) + phi1[j * stride];
    } else {
        for (int64_t j = 0; j < columns.count; ++j) x[j] = phi1[j * stride];
    }
    if (g.p.edge_logits)
        for (int64_t e = first_edge; e < last_edge; ++e)
            x[g.p.edge_source[e] - columns.first] += g.edge_logit(e);
}

// Which weights of row i survive dropout.
struct DropoutRow {
    vu a, b;
    DropoutRow(const View& g, int64_t i) : a{}, b{} {
        if (g.p.dropout > 0)
            for (int64_t h = 0; h < g.lanes; ++h) {
                DropoutKeys keys = row_keys(g.p.seed, g.job.graph, g.job.head + h, i);
                a[h] = keys.a;
                b[h] = keys.b;
            }
    }
    // `random_bits` of structures.h, lane by lane.
    INLINE vi dropped(vu a, vu b, uint32_t column, uint32_t threshold) {
        vu x = a ^ (column * kColumnStep);
        x = (x ^ (x >> 16)) * 0x7feb352du;
        x ^= b;
        x = (x ^ (x >> 15)) * kLastMix;
        return (vi)((x ^ (x >> 16)) >> 1) < (vi)(vu{} + threshold);
    }
};

}  // namespace
}  // namespace EIGENFORMER_TARGET
}  // namespace eigenformer
