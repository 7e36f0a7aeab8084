// The C interface: checks what it is given, cuts the work into jobs and runs them on threads.
//
// Nothing here knows PyTorch. Threads are those of the OpenMP runtime that is already in the
// process (PyTorch's own), found by name, so that a second runtime is never loaded.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <thread>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <dlfcn.h>
#endif

#include "problem.h"

namespace eigenformer {

namespace baseline { extern const Kernel kernel; }
#ifdef EIGENFORMER_X86_64_V3
namespace x86_64_v3 { extern const Kernel kernel; }
#endif
#ifdef EIGENFORMER_X86_64_V4
namespace x86_64_v4 { extern const Kernel kernel; }
#endif

namespace {

// The widest instruction set of this processor that was compiled.
const Kernel& best_kernel() {
#ifdef EIGENFORMER_X86_64_V3
    __builtin_cpu_init();
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
#ifdef EIGENFORMER_X86_64_V4
    if (v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512cd"))
        return x86_64_v4::kernel;
#endif
    if (v3) return x86_64_v3::kernel;
#endif
    return baseline::kernel;
}

const Kernel* find_kernel(const char* name) {
    const Kernel* kernels[] = {
        &baseline::kernel,
#ifdef EIGENFORMER_X86_64_V3
        &x86_64_v3::kernel,
#endif
#ifdef EIGENFORMER_X86_64_V4
        &x86_64_v4::kernel,
#endif
    };
    for (const Kernel* kernel : kernels)
        if (!std::strcmp(kernel->name, name)) return kernel;
    return nullptr;
}

const Kernel* active = nullptr;
const Kernel& active_kernel() {
    if (!active) active = &best_kernel();
    return *active;
}

// Aligned memory, all zero if asked for.
class Memory {
  public:
    Memory() = default;
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() { std::free(data_); }
    char* reserve(size_t bytes) {
        if (bytes > size_) {
            std::free(data_);
            size_ = 0;
            bytes = (bytes + 63) / 64 * 64;
            data_ = static_cast<char*>(std::aligned_alloc(64, bytes));
            if (!data_) throw std::bad_alloc();
            size_ = bytes;
        }
        return data_;
    }
    float* zeros(size_t floats) {
        float* p = reinterpret_cast<float*>(reserve(floats * sizeof(float) + 64));
        std::memset(p, 0, floats * sizeof(float));
        return p;
    }
    void shrink(size_t bytes) {
        if (size_ > bytes) {
            std::free(data_);
            data_ = nullptr;
            size_ = 0;
        }
    }

  private:
    char* data_ = nullptr;
    size_t size_ = 0;
};

// A thread keeps its scratch between calls, unless it is large.
constexpr size_t kKeepBytes = size_t{16} << 20;
thread_local Memory thread_scratch;

using ParallelRegion = void (*)(void (*)(void*), void*, unsigned, unsigned);
ParallelRegion parallel_region() {
#if defined(__unix__) || defined(__APPLE__)
    static const auto region =
        reinterpret_cast<ParallelRegion>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
    return region;
#else
    return nullptr;
#endif
}

// Runs task(0) … task(count - 1), each on one of at most `threads` threads.
template <class Task>
void run(int64_t count, int64_t threads, const Task& task) {
    struct Shared {
        const Task& task;
        int64_t count;
        std::atomic<int64_t> next{0};
        std::atomic<bool> failed{false};
        void work() {
            try {
                for (int64_t i; (i = next.fetch_add(1)) < count;) task(i);
            } catch (...) {
                failed = true;
            }
        }
    } shared{task, count};
    threads = std::min(threads, count);
    const auto work = [](void* s) { static_cast<Shared*>(s)->work(); };
    if (threads <= 1) {
        shared.work();
    } else if (parallel_region()) {
        parallel_region()(work, &shared, static_cast<unsigned>(threads), 0);
    } else {
        std::vector<std::thread> pool;
        for (int64_t t = 1; t < threads; ++t) pool.emplace_back(work, &shared);
        shared.work();
        for (auto& thread : pool) thread.join();
    }
    if (shared.failed) throw std::bad_alloc();
}

struct Error {
    const char* message;
};
void require(bool condition, const char* message) {
    if (!condition) throw Error{message};
}

// Everything that is used as an address later on.
void check(const Problem& p) {
    require(p.graphs > 0 && p.nodes > 0 && p.heads > 0 && p.channels > 0 && p.segments > 0,
            "a batch needs graphs, nodes, heads, channels and segments");
    require(p.edges >= 0 && p.edge_kinds >= 0 && p.frequencies >= 0 && p.entries >= 0,
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
    if (!p.edge_logits && !p.edge_values) return;
    require(p.first_edge && p.edge_source && p.edge_kind, "the edges' arrays are missing");
    require(p.first_edge[0] == 0 && p.first_edge[p.nodes] == p.edges,
            "first_edge must go from 0 to the edges");
    std::vector<bool> seen(p.shared_kinds ? 0 : p.edge_kinds);
    require(p.shared_kinds || p.edge_kinds == p.edges, "every edge needs a kind of its own");
    for (int64_t g = 0; g < p.graphs; ++g)
        for (int64_t i = p.first_node[g]; i < p.first_node[g + 1]; ++i) {
            require(p.first_edge[i] <= p.first_edge[i + 1] && p.first_edge[i + 1] <= p.edges,
                    "first_edge must ascend");
            int64_t before = -1;
            for (int64_t e = p.first_edge[i]; e < p.first_edge[i + 1]; ++e) {
                require(p.edge_source[e] > before, "edges must be distinct, sorted by source");
                before = p.edge_source[e];
                require(p.edge_kind[e] >= 0 && p.edge_kind[e] < p.edge_kinds,
                        "edge_kind is outside the edges' kinds");
                if (p.shared_kinds) continue;
                require(!seen[p.edge_kind[e]], "two edges are of one kind");
                seen[p.edge_kind[e]] = true;
            }
            require(before < p.first_node[g + 1] - p.first_node[g], "an edge leaves its graph");
        }
}

int64_t group_count(const Problem& p) { return (p.heads + kLanes - 1) / kLanes; }
int64_t nodes_of(const Problem& p, int64_t g) { return p.first_node[g + 1] - p.first_node[g]; }
int64_t frequencies_of(const Problem& p, int64_t g) {
    return p.first_frequency[g + 1] - p.first_frequency[g];
}

// Some functions as a table. `start` says for each of kCells equal intervals, between the first knot and the
// last, how many knots lie in the intervals before it: the search starts there. The interval of a
// number is a monotone function of it, so the start is never too far, whatever the rounding.
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
    const Problem& p;
    const Kernel& kernel = active_kernel();
    bool backward;
    std::vector<Job> jobs;
    std::vector<int64_t> chunks;  // chunk c: jobs chunks[c] … chunks[c + 1] - 1
    std::vector<int64_t> split;   // the first jobs of graphs in several parts
    std::vector<Table> tables;    // one per group
    Memory table_memory, state_memory, edge_memory;
    float* edge_values = nullptr;  // of shared kinds, [groups, kinds, channels, lanes]

    Plan(const Problem& problem, bool is_backward) : p(problem), backward(is_backward) {
        check(p);
        const int64_t groups = group_count(p);
        float* memory = table_memory.zeros(groups * table_floats(p.segments));
        for (int64_t group = 0; group < groups; ++group)
            tables.push_back(build_table(p, p.heads, group * kLanes, memory + group * table_floats(p.segments)));
        if (p.edge_values && p.shared_kinds) transpose_edges();
        make_jobs();
    }

    void transpose_edges() {
        edge_values = edge_memory.zeros(group_count(p) * p.edge_kinds * p.channels * kLanes);
        for (int64_t kind = 0; kind < p.edge_kinds; ++kind)
            for (int64_t h = 0; h < p.heads; ++h)
                for (int64_t c = 0; c < p.channels; ++c)
                    edge_values[(((h / kLanes) * p.edge_kinds + kind) * p.channels + c) * kLanes +
                                h % kLanes] =
                        p.edge_values[(kind * p.heads + h) * p.channels + c];
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

void run_forward(const Problem& p) {
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

void run_backward(const Problem& p, const Gradients& d) {
    require(d.d_out && d.importance && d.slopes && d.intercepts && d.values, "a gradient is null");
    require(!p.psi || (d.queries && d.keys), "a gradient of the features is null");
    require((!p.edge_logits || d.edge_logits) && (!p.edge_values || d.edge_values),
            "a gradient of the edges is null");
    const Plan plan(p, true);
    const int64_t groups = group_count(p), chunks = plan.chunk_count();
    // Per chunk and group: slopes, intercepts and, where kinds are shared, those of the edges.
    const int64_t pieces = 2 * p.segments * kLanes;
    const int64_t kinds = p.shared_kinds ? p.edge_kinds * kLanes : 0;
    const int64_t size = pieces + kinds * (1 + p.channels);
    Memory memory;
    float* sums = memory.zeros(chunks * groups * size);
    run(chunks, p.threads, [&](int64_t chunk) {
        char* scratch = plan.scratch_for(chunk);
        for (int64_t j = plan.chunks[chunk]; j < plan.chunks[chunk + 1]; ++j) {
            const Job& job = plan.jobs[j];
            float* own = sums + (chunk * groups + job.head / kLanes) * size;
            const Sums mine{reinterpret_cast<Piece*>(own), own + pieces, own + pieces + kinds};
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
        if (!p.shared_kinds) continue;
        own += pieces + h % kLanes;
        for (int64_t kind = 0; kind < p.edge_kinds; ++kind) {
            if (p.edge_logits) d.edge_logits[kind * p.heads + h] = own[kind * kLanes];
            if (!p.edge_values) continue;
            for (int64_t c = 0; c < p.channels; ++c)
                d.edge_values[(kind * p.heads + h) * p.channels + c] =
                    own[kinds + (kind * p.channels + c) * kLanes];
        }
    }
}

void run_pieces(const Pieces& p, bool backward) {
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
            kernel.pieces(p, t, first);
            continue;
        }
        const Sums sums{reinterpret_cast<Piece*>(at + table), nullptr, nullptr};
        std::memset(at + table, 0, 2 * size * sizeof(float));
        kernel.pieces_backward(p, t, first, sums);
        for (int64_t h = 0; h < std::min<int64_t>(kLanes, p.functions - first); ++h)
            for (int64_t m = 0; m < p.segments; ++m) {
                p.d_slopes[(first + h) * p.segments + m] = sums.pieces[m * kLanes + h].slope;
                p.d_intercepts[(first + h) * p.segments + m] = sums.pieces[m * kLanes + h].intercept;
            }
    }
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

// The size of the structures, to be compared with what the caller believes.
int64_t eigenformer_layout() { return (sizeof(Problem) * 1000 + sizeof(Gradients)) * 1000 + sizeof(Pieces); }

const char* eigenformer_instructions() { return active_kernel().name; }

// For tests: computes with another instruction set than the best. 0 if it is there.
int eigenformer_use_instructions(const char* name) {
    const Kernel* kernel = find_kernel(name);
    if (!kernel) return 1;
    active = kernel;
    return 0;
}

int eigenformer_shares_threads() { return parallel_region() != nullptr; }

int eigenformer_forward(const Problem* problem, char* message, int64_t length) {
    return guarded(message, length, [&] { run_forward(*problem); });
}

int eigenformer_backward(const Problem* problem, const Gradients* gradients, char* message,
                         int64_t length) {
    return guarded(message, length, [&] { run_backward(*problem, *gradients); });
}

int eigenformer_pieces(const Pieces* pieces, int backward, char* message, int64_t length) {
    return guarded(message, length, [&] { run_pieces(*pieces, backward != 0); });
}

// max_i ‖u[i]‖² over the rows of all U.
int eigenformer_longest_row(int64_t graphs, const int64_t* first_node,
                            const int64_t* first_frequency, int64_t entries, const float* u,
                            float* longest, char* message, int64_t length) {
    return guarded(message, length, [&] {
        float most = 0;
        const float* end = u + entries;
        for (int64_t g = 0; g < graphs; ++g) {
            const int64_t n = first_node[g + 1] - first_node[g];
            const int64_t k = first_frequency[g + 1] - first_frequency[g];
            require(n >= 0 && k >= 0 && (k == 0 || n <= (end - u) / k),
                    "the eigenvectors are too short");
            for (int64_t i = 0; i < n; ++i, u += k) {
                float sum = 0;
                for (int64_t m = 0; m < k; ++m) sum += u[m] * u[m];
                most = std::max(most, sum);
            }
        }
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
                        *keep++ = draw(keys, static_cast<uint32_t>(j)) < threshold
                                      ? 0.0f
                                      : 1.0f / (1.0f - dropout);
                }
    });
}

}  // extern "C"
