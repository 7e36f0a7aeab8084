// The C interface: checks what it is given, cuts the work into jobs and runs them on threads.
//
// Nothing here knows PyTorch.

#include <cstdio>
#include <exception>

#include "instructions.h"
#include "layout.h"
#include "plan.h"
#include "threads.h"

namespace eigenformer {
namespace {

void run_forward(const AttentionCall& p) {
    const Plan plan(p, false);
    run(plan.chunk_count(), p.threads, [&](int64_t chunk) {
        char* scratch = plan.scratch_for(chunk);
        for (int64_t j = plan.chunks[chunk]; j < plan.chunks[chunk + 1]; ++j)
            plan.kernel.forward(p, plan.tables[plan.jobs[j].head / kLanes], plan.edge_values,
                                plan.jobs[j], scratch);
        thread_scratch.shrink(kKeepBytes);
    });
    run(static_cast<int64_t>(plan.split.size()), p.threads, [&](int64_t index) {
        plan.kernel.merge_forward(p, &plan.jobs[plan.split[index]]);
    });
}

void run_backward(const AttentionCall& p, const Gradients& d) {
    require(d.d_out && d.importance && d.slopes && d.intercepts && d.values, "a gradient is null");
    require(!p.psi || (d.queries && d.keys), "a gradient of the features is null");
    require((!p.edge_logits || d.edge_logits) && (!p.edge_values || d.edge_values),
            "a gradient of the edges is null");
    const Plan plan(p, true);
    const int64_t groups = group_count(p), chunks = plan.chunk_count();
    // Per chunk and group: slopes, intercepts and, where edges share rows, those.
    const int64_t pieces = 2 * p.segments * kLanes;
    const int64_t kinds = p.shared_kinds ? p.edge_kinds : 0, rows = p.edge_values ? p.value_rows() : 0;
    const int64_t size = pieces + (kinds + rows * p.channels) * kLanes;
    Memory memory;
    float* sums = memory.zeros(chunks * groups * size);
    run(chunks, p.threads, [&](int64_t chunk) {
        char* scratch = plan.scratch_for(chunk);
        for (int64_t j = plan.chunks[chunk]; j < plan.chunks[chunk + 1]; ++j) {
            const Job& job = plan.jobs[j];
            float* own = sums + (chunk * groups + job.head / kLanes) * size;
            const Sums mine{reinterpret_cast<Piece*>(own), own + pieces, own + pieces + kinds * kLanes};
            plan.kernel.backward(p, d, plan.tables[job.head / kLanes], plan.edge_values, job, mine,
                                 scratch);
        }
        thread_scratch.shrink(kKeepBytes);
    });
    run(static_cast<int64_t>(plan.split.size()), p.threads, [&](int64_t index) {
        plan.kernel.merge_backward(p, d, &plan.jobs[plan.split[index]]);
    });
    // Chunk after chunk, in order.
    for (int64_t chunk = 1; chunk < chunks; ++chunk)
        for (int64_t i = 0; i < groups * size; ++i) sums[i] += sums[chunk * groups * size + i];
    for (int64_t h = 0; h < p.heads; ++h) {
        const float* own = sums + (h / kLanes) * size;
        for (int64_t m = 0; m < p.segments; ++m) {
            const Piece& sum = reinterpret_cast<const Piece*>(own)[m * kLanes + h % kLanes];
            d.slopes[h * p.segments + m] = sum.slope;
            d.intercepts[h * p.segments + m] = sum.intercept;
        }
        own += pieces + h % kLanes;
        for (int64_t kind = 0; p.edge_logits && kind < kinds; ++kind)
            d.edge_logits[kind * p.heads + h] = own[kind * kLanes];
        own += kinds * kLanes;
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t c = 0; c < p.channels; ++c)
                d.edge_values[(row * p.heads + h) * p.channels + c] =
                    own[(row * p.channels + c) * kLanes];
    }
}

// Each graph on one thread, so that the result is always the same.
void run_filters(const FilterCall& p) {
    check(p);
    const Kernel& kernel = active_kernel();
    std::vector<int64_t> entries(p.graphs, 0);  // where the eigenvectors of each graph start
    for (int64_t g = 0; g + 1 < p.graphs; ++g)
        entries[g + 1] = entries[g] + nodes_of(p, g) * frequencies_of(p, g);
    run(p.graphs, p.threads, [&](int64_t g) {
        const size_t bytes = kernel.filter_bytes(nodes_of(p, g), frequencies_of(p, g));
        kernel.filter(p, g, entries[g], thread_scratch.reserve(bytes));
        thread_scratch.shrink(kKeepBytes);
    });
}

// Each graph on one thread, and as many sums over shared rows for any number of threads, so that the
// result is always the same.
void run_gates(const GateCall& p) {
    check(p);
    const Kernel& kernel = active_kernel();
    if (!p.d_out) {
        run(p.graphs, p.threads, [&](int64_t graph) { kernel.gate(p, graph); });
        return;
    }
    const bool shared = p.edge && (p.coefficients || p.shared_rows);
    const int64_t chunks = std::min<int64_t>(p.graphs, 16);
    const int64_t size = shared ? (p.coefficients ? p.factors : p.rows) * p.channels : 0;
    Memory memory;
    float* sums = memory.zeros(chunks * size);
    run(chunks, p.threads, [&](int64_t chunk) {
        for (int64_t g = chunk * p.graphs / chunks; g < (chunk + 1) * p.graphs / chunks; ++g)
            kernel.gate_backward(p, g, shared ? sums + chunk * size : p.d_edge);
    });
    for (int64_t i = 0; i < size; ++i) {
        p.d_edge[i] = 0;
        for (int64_t chunk = 0; chunk < chunks; ++chunk) p.d_edge[i] += sums[chunk * size + i];
    }
}

void run_evaluation(const Evaluation& p, bool backward) {
    require(p.functions > 0 && p.heads > 0 && p.functions % p.heads == 0 && p.segments > 0 &&
                p.segments < (int64_t{1} << 26) && p.count >= 0,
            "the pieces' shapes do not fit");
    require((p.segments == 1 || p.knots) && p.slopes && p.intercepts && (!p.count || (p.x && p.y)),
            "a required array is missing");
    require(!backward || (p.d_slopes && p.d_intercepts), "a gradient is null");
    const Kernel& kernel = active_kernel();
    Memory memory;
    const int64_t table = table_floats(p.segments), size = p.segments * kLanes;
    float* at = memory.zeros(table + 2 * size);
    for (int64_t first = 0; first < p.functions; first += kLanes) {
        const Table t = build_table(p, p.functions, first, at);
        if (!backward) {
            kernel.evaluate(p, t, first);
            continue;
        }
        const Sums sums{reinterpret_cast<Piece*>(at + table), nullptr, nullptr};
        std::memset(at + table, 0, 2 * size * sizeof(float));
        kernel.evaluate_backward(p, t, first, sums);
        for (int64_t h = 0; h < std::min<int64_t>(kLanes, p.functions - first); ++h)
            for (int64_t m = 0; m < p.segments; ++m) {
                p.d_slopes[(first + h) * p.segments + m] = sums.pieces[m * kLanes + h].slope;
                p.d_intercepts[(first + h) * p.segments + m] = sums.pieces[m * kLanes + h].intercept;
            }
    }
}

// Scratch for one function at a time; each on one thread, so that the result is always the same.
int64_t run_networks(const Networks& n, bool backward) {
    check(n, backward);
    const Kernel& kernel = active_kernel();
    std::atomic<int64_t> most{1};
    run(n.functions, n.threads, [&](int64_t function) {
        char* scratch = thread_scratch.reserve(kernel.walk_bytes(n));
        if (backward) {
            kernel.linear_pieces_backward(n, function, scratch);
        } else {
            const int64_t segments = kernel.linear_pieces(n, function, scratch);
            for (int64_t seen = most; seen < segments && !most.compare_exchange_weak(seen, segments);) {
            }
        }
        thread_scratch.shrink(kKeepBytes);
    });
    return most;
}

template <class Work>
int guarded(char* message, int64_t length, const Work& work) {
    const char* text = "";
    try {
        work();
        return 0;
    } catch (const Error& error) {
        text = error.message;
    } catch (const std::bad_alloc&) {
        text = "out of memory";
    } catch (const std::exception&) {
        text = "unknown failure";
    }
    std::snprintf(message, static_cast<size_t>(length), "%s", text);
    return 1;
}

}  // namespace
}  // namespace eigenformer

extern "C" {

using namespace eigenformer;

// The structures' names, fields, offsets and sizes, to be compared with what the caller believes.
const char* eigenformer_structures() {
    static const std::string text = describe_structures();
    return text.c_str();
}

const char* eigenformer_instructions() { return active_kernel().name; }

// Computes with another instruction set than the best. 0 if it was compiled and is there.
int eigenformer_use_instructions(const char* name) {
    const Kernel* kernel = find_kernel(name);
    if (!kernel) return 1;
    active = kernel;
    return 0;
}

int eigenformer_shares_threads() { return parallel_region() != nullptr; }

int eigenformer_forward(const AttentionCall* call, char* message, int64_t length) {
    return guarded(message, length, [&] { run_forward(*call); });
}

int eigenformer_backward(const AttentionCall* call, const Gradients* gradients, char* message,
                         int64_t length) {
    return guarded(message, length, [&] { run_backward(*call, *gradients); });
}

// Backward if there is a `d_importance`.
int eigenformer_filter(const FilterCall* call, char* message, int64_t length) {
    return guarded(message, length, [&] { run_filters(*call); });
}

// Backward if there is a `d_out`.
int eigenformer_gate(const GateCall* call, char* message, int64_t length) {
    return guarded(message, length, [&] { run_gates(*call); });
}

int eigenformer_evaluate(const Evaluation* evaluation, int backward, char* message, int64_t length) {
    return guarded(message, length, [&] { run_evaluation(*evaluation, backward != 0); });
}

// Writes the pieces that there is room for, and how many the function with the most of them has.
int eigenformer_linear_pieces(const Networks* networks, int64_t* segments, char* message,
                              int64_t length) {
    return guarded(message, length, [&] { *segments = run_networks(*networks, false); });
}

int eigenformer_linear_pieces_backward(const Networks* networks, char* message, int64_t length) {
    return guarded(message, length, [&] { run_networks(*networks, true); });
}

// max_i ‖u[i]‖² over the rows of all U.
int eigenformer_longest_row(int64_t graphs, const int64_t* first_node,
                            const int64_t* first_frequency, int64_t entries, const float* u,
                            float* longest, char* message, int64_t length) {
    return guarded(message, length, [&] {
        require(graphs > 0 && first_node && first_frequency && longest && entries >= 0 &&
                    (u || !entries),
                "a required array is missing");
        float most = 0;
        int64_t node = 0, frequency = 0, rest = entries;
        require(first_node[0] == 0 && first_frequency[0] == 0, "offsets must start at 0");
        for (int64_t g = 0; g < graphs; ++g) {
            // Compared before they are subtracted, so that nothing overflows.
            require(first_node[g + 1] >= node && first_frequency[g + 1] >= frequency,
                    "first_node and first_frequency must ascend");
            const int64_t n = first_node[g + 1] - node, k = first_frequency[g + 1] - frequency;
            node = first_node[g + 1];
            frequency = first_frequency[g + 1];
            if (!k) continue;  // rows of nothing, however many
            require(n <= rest / k, "the eigenvectors are too short");
            rest -= n * k;
            for (int64_t i = 0; i < n; ++i, u += k) {
                float sum = 0;
                for (int64_t m = 0; m < k; ++m) sum += u[m] * u[m];
                most = std::max(most, sum);
            }
        }
        require(!rest, "the eigenvectors are too long");
        *longest = most;
    });
}

// The factors that dropout applies, [heads, Σ n²], each graph's pairs row by row.
int eigenformer_dropout(uint64_t seed, float dropout, int64_t heads, int64_t graphs,
                        const int64_t* sizes, int64_t pairs, float* keep, char* message,
                        int64_t length) {
    return guarded(message, length, [&] {
        require(dropout >= 0 && dropout < 1, "dropout is outside [0, 1)");
        int64_t expected = 0;
        for (int64_t g = 0; g < graphs; ++g) {
            require(sizes[g] > 0 && sizes[g] < (int64_t{1} << 31), "a size is not positive");
            expected += sizes[g] * sizes[g];
            require(expected <= pairs, "keep is too short");
        }
        require(expected == pairs, "keep is too long");
        const auto threshold = static_cast<uint32_t>(static_cast<double>(dropout) * 2147483648.0);
        for (int64_t h = 0; h < heads; ++h)
            for (int64_t g = 0; g < graphs; ++g)
                for (int64_t i = 0; i < sizes[g]; ++i) {
                    const DropoutKeys keys =
                        row_keys(seed, static_cast<uint32_t>(g), static_cast<uint32_t>(h),
                                 static_cast<uint32_t>(i));
                    for (int64_t j = 0; j < sizes[g]; ++j)
                        *keep++ = random_bits(keys, static_cast<uint32_t>(j)) < threshold
                                      ? 0.0f
                                      : 1.0f / (1.0f - dropout);
                }
    });
}

}  // extern "C"
