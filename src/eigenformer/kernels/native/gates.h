// Gated messages along the edges of one graph: o_i = Σ_j η_ij v_j / (Σ_j η_ij + ε) with the gates
// η_ij = σ(a_i + b_j + c_ij), channel by channel.
//
// A panel of sixteen channels at a time. Backward computes the gates again instead of reading them:
// nothing is as large as edges times channels, unless each edge has its own c_ij.
//
// Part of lanes.cpp, compiled once per instruction set.
#pragma once

#include "filters.h"

namespace eigenformer {
namespace EIGENFORMER_TARGET {
namespace {

constexpr float kSmallestSum = 1e-6f;  // SMALLEST_SUM in base.py

struct Gate {
    vf open, closed;  // σ(x) and 1 - σ(x), both without cancellation
};
INLINE Gate gate_of(vf x) {
    const vi negative = x < 0.0f;
    const vf e = exponential(negative ? x : -x);
    const vf large = 1.0f / (1.0f + e), small = e * large;
    return {negative ? small : large, negative ? large : small};
}

// One panel of the channels of a node.
struct GateRow {
    const GateCall& p;
    int64_t channel, width;

    Panel at(const float* rows, int64_t row) const {
        return load_panel(rows + row * p.channels + channel, width);
    }
    void set(float* rows, int64_t row, const Panel& x) const {
        store_panel(rows + row * p.channels + channel, x, width);
    }
    void add(float* rows, int64_t row, const Panel& x, float factor = 1) const {
        Panel sum = at(rows, row);
        for (int v = 0; v < 2; ++v) sum.part[v] += factor * x.part[v];
        set(rows, row, sum);
    }
    // a_i + b_j + c_ij
    Panel logits(const Panel& target, int64_t source, int64_t edge) const {
        Panel x = at(p.source, source);
        for (int v = 0; v < 2; ++v) x.part[v] += target.part[v];
        if (!p.edge) return x;
        const int64_t row = p.edge_row[edge];
        for (int64_t f = 0; f < (p.coefficients ? p.factors : 1); ++f) {
            const float factor = p.coefficients ? p.coefficients[row * p.factors + f] : 1;
            const Panel c = at(p.edge, p.coefficients ? f : row);
            for (int v = 0; v < 2; ++v) x.part[v] += factor * c.part[v];
        }
        return x;
    }
};

void gate(const GateCall& p, int64_t graph) {
    const int64_t first = p.first_node[graph], end = p.first_node[graph + 1];
    for (int64_t channel = 0; channel < p.channels; channel += kPanel) {
        const GateRow row{p, channel, p.channels - channel < kPanel ? p.channels - channel : kPanel};
        for (int64_t i = first; i < end; ++i) {
            const Panel target = row.at(p.target, i);
            Panel sum = {}, received = {};
            for (int64_t e = p.first_edge[i]; e < p.first_edge[i + 1]; ++e) {
                const int64_t j = first + p.edge_source[e];
                const Panel x = row.logits(target, j, e), value = row.at(p.values, j);
                for (int v = 0; v < 2; ++v) {
                    const vf open = gate_of(x.part[v]).open;
                    sum.part[v] += open;
                    received.part[v] += open * value.part[v];
                }
            }
            for (int v = 0; v < 2; ++v) received.part[v] /= sum.part[v] + kSmallestSum;
            row.set(p.out, i, received);
            row.set(p.sums, i, sum);
        }
    }
}

// Adds to `d_edge` where edges share rows, else writes each edge's own row.
void gate_backward(const GateCall& p, int64_t graph, float* d_edge) {
    const int64_t first = p.first_node[graph], end = p.first_node[graph + 1];
    const size_t bytes = (end - first) * p.channels * sizeof(float);
    memset(p.d_source + first * p.channels, 0, bytes);
    memset(p.d_values + first * p.channels, 0, bytes);
    for (int64_t channel = 0; channel < p.channels; channel += kPanel) {
        const GateRow row{p, channel, p.channels - channel < kPanel ? p.channels - channel : kPanel};
        for (int64_t i = first; i < end; ++i) {
            const Panel target = row.at(p.target, i), out = row.at(p.out, i);
            const Panel sum = row.at(p.sums, i);
            Panel d_sum = row.at(p.d_out, i), d_target = {};
            for (int v = 0; v < 2; ++v) d_sum.part[v] /= sum.part[v] + kSmallestSum;
            for (int64_t e = p.first_edge[i]; e < p.first_edge[i + 1]; ++e) {
                const int64_t j = first + p.edge_source[e];
                const Panel x = row.logits(target, j, e), value = row.at(p.values, j);
                Panel d_value, d_logit;
                for (int v = 0; v < 2; ++v) {
                    const Gate gate = gate_of(x.part[v]);
                    d_value.part[v] = gate.open * d_sum.part[v];
                    d_logit.part[v] = d_value.part[v] * gate.closed * (value.part[v] - out.part[v]);
                    d_target.part[v] += d_logit.part[v];
                }
                row.add(p.d_values, j, d_value);
                row.add(p.d_source, j, d_logit);
                if (!d_edge) continue;
                const int64_t own = p.edge_row[e];
                if (p.coefficients) {
                    for (int64_t f = 0; f < p.factors; ++f)
                        row.add(d_edge, f, d_logit, p.coefficients[own * p.factors + f]);
                } else if (p.shared_rows) {
                    row.add(d_edge, own, d_logit);
                } else {
                    row.set(d_edge, own, d_logit);
                }
            }
            row.set(p.d_target, i, d_target);
        }
    }
}

}  // namespace
}  // namespace EIGENFORMER_TARGET
}  // namespace eigenformer
