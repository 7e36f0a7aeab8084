// How one call is cut up: tables, jobs, and chunks of jobs for threads.
//
// Part of library.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "checks.h"
#include "instructions.h"
#include "memory.h"
#include "structures.h"

namespace eigenformer {
namespace {

int64_t group_count(const AttentionCall& p) { return (p.heads + kLanes - 1) / kLanes; }
template <class Call>
int64_t nodes_of(const Call& p, int64_t g) { return p.first_node[g + 1] - p.first_node[g]; }
template <class Call>
int64_t frequencies_of(const Call& p, int64_t g) {
    return p.first_frequency[g + 1] - p.first_frequency[g];
}

// Some functions as a table. `start` says for each of kCells equal intervals, between the first
// knot and the last, how many knots lie in the intervals before it: the search starts there. The
// interval of a number is a monotone function of it, so the start is never too far, whatever the
// rounding.
template <class Functions>
Table build_table(const Functions& p, int64_t count, int64_t head, float* memory) {
    const int64_t lanes = std::min<int64_t>(kLanes, count - head), segments = p.segments;
    Table t;
    t.low = memory;
    t.scale = t.low + kLanes;
    t.start = reinterpret_cast<Start*>(t.scale + kLanes);
    t.pieces = reinterpret_cast<Piece*>(t.start + kCells * kLanes);
    t.knots = reinterpret_cast<float*>(t.pieces + segments * kLanes);
    for (int64_t h = 0; h < kLanes; ++h) {
        const bool used = h < lanes;
        const float* knots = used && segments > 1 ? p.knots + (head + h) * (segments - 1) : nullptr;
        for (int64_t m = 0; m < segments; ++m) {
            const int64_t at = (head + h) * segments + m;
            t.pieces[m * kLanes + h] = used ? Piece{p.slopes[at], p.intercepts[at]} : Piece{};
            const bool inner = knots && m + 1 < segments;
            t.knots[m * kLanes + h] = inner ? knots[m] : INFINITY;
            require(!inner || (std::isfinite(knots[m]) && (m == 0 || knots[m - 1] <= knots[m])),
                    "knots must be finite and ascend");
        }
        const float low = t.low[h] = knots ? knots[0] : 0.0f;
        const float range = knots ? knots[segments - 2] - low : 0.0f;
        const float scale = t.scale[h] = range > 0 ? std::min(kCells / range, 1e30f) : 0.0f;
        int64_t m = 0;
        for (int64_t cell = 0; cell < kCells; ++cell) {
            while (knots && m + 1 < segments &&
                   std::min((knots[m] - low) * scale, kCells - 1.0f) < static_cast<float>(cell))
                ++m;
            const int64_t at = m * kLanes + h;
            t.start[cell * kLanes + h] = {static_cast<int32_t>(at), t.knots[at]};
        }
    }
    return t;
}
size_t table_floats(int64_t segments) { return kLanes * (2 + 2 * kCells + 3 * segments); }

// One call: its tables, its jobs, and how they are shared out.
struct Plan {
    const AttentionCall& p;
    const Kernel& kernel = active_kernel();
    bool backward;
    std::vector<Job> jobs;
    std::vector<int64_t> chunks;  // chunk c: jobs chunks[c] … chunks[c + 1] - 1
    std::vector<int64_t> split;   // the first jobs of graphs in several parts
    std::vector<Table> tables;    // one per group
    Memory table_memory, state_memory, edge_memory;
    float* edge_values = nullptr;  // where edges share them, [groups, rows, channels, lanes]

    Plan(const AttentionCall& call, bool is_backward) : p(call), backward(is_backward) {
        check(p);
        const int64_t groups = group_count(p);
        float* memory = table_memory.zeros(groups * table_floats(p.segments));
        for (int64_t group = 0; group < groups; ++group)
            tables.push_back(build_table(p, p.heads, group * kLanes,
                                         memory + group * table_floats(p.segments)));
        if (p.edge_values && p.value_rows()) transpose_edges();
        make_jobs();
    }

    void transpose_edges() {
        const int64_t rows = p.value_rows();
        edge_values = edge_memory.zeros(group_count(p) * rows * p.channels * kLanes);
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t h = 0; h < p.heads; ++h)
                for (int64_t c = 0; c < p.channels; ++c)
                    edge_values[(((h / kLanes) * rows + row) * p.channels + c) * kLanes +
                                h % kLanes] =
                        p.edge_values[(row * p.heads + h) * p.channels + c];
    }

    // A graph is one job, or several where there are threads and it is large. Jobs in a row make
    // a chunk, which one thread works through and which has its own sums: results depend on the
    // number of threads, never on their timing.
    void make_jobs() {
        double total = 0;
        for (int64_t g = 0; g < p.graphs; ++g) total += cost(g);
        total *= group_count(p);
        const double share = p.threads == 1 ? total : total / (8.0 * p.threads);
        size_t state = 0;
        int64_t entry = 0;
        for (int64_t g = 0; g < p.graphs; ++g) {
            const int64_t n = nodes_of(p, g), blocks = block_count(n);
            const int64_t tiles = blocks * (blocks + 1) / 2;
            const int64_t parts = std::clamp<int64_t>(std::llround(cost(g) / share), 1,
                                                      std::min<int64_t>(tiles, 8 * p.threads));
            for (int64_t head = 0; head < p.heads; head += kLanes) {
                if (parts > 1) split.push_back(static_cast<int64_t>(jobs.size()));
                for (int64_t part = 0; part < parts; ++part)
                    jobs.push_back({g, head, entry, part * tiles / parts,
                                    (part + 1) * tiles / parts, part, parts, nullptr});
            }
            if (parts > 1)
                state += group_count(p) * parts * kernel.state(p, n, frequencies_of(p, g), backward);
            entry += n * frequencies_of(p, g);
        }
        char* at = state ? state_memory.reserve(state) : nullptr;
        double filled = 0;
        for (size_t j = 0; j < jobs.size(); ++j) {
            Job& job = jobs[j];
            if (job.parts > 1) {
                job.state = reinterpret_cast<float*>(at);
                at += kernel.state(p, nodes_of(p, job.graph), frequencies_of(p, job.graph),
                                   backward);
            }
            if (j == 0 || (p.threads > 1 && filled >= share * static_cast<double>(chunks.size())))
                chunks.push_back(static_cast<int64_t>(j));
            filled += cost(job.graph) / static_cast<double>(job.parts);
        }
        chunks.push_back(static_cast<int64_t>(jobs.size()));
    }
    double cost(int64_t g) const {
        const double n = static_cast<double>(nodes_of(p, g));
        return n * n * (64.0 + static_cast<double>(frequencies_of(p, g)));
    }

    char* scratch_for(int64_t chunk) const {
        size_t bytes = 0;
        for (int64_t j = chunks[chunk]; j < chunks[chunk + 1]; ++j)
            bytes = std::max(bytes, kernel.scratch(p, nodes_of(p, jobs[j].graph),
                                                   frequencies_of(p, jobs[j].graph), backward));
        return thread_scratch.reserve(bytes);
    }
    int64_t chunk_count() const { return static_cast<int64_t>(chunks.size()) - 1; }
};

}  // namespace
}  // namespace eigenformer
