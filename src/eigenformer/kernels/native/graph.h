// One graph and one group of eight heads: its memory, its tiles, its rows.
//
// Part of lanes.cpp, compiled once per instruction set.
#pragma once

#include "vectors.h"

namespace eigenformer {
namespace EIGENFORMER_TARGET {
namespace {

constexpr int kRows = 2, kColumns = 6;  // of a register block
constexpr int kWidth = kBlock + kColumns;

struct Shape {
    int64_t n, k, padded, channels;  // padded: k rounded up to a register block
    Shape(const AttentionCall& p, int64_t nodes, int64_t frequencies)
        : n(nodes), k(frequencies), padded((frequencies + kColumns - 1) / kColumns * kColumns),
          channels(p.channels) {}
};

// What the tiles of one graph add up to, forward and backward.
struct ForwardState {
    vf *maximum, *sum, *out;  // [n], [n], [n, channels]
    ForwardState(Carver& c, const Shape& s)
        : maximum(c.take<vf>(s.n)), sum(c.take<vf>(s.n)), out(c.take<vf>(s.n * s.channels)) {}
};
struct BackwardState {
    vf *importance, *values, *queries, *keys;  // [padded], [n, channels] …
    BackwardState(Carver& c, const AttentionCall& p, const Shape& s)
        : importance(c.take<vf>(s.padded)), values(c.take<vf>(s.n * s.channels)),
          queries(p.psi ? c.take<vf>(s.n * s.channels) : nullptr),
          keys(p.psi ? c.take<vf>(s.n * s.channels) : nullptr) {}
};

struct Scratch {
    vf *importance, *values, *queries, *keys;  // this graph's, lanes last
    vd *wide_queries, *wide_keys;              // the same in float64
    float *left, *right;                       // rows of U of the tile, padded with zeros
    vf *product;                               // u_i φ₂(Λ) of kRows rows
    vf *scores, *logits, *row, *other, *edge;
    // Backward only.
    vf *d_out, *weighted, *kept, *gradient, *mirrored, *d_product, *slope;
    vf *maximum, *inverse;
    vi* segment;
    Piece* pieces;
    Scratch(Carver& c, const AttentionCall& p, const Shape& s, bool backward) {
        const int64_t features = s.n * s.channels, tile = (kBlock + kRows) * kWidth;
        importance = c.take<vf>(s.padded);
        values = c.take<vf>(features);
        queries = p.psi ? c.take<vf>(features) : nullptr;
        keys = p.psi ? c.take<vf>(features) : nullptr;
        wide_queries = p.psi ? c.take<vd>(features) : nullptr;
        wide_keys = p.psi ? c.take<vd>(features) : nullptr;
        left = c.take<float>((kBlock + kRows) * s.padded);
        right = c.take<float>(kWidth * s.padded);
        product = c.take<vf>(kRows * s.padded);
        scores = c.take<vf>(tile);
        row = c.take<vf>(kWidth);
        other = c.take<vf>(kWidth);
        edge = c.take<vf>(s.channels);
        logits = scores;
        if (!backward) return;
        logits = c.take<vf>(tile);
        segment = c.take<vi>(tile);
        slope = c.take<vf>(tile);
        kept = c.take<vf>(tile);
        gradient = c.take<vf>(tile);
        mirrored = c.take<vf>(tile);
        d_product = p.psi ? c.take<vf>(tile) : nullptr;
        d_out = c.take<vf>(features);
        weighted = c.take<vf>(s.n);
        maximum = c.take<vf>(s.n);
        inverse = c.take<vf>(s.n);
        pieces = c.take<Piece>(p.segments * kLanes);
    }
};

// One graph and one group of heads.
struct View {
    const AttentionCall& p;
    const Job& job;
    const float* edge_values;  // shared rows, lanes last; or null
    int64_t lanes, node, n, k;
    const float* u;
    const float* importance;
    double scale;  // 1 / √C
    float keep_scale;
    uint32_t threshold;
    View(const AttentionCall& call, const Job& j, const float* shared)
        : p(call), job(j), edge_values(shared) {
        lanes = p.heads - job.head < kLanes ? p.heads - job.head : kLanes;
        node = p.first_node[job.graph];
        n = p.first_node[job.graph + 1] - node;
        k = p.first_frequency[job.graph + 1] - p.first_frequency[job.graph];
        u = p.eigenvectors + job.entry;
        importance = p.importance + p.first_frequency[job.graph] * p.heads + job.head;
        scale = 1.0 / sqrt((double)p.channels);
        keep_scale = 1.0f / (1.0f - p.dropout);
        threshold = (uint32_t)((double)p.dropout * 2147483648.0);
    }
    // [nodes, heads, channels] → [n, channels, lanes]
    void lanes_last(const float* from, vf* to) const {
        for (int64_t i = 0; i < n; ++i) lanes_last_row(from, node + i, to + i * p.channels);
    }
    void lanes_last_row(const float* from, int64_t row, vf* to) const {
        const float* f = from + (row * p.heads + job.head) * p.channels;
        float* t = (float*)to;
        const int64_t blocks = block_channels();
        for (int64_t c = 0; c < blocks; c += kLanes) {
            vf block[kLanes];
            for (int h = 0; h < kLanes; ++h) block[h] = load(f + h * p.channels + c);
            transpose(block);
            for (int h = 0; h < kLanes; ++h) to[c + h] = block[h];
        }
        if (lanes < kLanes) memset(to, 0, p.channels * sizeof(vf));
        for (int64_t c = blocks; c < p.channels; ++c)
            for (int64_t h = 0; h < lanes; ++h) t[c * kLanes + h] = f[h * p.channels + c];
    }
    void heads_first_row(const vf* from, int64_t row, float* to) const {
        const float* f = (const float*)from;
        float* t = to + (row * p.heads + job.head) * p.channels;
        const int64_t blocks = block_channels();
        for (int64_t c = 0; c < blocks; c += kLanes) {
            vf block[kLanes];
            for (int h = 0; h < kLanes; ++h) block[h] = from[c + h];
            transpose(block);
            for (int h = 0; h < kLanes; ++h) store(t + h * p.channels + c, block[h], kLanes);
        }
        for (int64_t c = blocks; c < p.channels; ++c)
            for (int64_t h = 0; h < lanes; ++h) t[h * p.channels + c] = f[c * kLanes + h];
    }
    // As many of the channels as are moved in square blocks: all heads of a vector must be there.
    int64_t block_channels() const {
        return lanes == kLanes ? p.channels / kLanes * kLanes : 0;
    }
    void heads_first(const vf* from, float* to) const {
        for (int64_t i = 0; i < n; ++i) heads_first_row(from + i * p.channels, node + i, to);
    }
    // A row that edges share, [channels, lanes].
    const vf* shared_value(int64_t row) const {
        return (const vf*)edge_values + ((job.head / kLanes) * p.value_rows() + row) * p.channels;
    }
    // a_ij[f]
    float coefficient(int64_t e, int64_t f) const {
        return p.edge_coefficients[p.edge_kind[e] * p.factors + f];
    }
    // w_ij, [channels, lanes]
    const vf* edge_value(int64_t e, vf* buffer) const {
        if (edge_values) return shared_value(p.edge_kind[e]);
        lanes_last_row(p.edge_values, p.edge_kind[e], buffer);
        return buffer;
    }
    vf edge_logit(int64_t e) const {
        return load(p.edge_logits + p.edge_kind[e] * p.heads + job.head, lanes);
    }
    // The first edge into node i whose source is not below `column`.
    int64_t first_edge(int64_t i, int64_t column) const {
        int64_t low = p.first_edge[node + i], high = p.first_edge[node + i + 1];
        while (low < high) {
            int64_t middle = (low + high) / 2;
            if (p.edge_source[middle] < column) low = middle + 1;
            else high = middle;
        }
        return low;
    }
};

struct Span {
    int64_t first, count;
};
Span block_span(int64_t n, int64_t block) {
    int64_t first = block_border(n, block);
    return {first, block_border(n, block + 1) - first};
}

void copy_rows(const View& g, Span span, int64_t padded, int64_t rows, float* to) {
    for (int64_t i = 0; i < rows; ++i, to += padded) {
        int64_t real = i < span.count ? g.k : 0;
        if (real) memcpy(to, g.u + (span.first + i) * g.k, real * sizeof(float));
        memset(to + real, 0, (padded - real) * sizeof(float));
    }
}

void load_graph(const View& g, const Scratch& s, const Shape& shape) {
    for (int64_t k = 0; k < shape.padded; ++k)
        s.importance[k] = k < g.k ? load(g.importance + k * g.p.heads, g.lanes) : vf{};
    g.lanes_last(g.p.values, s.values);
    if (g.p.psi) {
        g.lanes_last(g.p.queries, s.queries);
        g.lanes_last(g.p.keys, s.keys);
        for (int64_t c = 0; c < g.n * g.p.channels; ++c) {
            s.wide_queries[c] = __builtin_convertvector(s.queries[c], vd);
            s.wide_keys[c] = __builtin_convertvector(s.keys[c], vd);
        }
    }
}

// The tiles (I, J) with I ≤ J, row by row.
struct Tiles {
    int64_t blocks, row, column;
    Tiles(int64_t n, int64_t first) : blocks(block_count(n)), row(0), column(first) {
        while (column >= blocks - row) column -= blocks - row++;
        column += row;
    }
    void next() {
        if (++column == blocks) column = ++row;
    }
};

}  // namespace
}  // namespace EIGENFORMER_TARGET
}  // namespace eigenformer
