// What the kernel is given, what it returns, and how the work is cut up.
//
// AttentionCall, Gradients, FilterCall, GateCall, Evaluation and Networks are mirrored field by field in
// structures.py; layout.h describes them, so that a difference is found when the library is loaded.
#pragma once

#include <cstddef>
#include <cstdint>

namespace eigenformer {

// Vectors run over heads: eight heads are computed together, for one pair of nodes. So a ragged
// graph needs no padding, the symmetric half of a matrix is as regular as the whole, and a matrix
// is read along its columns as fast as along its rows.
constexpr int kLanes = 8;

// The largest number of a function's linear pieces; MOST_PIECES in scalar_mlp.py. A few hidden
// layers with hostile weights have millions of them.
constexpr int64_t kMostSegments = 65536;

enum Psi : int32_t { kNoFeatures = 0, kIdentity = 1, kSignedSqrt = 2 };

struct AttentionCall {
    int64_t graphs, nodes, frequencies, heads, channels;
    int64_t segments;    // linear pieces of φ₁
    int64_t edges;       // distinct edges
    int64_t edge_kinds;  // rows of edge_logits and edge_values
    int64_t factors;     // or else, given coefficients, rows of edge_values
    int64_t entries;     // Σ n·k, the length of eigenvectors

    const int64_t* first_node;       // [graphs + 1]
    const int64_t* first_frequency;  // [graphs + 1]
    const int64_t* first_edge;       // [nodes + 1], edges sorted by (target, source)
    const int64_t* edge_source;      // [edges], position within its graph
    const int64_t* edge_kind;        // [edges], a row of edge_logits and edge_values
    const float* edge_coefficients;  // [edge_kinds, factors] or null, see `value_rows`

    const float* eigenvectors;  // [Σ n·k]
    const float* importance;    // [Σ k, heads], φ₂(λ)
    const float* knots;         // [heads, segments - 1]
    const float* slopes;        // [heads, segments]
    const float* intercepts;    // [heads, segments]
    const float* values;        // [nodes, heads, channels]
    const float* queries;       // [nodes, heads, channels] or null
    const float* keys;          // likewise
    const float* edge_logits;   // [edge_kinds, heads] or null
    const float* edge_values;   // [edge_kinds or factors, heads, channels] or null

    uint64_t seed;
    float dropout;
    int32_t psi;
    int32_t shared_kinds;  // several edges may be of one kind
    int32_t threads;

    float* out;      // [nodes, heads, channels]
    float* maximum;  // [nodes, heads], the largest logit of each row
    float* inverse;  // [nodes, heads], 1 / Σ exp(logit - maximum)

    // Where all edges share a few rows of edge_values, how many. An edge has one of them, that of
    // its kind; or a sum of all, w_ij = Σ_f a_ij[f] edge_values[f], with its own coefficients a_ij.
    int64_t value_rows() const {
        return edge_coefficients ? factors : shared_kinds ? edge_kinds : 0;
    }
};

// Null pointers for what is not wanted; d_out is given, all others are written.
struct Gradients {
    const float* d_out;
    float *importance, *slopes, *intercepts, *values, *queries, *keys, *edge_logits, *edge_values;
};

// Filters of the spectrum, U (f ⊙ Uᵀ x), each for its own channels. They are symmetric: the gradient
// of x is the filtered gradient, and the gradient of f pairs the modes of both.
struct FilterCall {
    int64_t graphs, nodes, frequencies, filters, channels;
    int64_t entries;  // Σ n·k, the length of eigenvectors

    const int64_t* first_node;       // [graphs + 1]
    const int64_t* first_frequency;  // [graphs + 1]
    const float* eigenvectors;       // [Σ n·k]
    const float* importance;         // [Σ k, filters], f = φ(λ)
    const float* values;             // [nodes, filters, channels], x; backward: d_out
    float* modes;                    // [Σ k, filters, channels], Uᵀ x; backward: given
    float* out;                      // [nodes, filters, channels]; backward: the gradient of x
    float* d_importance;             // [Σ k, filters]; null unless backward
    int64_t threads;
};

// Gated messages along edges, o_i = Σ_j η_ij v_j / (Σ_j η_ij + ε) with η_ij = σ(a_i + b_j + c_ij).
struct GateCall {
    int64_t graphs, nodes, channels;
    int64_t edges;    // distinct edges
    int64_t rows;     // of `edge` or, given coefficients, of those
    int64_t factors;  // given coefficients, rows of `edge`

    const int64_t* first_node;   // [graphs + 1]
    const int64_t* first_edge;   // [nodes + 1], edges sorted by (target, source)
    const int64_t* edge_source;  // [edges], position within its graph
    const int64_t* edge_row;     // [edges]; null without `edge`
    const float* coefficients;   // [rows, factors] or null: c_ij = Σ_f a_ij[f] edge[f]
    const float* target;         // [nodes, channels], a
    const float* source;         // [nodes, channels], b
    const float* values;         // [nodes, channels], v
    const float* edge;           // [rows or factors, channels] or null, c

    float* out;   // [nodes, channels]; backward: given
    float* sums;  // [nodes, channels], Σ_j η_ij; backward: given
    // Null unless backward; d_out is given, the others are written.
    const float* d_out;
    float *d_target, *d_source, *d_values, *d_edge;
    int32_t shared_rows;  // several edges may have the same row of `edge`
    int32_t threads;
};

// Some tiles of the symmetric matrix of one graph, for one group of heads.
struct Job {
    int64_t graph;
    int64_t head;   // the first of the group
    int64_t entry;  // where the graph's eigenvectors start
    int64_t first_tile, last_tile;
    int64_t part, parts;  // of the graph
    float* state;         // where parts > 1: what this part found, to be merged
};

// Some functions, one per lane, as a table; see `build_table`.
struct Start {
    int32_t position;  // in pieces and knots
    float knot;        // the knot there
};
struct Piece {
    float slope, intercept;
};
struct Table {
    float *low, *scale;  // [lanes]
    Start* start;        // [kCells, lanes]
    Piece* pieces;       // [segments, lanes]
    float* knots;        // [segments, lanes], the last one infinite
};
constexpr int kCells = 128;

// Sums over pairs of different graphs. Every chunk of jobs has its own; they are added in order.
struct Sums {
    Piece* pieces;                     // [segments, lanes]
    float *edge_logits, *edge_values;  // [kinds, lanes], [rows, channels, lanes] if shared
};

// Scalar functions by their linear pieces, all at the same numbers: φ₂ at the eigenvalues.
struct Evaluation {
    int64_t functions, segments, count;
    int64_t heads;            // functions of a layer
    const float* x;           // [count]
    const float* knots;       // [functions, segments - 1]
    const float* slopes;      // [functions, segments]
    const float* intercepts;  // [functions, segments]
    float* y;                 // [functions / heads, count, heads]
    // Backward: y is given as d_y, these are written.
    float *d_slopes, *d_intercepts;
};

// Scalar ReLU networks of one shape, 1 → width → … → width → 1 with `depth` hidden layers, several
// modules of `heads` each; and the linear pieces of all on their ranges.
struct Networks {
    int64_t functions, heads, width, depth;
    int64_t capacity;             // pieces of a function that there is room for
    const float* const* weights;  // [modules, depth + 1], each [heads, out, in]
    const float* const* biases;   // [modules, depth + 1], each [heads, out]
    const float *low, *high;      // [functions]
    float* knots;                 // [functions, capacity - 1]
    float *slopes, *intercepts;   // [functions, capacity]; backward: their gradients, given
    float* const* d_weights;      // backward
    float* const* d_biases;
    int64_t threads;
};

// One per instruction set, from the same source.
struct Kernel {
    const char* name;
    size_t (*scratch)(const AttentionCall&, int64_t nodes, int64_t frequencies, bool backward);
    size_t (*state)(const AttentionCall&, int64_t nodes, int64_t frequencies, bool backward);
    void (*forward)(const AttentionCall&, const Table&, const float* edge_values, const Job&, char*);
    void (*backward)(const AttentionCall&, const Gradients&, const Table&, const float* edge_values,
                     const Job&, const Sums&, char*);
    // All parts of one graph and group of heads, in order.
    void (*merge_forward)(const AttentionCall&, const Job*);
    void (*merge_backward)(const AttentionCall&, const Gradients&, const Job*);
    // One graph, whose eigenvectors start at `entry`.
    size_t (*filter_bytes)(int64_t nodes, int64_t frequencies);
    void (*filter)(const FilterCall&, int64_t graph, int64_t entry, char*);
    // One graph. Gradients of `edge` are added to an array of its own if edges share rows.
    void (*gate)(const GateCall&, int64_t graph);
    void (*gate_backward)(const GateCall&, int64_t graph, float* d_edge);
    // Functions `first` to `first` + kLanes - 1.
    void (*evaluate)(const Evaluation&, const Table&, int64_t first);
    void (*evaluate_backward)(const Evaluation&, const Table&, int64_t first, const Sums&);
    // One function: writes its linear pieces and returns how many there are; or the way back.
    size_t (*walk_bytes)(const Networks&);
    int64_t (*linear_pieces)(const Networks&, int64_t function, char*);
    void (*linear_pieces_backward)(const Networks&, int64_t function, char*);
};

// A graph is cut into blocks of nodes, as few as fit, of nearly equal size. The matrices of a tile,
// a block by a block, stay in the second-level cache.
constexpr int kBlock = 40;
static inline int64_t block_count(int64_t nodes) { return (nodes + kBlock - 1) / kBlock; }
static inline int64_t block_border(int64_t nodes, int64_t block) {
    return block * nodes / block_count(nodes);
}

// Whether attention weight (i, j) of a graph survives dropout is a function of these alone.
struct DropoutKeys {
    uint32_t a, b;
};
static inline uint32_t mix(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}
static inline DropoutKeys row_keys(uint64_t seed, uint32_t graph, uint32_t head, uint32_t row) {
    const uint32_t low = static_cast<uint32_t>(seed), high = static_cast<uint32_t>(seed >> 32);
    const uint32_t a = mix(mix(mix(mix(low) + graph) + head) + row);
    const uint32_t b = mix(mix(high) ^ a);
    return {a, b};
}
constexpr uint32_t kColumnStep = 0x9e3779b9u, kLastMix = 0x846ca68bu;
// 31 random bits for column j; dropped if below dropout · 2³¹.
static inline uint32_t random_bits(DropoutKeys keys, uint32_t column) {
    uint32_t x = keys.a ^ (column * kColumnStep);
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x ^= keys.b;
    x = (x ^ (x >> 15)) * kLastMix;
    return (x ^ (x >> 16)) >> 1;
}

}  // namespace eigenformer
