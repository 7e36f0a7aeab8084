// Filters of the spectrum, applied to the nodes of one graph: U (f ⊙ Uᵀ x).
//
// A panel of sixteen channels at a time, so that it stays in the first-level cache. Vectors run
// over channels: a ragged graph needs no padding.
//
// Part of lanes.cpp, compiled once per instruction set.
#pragma once

#include "vectors.h"

namespace eigenformer {
namespace EIGENFORMER_TARGET {
namespace {

struct Panel {
    vf part[2];
};
constexpr int64_t kPanel = 2 * kLanes;
constexpr int kFilterRows = 6;  // of a register block

// out[r] = Σ_t u[r · row + t · step] x[t] for R rows
template <int R>
INLINE void product_block(const float* u, int64_t row, int64_t step, const Panel* x, int64_t count,
                          Panel* out) {
    vf sum[R][2] = {};
    for (int64_t t = 0; t < count; ++t, u += step)
        for (int r = 0; r < R; ++r) {
            sum[r][0] += u[r * row] * x[t].part[0];
            sum[r][1] += u[r * row] * x[t].part[1];
        }
    for (int r = 0; r < R; ++r) out[r] = {{sum[r][0], sum[r][1]}};
}
INLINE void product(const float* u, int64_t row, int64_t step, int64_t rows, const Panel* x,
                    int64_t count, Panel* out) {
    for (; rows >= kFilterRows; rows -= kFilterRows, u += kFilterRows * row, out += kFilterRows)
        product_block<kFilterRows>(u, row, step, x, count, out);
    switch (rows) {
        case 1: product_block<1>(u, row, step, x, count, out); break;
        case 2: product_block<2>(u, row, step, x, count, out); break;
        case 3: product_block<3>(u, row, step, x, count, out); break;
        case 4: product_block<4>(u, row, step, x, count, out); break;
        case 5: product_block<5>(u, row, step, x, count, out); break;
    }
}

// Some channels of one row.
INLINE Panel load_panel(const float* p, int64_t width) {
    if (width <= kLanes) return {{load(p, width), vf{}}};
    return {{load(p), load(p + kLanes, width - kLanes)}};
}
INLINE void store_panel(float* p, const Panel& x, int64_t width) {
    store(p, x.part[0], width < kLanes ? width : kLanes);
    if (width > kLanes) store(p + kLanes, x.part[1], width - kLanes);
}

struct FilterScratch {
    Panel *nodes, *modes;
    FilterScratch(Carver& c, int64_t n, int64_t k)
        : nodes(c.take<Panel>(n)), modes(c.take<Panel>(k)) {}
};
size_t filter_bytes(int64_t nodes, int64_t frequencies) {
    Carver carver{nullptr};
    FilterScratch(carver, nodes, frequencies);
    return (size_t)carver.at;
}

// Sums over the channels of each filter, one channel after the other.
INLINE void add_by_filter(const Panel& x, const Panel& y, const vi (&filter)[2], int64_t width,
                          float* out) {
    for (int64_t c = 0; c < width; ++c) {
        const int64_t v = c / kLanes, lane = c % kLanes;
        out[filter[v][lane]] += x.part[v][lane] * y.part[v][lane];
    }
}

// The graph whose eigenvectors start at `entry`.
void filter(const FilterCall& p, int64_t graph, int64_t entry, char* memory) {
    const int64_t node = p.first_node[graph], n = p.first_node[graph + 1] - node;
    const int64_t frequency = p.first_frequency[graph], k = p.first_frequency[graph + 1] - frequency;
    const int64_t d = p.filters * p.channels;
    const float* u = p.eigenvectors + entry;
    const float* importance = p.importance + frequency * p.filters;
    float* d_importance = p.d_importance ? p.d_importance + frequency * p.filters : nullptr;
    if (d_importance) memset(d_importance, 0, k * p.filters * sizeof(float));
    Carver carver{memory};
    const FilterScratch s(carver, n, k);
    for (int64_t channel = 0; channel < d; channel += kPanel) {
        const int64_t width = d - channel < kPanel ? d - channel : kPanel;
        vi filter[2];  // of each channel
        for (int64_t c = 0; c < kPanel; ++c)
            filter[c / kLanes][c % kLanes] =
                (int32_t)((channel + (c < width ? c : 0)) / p.channels);
        const float* values = p.values + node * d + channel;
        for (int64_t i = 0; i < n; ++i) s.nodes[i] = load_panel(values + i * d, width);
        product(u, 1, k, k, s.nodes, n, s.modes);
        for (int64_t m = 0; m < k; ++m) {
            Panel& mode = s.modes[m];
            const int64_t at = (frequency + m) * d + channel;
            if (d_importance)
                add_by_filter(load_panel(p.modes + at, width), mode, filter, width,
                              d_importance + m * p.filters);
            else
                store_panel(p.modes + at, mode, width);
            for (int v = 0; v < 2; ++v)
                mode.part[v] *= gather(importance + m * p.filters, filter[v]);
        }
        product(u, k, 1, n, s.modes, k, s.nodes);
        float* out = p.out + node * d + channel;
        for (int64_t i = 0; i < n; ++i) store_panel(out + i * d, s.nodes[i], width);
    }
}

}  // namespace
}  // namespace EIGENFORMER_TARGET
}  // namespace eigenformer
