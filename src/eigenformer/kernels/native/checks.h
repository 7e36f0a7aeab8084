// Nothing that is used as an address is taken for granted.
//
// Part of library.cpp.
#pragma once

#include <vector>

#include "structures.h"

namespace eigenformer {
namespace {

struct Error {
    const char* message;
};
void require(bool condition, const char* message) {
    if (!condition) throw Error{message};
}

// The graphs' offsets and the matrices U.
template <class Call>
void check_spectra(const Call& p) {
    require(p.first_node[0] == 0 && p.first_frequency[0] == 0, "offsets must start at 0");
    int64_t entries = 0;
    for (int64_t g = 0; g < p.graphs; ++g) {
        const int64_t n = p.first_node[g + 1] - p.first_node[g];
        const int64_t k = p.first_frequency[g + 1] - p.first_frequency[g];
        require(n > 0 && p.first_node[g + 1] <= p.nodes, "first_node must ascend to the nodes");
        require(k >= 0 && p.first_frequency[g + 1] <= p.frequencies,
                "first_frequency must ascend to the frequencies");
        require(k == 0 || n <= (p.entries - entries) / k, "the eigenvectors are too short");
        entries += n * k;
    }
    require(p.first_node[p.graphs] == p.nodes, "first_node must end at the nodes");
    require(p.first_frequency[p.graphs] == p.frequencies, "first_frequency must end at them");
    require(entries == p.entries, "the eigenvectors are too long");
}

// The edges of nodes that were checked, and the kind of each edge, if there are any.
template <class Call>
void check_edges(const Call& p, const int64_t* kind, int64_t kinds, bool shared) {
    require(p.first_edge && p.edge_source, "the edges' arrays are missing");
    require(p.first_edge[0] == 0 && p.first_edge[p.nodes] == p.edges,
            "first_edge must go from 0 to the edges");
    const bool own = kind && !shared;
    std::vector<bool> seen(own ? kinds : 0);
    require(!own || kinds == p.edges, "every edge needs a kind of its own");
    for (int64_t g = 0; g < p.graphs; ++g)
        for (int64_t i = p.first_node[g]; i < p.first_node[g + 1]; ++i) {
            require(p.first_edge[i] <= p.first_edge[i + 1] && p.first_edge[i + 1] <= p.edges,
                    "first_edge must ascend");
            int64_t before = -1;
            for (int64_t e = p.first_edge[i]; e < p.first_edge[i + 1]; ++e) {
                require(p.edge_source[e] > before, "edges must be distinct, sorted by source");
                before = p.edge_source[e];
                if (!kind) continue;
                require(kind[e] >= 0 && kind[e] < kinds, "the kind of an edge is outside the kinds");
                if (shared) continue;
                require(!seen[kind[e]], "two edges are of one kind");
                seen[kind[e]] = true;
            }
            require(before < p.first_node[g + 1] - p.first_node[g], "an edge leaves its graph");
        }
}

// Everything that is used as an address later on.
void check(const AttentionCall& p) {
    require(p.graphs > 0 && p.nodes > 0 && p.heads > 0 && p.channels > 0 && p.segments > 0,
            "a batch needs graphs, nodes, heads, channels and segments");
    require(p.edges >= 0 && p.edge_kinds >= 0 && p.factors >= 0 && p.frequencies >= 0 && p.entries >= 0,
            "a count is negative");
    // Table positions are 32 bits.
    require(p.segments < (int64_t{1} << 26), "too many segments");
    require(p.graphs <= p.nodes && p.nodes < (int64_t{1} << 31), "too many graphs or nodes");
    require(p.first_node && p.first_frequency && p.eigenvectors && p.importance && p.slopes &&
                p.intercepts && p.values && p.out && p.maximum && p.inverse,
            "a required array is missing");
    require(p.segments == 1 || p.knots, "knots are missing");
    require(p.psi == kNoFeatures || (p.queries && p.keys), "queries or keys are missing");
    require(p.psi >= kNoFeatures && p.psi <= kSignedSqrt, "unknown psi");
    require(p.dropout >= 0 && p.dropout < 1, "dropout is outside [0, 1)");
    require(p.threads > 0, "threads must be positive");
    check_spectra(p);
    require(!p.edge_coefficients || (p.edge_values && p.factors > 0 && !p.shared_kinds),
            "coefficients go with factors, and with a row of logits for each edge");
    if (!p.edge_logits && !p.edge_values) return;
    require(p.edge_kind, "the edges' arrays are missing");
    check_edges(p, p.edge_kind, p.edge_kinds, p.shared_kinds);
}

void check(const FilterCall& p) {
    require(p.graphs > 0 && p.nodes > 0 && p.filters > 0 && p.channels > 0,
            "a batch needs graphs, nodes, filters and channels");
    require(p.frequencies >= 0 && p.entries >= 0, "a count is negative");
    // The filter of a channel is 32 bits.
    require(p.graphs <= p.nodes && p.filters < (int64_t{1} << 31), "too many graphs or filters");
    require(p.first_node && p.first_frequency && p.eigenvectors && p.importance && p.values &&
                p.modes && p.out,
            "a required array is missing");
    require(p.threads > 0, "threads must be positive");
    check_spectra(p);
}

void check(const GateCall& p) {
    require(p.graphs > 0 && p.nodes > 0 && p.channels > 0,
            "a batch needs graphs, nodes and channels");
    require(p.edges >= 0 && p.rows >= 0 && p.factors >= 0, "a count is negative");
    require(p.graphs <= p.nodes && p.nodes < (int64_t{1} << 31), "too many graphs or nodes");
    require(p.first_node && p.target && p.source && p.values && p.out && p.sums,
            "a required array is missing");
    require(!p.d_out || (p.d_target && p.d_source && p.d_values && !p.edge == !p.d_edge),
            "a gradient is null");
    require(p.threads > 0, "threads must be positive");
    require(p.first_node[0] == 0 && p.first_node[p.graphs] == p.nodes,
            "first_node must go from 0 to the nodes");
    for (int64_t g = 0; g < p.graphs; ++g)
        require(p.first_node[g] < p.first_node[g + 1] && p.first_node[g + 1] <= p.nodes,
                "first_node must ascend to the nodes");
    require(!p.edge == !p.edge_row, "edges with features have rows");
    require(!p.coefficients || (p.edge && p.factors > 0 && !p.shared_rows),
            "coefficients go with factors, and with a row for each edge");
    check_edges(p, p.edge_row, p.rows, p.shared_rows);
}

void check(const Networks& n, bool backward) {
    require(n.functions > 0 && n.heads > 0 && n.functions % n.heads == 0 && n.width > 0 &&
                n.depth > 0 && n.capacity > 0 && n.threads > 0,
            "the networks' shapes do not fit");
    // So that no size overflows, and table positions fit into 32 bits.
    require(n.width < (1 << 15) && n.depth < (1 << 10) && n.capacity < (int64_t{1} << 26),
            "the networks are too large");
    require(n.weights && n.biases && n.low && n.high && n.slopes && n.intercepts &&
                (backward || n.capacity == 1 || n.knots),
            "a required array is missing");
    require(!backward || (n.d_weights && n.d_biases), "a gradient is null");
    for (int64_t i = 0; i < n.functions / n.heads * (n.depth + 1); ++i) {
        require(n.weights[i] && n.biases[i], "a weight is missing");
        require(!backward || (n.d_weights[i] && n.d_biases[i]), "a gradient is null");
    }
}

}  // namespace
}  // namespace eigenformer
