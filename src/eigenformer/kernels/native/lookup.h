// Scalar functions by their linear pieces.
//
// Part of lanes.cpp, compiled once per instruction set.
#pragma once

#include "vectors.h"

namespace eigenformer {
namespace EIGENFORMER_TARGET {
namespace {

// The linear piece that s lies in, as a position in the table: knots[m-1] < s ≤ knots[m].
INLINE vi find_segment(const Table& t, vf s) {
    const vf zero = {}, last = splat(kCells - 1);
    vf cell = (s - load(t.low)) * load(t.scale);
    cell = cell > zero ? cell : zero;  // a NaN ends up in cell 0
    cell = cell < last ? cell : last;
    vf position, knot;
    gather_pairs(t.start, __builtin_convertvector(cell, vi) * kLanes + kLane, position, knot);
    vi m = (vi)position, above = s > knot;
    while (any(above)) {  // seldom: there are more cells than knots
        m -= above * kLanes;
        above = s > gather(t.knots, m);
    }
    return m;
}

// Where function `first` + h puts its values: [layer, count, heads].
struct EvaluationOut {
    float* at[kLanes];
    int64_t lanes;
    EvaluationOut(const Evaluation& p, int64_t first) {
        lanes = p.functions - first < kLanes ? p.functions - first : kLanes;
        for (int64_t h = 0; h < lanes; ++h)
            at[h] = p.y + (first + h) / p.heads * p.count * p.heads + (first + h) % p.heads;
    }
};

void evaluate(const Evaluation& p, const Table& table, int64_t first) {
    const EvaluationOut out(p, first);
    for (int64_t i = 0; i < p.count; ++i) {
        const vf x = splat(p.x[i]);
        vf slope, intercept;
        gather_pairs(table.pieces, find_segment(table, x), slope, intercept);
        const vf y = slope * x + intercept;
        for (int64_t h = 0; h < out.lanes; ++h) out.at[h][i * p.heads] = y[h];
    }
}

void evaluate_backward(const Evaluation& p, const Table& table, int64_t first, const Sums& sums) {
    const EvaluationOut out(p, first);
    for (int64_t i = 0; i < p.count; ++i) {
        vf d = {};
        for (int64_t h = 0; h < out.lanes; ++h) d[h] = out.at[h][i * p.heads];
        scatter_pairs(sums.pieces, find_segment(table, splat(p.x[i])), d * p.x[i], d);
    }
}

}  // namespace
}  // namespace EIGENFORMER_TARGET
}  // namespace eigenformer
