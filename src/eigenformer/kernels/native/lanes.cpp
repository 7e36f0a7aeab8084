// Spectrum-aware attention of one graph, eight heads at a time.
//
//   s_ij = Σ_k u_ik u_jk φ₂(λ_k)                    symmetric: computed for one half
//   x_ij = φ₁(s_ij) + ψ(q_i·k_j / √C) + b_ij
//   α_ij = exp(x_ij - m_i) / Σ_j exp(x_ij - m_i)     in tiles, with a running maximum
//   o_i  = Σ_j keep_ij α_ij (v_j + w_ij)
//
// Compiled once per instruction set, see setup.py. For that reason nothing here may be a function
// that the linker shares between them: no standard library beyond C's.

#include <float.h>
#include <math.h>
#include <string.h>

#include "problem.h"

#ifndef EIGENFORMER_TARGET
#define EIGENFORMER_TARGET baseline
#endif
#define EIGENFORMER_STRING2(x) #x
#define EIGENFORMER_STRING(x) EIGENFORMER_STRING2(x)
#define INLINE static inline __attribute__((always_inline))

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace eigenformer {
namespace EIGENFORMER_TARGET {
namespace {

// may_alias: the same memory is an array of floats elsewhere.
typedef float vf __attribute__((vector_size(4 * kLanes), may_alias));
typedef int32_t vi __attribute__((vector_size(4 * kLanes), may_alias));
typedef uint32_t vu __attribute__((vector_size(4 * kLanes)));
typedef double vd __attribute__((vector_size(8 * kLanes), may_alias));

const vi kLane = {0, 1, 2, 3, 4, 5, 6, 7};
constexpr int kRows = 2, kColumns = 6;  // of a register block
constexpr int kWidth = kBlock + kColumns;
constexpr float kPsiEpsilon = 1e-6f;

INLINE vf splat(float x) { return vf{} + x; }
INLINE vf load(const float* p) {
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE vf load(const float* p, int64_t lanes) {
    if (lanes == kLanes) return load(p);
    vf v = {};
    for (int64_t h = 0; h < lanes; ++h) v[h] = p[h];
    return v;
}
INLINE void store(float* p, vf v, int64_t lanes) {
    if (lanes == kLanes) {
        memcpy(p, &v, sizeof v);
        return;
    }
    for (int64_t h = 0; h < lanes; ++h) p[h] = v[h];
}
INLINE vf maximum(vf a, vf b) { return a > b ? a : b; }
INLINE vf gather(const float* table, vi index) {
    vf v;
    for (int h = 0; h < kLanes; ++h) v[h] = table[index[h]];
    return v;
}
// Both numbers of the pair at table[index], lane by lane.
INLINE void gather_pairs(const void* table, vi index, vf& first, vf& second) {
#ifdef __AVX2__
    const __m64* t = (const __m64*)table;
    const __m128 none = _mm_setzero_ps();
    const __m128 a = _mm_loadh_pi(_mm_loadl_pi(none, t + index[0]), t + index[1]);
    const __m128 b = _mm_loadh_pi(_mm_loadl_pi(none, t + index[2]), t + index[3]);
    const __m128 c = _mm_loadh_pi(_mm_loadl_pi(none, t + index[4]), t + index[5]);
    const __m128 d = _mm_loadh_pi(_mm_loadl_pi(none, t + index[6]), t + index[7]);
    const __m256 ac = _mm256_set_m128(c, a), bd = _mm256_set_m128(d, b);
    first = _mm256_shuffle_ps(ac, bd, 0x88);
    second = _mm256_shuffle_ps(ac, bd, 0xdd);
#else
    const Piece* t = (const Piece*)table;
    for (int h = 0; h < kLanes; ++h) {
        first[h] = t[index[h]].slope;
        second[h] = t[index[h]].intercept;
    }
#endif
}
// table[index] += (first, second), lane by lane; no two lanes share a position.
INLINE void scatter_pairs(Piece* table, vi index, vf first, vf second) {
#ifdef __AVX2__
    __m64* t = (__m64*)table;
    const __m256 low = _mm256_unpacklo_ps(first, second), high = _mm256_unpackhi_ps(first, second);
    const __m128 pairs[4] = {_mm256_castps256_ps128(low), _mm256_castps256_ps128(high),
                             _mm256_extractf128_ps(low, 1), _mm256_extractf128_ps(high, 1)};
    for (int q = 0; q < 4; ++q) {
        __m64 *a = t + index[2 * q], *b = t + index[2 * q + 1];
        const __m128 sum = _mm_loadh_pi(_mm_loadl_pi(_mm_setzero_ps(), a), b) + pairs[q];
        _mm_storel_pi(a, sum);
        _mm_storeh_pi(b, sum);
    }
#else
    for (int h = 0; h < kLanes; ++h) {
        table[index[h]].slope += first[h];
        table[index[h]].intercept += second[h];
    }
#endif
}
INLINE bool any(vi mask) {
#ifdef __AVX2__
    return _mm256_movemask_ps((__m256)mask) != 0;
#else
    int32_t set = 0;
    for (int h = 0; h < kLanes; ++h) set |= mask[h];
    return set != 0;
#endif
}
INLINE vf square_root(vf x) {
    vf y;
    for (int h = 0; h < kLanes; ++h) y[h] = sqrtf(x[h]);
    return y;
}

// exp(x) for x ≤ 0, within 2 units in the last place; a NaN stays one.
INLINE vf exponential(vf x) {
    const vf lowest = splat(-87.0f), magic = splat(12582912.0f);  // 1.5 · 2²³ rounds to integer
    x = x < lowest ? lowest : x;
    vf shifted = x * 1.44269504088896341f + magic;
    vf n = shifted - magic;
    vf r = x - n * 0.693359375f + n * 2.12194440e-4f;
    vf y = splat(1.9875691500e-4f);
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.0f;
    vi power = ((vi)shifted - (vi)magic + 127) << 23;
    return y * (vf)power;
}

// out[c] += Σ_t weight[t] · rows[t][c]
template <int B>
INLINE void accumulate_block(const vf* weight, int64_t stride, const vf* rows, int64_t channels,
                             int64_t count, vf* out) {
    vf sum[B];
    for (int c = 0; c < B; ++c) sum[c] = out[c];
    for (int64_t t = 0; t < count; ++t, weight += stride, rows += channels)
        for (int c = 0; c < B; ++c) sum[c] += *weight * rows[c];
    for (int c = 0; c < B; ++c) out[c] = sum[c];
}
// out[t] = Σ_c a[c] · rows[t][c]
template <int B>
INLINE void dot_block(const vf* a, const vf* rows, int64_t channels, int64_t count, vf* out,
                      bool add) {
    vf factor[B];
    for (int c = 0; c < B; ++c) factor[c] = a[c];
    for (int64_t t = 0; t < count; ++t, rows += channels) {
        vf sum = add ? out[t] : vf{};
        for (int c = 0; c < B; ++c) sum += factor[c] * rows[c];
        out[t] = sum;
    }
}
#define EIGENFORMER_BLOCKS(FUNCTION, ...)                                   \
    switch (width) {                                                        \
        case 1: FUNCTION<1>(__VA_ARGS__); break;                            \
        case 2: FUNCTION<2>(__VA_ARGS__); break;                            \
        case 3: FUNCTION<3>(__VA_ARGS__); break;                            \
        case 4: FUNCTION<4>(__VA_ARGS__); break;                            \
        case 5: FUNCTION<5>(__VA_ARGS__); break;                            \
        case 6: FUNCTION<6>(__VA_ARGS__); break;                            \
        case 7: FUNCTION<7>(__VA_ARGS__); break;                            \
        case 8: FUNCTION<8>(__VA_ARGS__); break;                            \
        case 9: FUNCTION<9>(__VA_ARGS__); break;                            \
        default: FUNCTION<10>(__VA_ARGS__); break;                          \
    }
constexpr int64_t kWidest = 10;

void accumulate(const vf* weight, int64_t stride, const vf* rows, int64_t channels, int64_t count,
                vf* out) {
    for (int64_t c = 0; c < channels; c += kWidest) {
        int64_t width = channels - c < kWidest ? channels - c : kWidest;
        EIGENFORMER_BLOCKS(accumulate_block, weight, stride, rows + c, channels, count, out + c)
    }
}
void dot(const vf* a, const vf* rows, int64_t channels, int64_t count, vf* out) {
    for (int64_t c = 0; c < channels; c += kWidest) {
        int64_t width = channels - c < kWidest ? channels - c : kWidest;
        EIGENFORMER_BLOCKS(dot_block, a + c, rows + c, channels, count, out, c > 0)
    }
}

// out[t] = scale Σ_c a[c] · rows[t][c] for queries and keys. ψ is so steep at 0 that the last digit
// of a product in float32 would move its gradient by 1e-3: so in float64.
void feature_products(const vd* a, const vd* rows, int64_t channels, int64_t count, double scale,
                      vf* out) {
    for (int64_t t = 0; t < count; ++t, rows += channels) {
        vd sum = {};
        for (int64_t c = 0; c < channels; ++c) sum += a[c] * rows[c];
        out[t] = __builtin_convertvector(sum * scale, vf);
    }
}

// Hands out pieces of one allocation; starting from null it only measures.
struct Carver {
    char* at;
    template <class T>
    T* take(int64_t count) {
        T* piece = (T*)at;
        at += (count * (int64_t)sizeof(T) + 63) / 64 * 64;
        return piece;
    }
};

struct Shape {
    int64_t n, k, padded, channels;  // padded: k rounded up to a register block
    Shape(const Problem& p, int64_t nodes, int64_t frequencies)
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
    BackwardState(Carver& c, const Problem& p, const Shape& s)
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
    Scratch(Carver& c, const Problem& p, const Shape& s, bool backward) {
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
    const Problem& p;
    const Job& job;
    const float* edge_values;  // shared kinds, lanes last; or null
    int64_t lanes, node, n, k;
    const float* u;
    const float* importance;
    double scale;  // 1 / √C
    float keep_scale;
    uint32_t threshold;
    View(const Problem& problem, const Job& j, const float* shared)
        : p(problem), job(j), edge_values(shared) {
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
        if (lanes < kLanes) memset(to, 0, p.channels * sizeof(vf));
        for (int64_t h = 0; h < lanes; ++h)
            for (int64_t c = 0; c < p.channels; ++c)
                t[c * kLanes + h] = f[h * p.channels + c];
    }
    void heads_first_row(const vf* from, int64_t row, float* to) const {
        const float* f = (const float*)from;
        float* t = to + (row * p.heads + job.head) * p.channels;
        for (int64_t h = 0; h < lanes; ++h)
            for (int64_t c = 0; c < p.channels; ++c)
                t[h * p.channels + c] = f[c * kLanes + h];
    }
    void heads_first(const vf* from, float* to) const {
        for (int64_t i = 0; i < n; ++i) heads_first_row(from + i * p.channels, node + i, to);
    }
    // w_ij, [channels, lanes]
    const vf* edge_value(int64_t e, vf* buffer) const {
        if (edge_values)
            return (const vf*)(edge_values + ((job.head / kLanes) * p.edge_kinds + p.edge_kind[e]) *
                                                 p.channels * kLanes);
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

// Where function `first` + h puts its values: [layer, count, heads].
struct PiecesOut {
    float* at[kLanes];
    int64_t lanes;
    PiecesOut(const Pieces& p, int64_t first) {
        lanes = p.functions - first < kLanes ? p.functions - first : kLanes;
        for (int64_t h = 0; h < lanes; ++h)
            at[h] = p.y + (first + h) / p.heads * p.count * p.heads + (first + h) % p.heads;
    }
};

void pieces(const Pieces& p, const Table& table, int64_t first) {
    const PiecesOut out(p, first);
    for (int64_t i = 0; i < p.count; ++i) {
        const vf x = splat(p.x[i]);
        vf slope, intercept;
        gather_pairs(table.pieces, find_segment(table, x), slope, intercept);
        const vf y = slope * x + intercept;
        for (int64_t h = 0; h < out.lanes; ++h) out.at[h][i * p.heads] = y[h];
    }
}

void pieces_backward(const Pieces& p, const Table& table, int64_t first, const Sums& sums) {
    const PiecesOut out(p, first);
    for (int64_t i = 0; i < p.count; ++i) {
        vf d = {};
        for (int64_t h = 0; h < out.lanes; ++h) d[h] = out.at[h][i * p.heads];
        scatter_pairs(sums.pieces, find_segment(table, splat(p.x[i])), d * p.x[i], d);
    }
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
    // `draw` of problem.h, lane by lane.
    INLINE vi dropped(vu a, vu b, uint32_t column, uint32_t threshold) {
        vu x = a ^ (column * kColumnStep);
        x = (x ^ (x >> 16)) * 0x7feb352du;
        x ^= b;
        x = (x ^ (x >> 15)) * kLastMix;
        return (vi)((x ^ (x >> 16)) >> 1) < (vi)(vu{} + threshold);
    }
};

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

// Rows of a tile: adds their part of softmax and output to the state.
void forward_rows(const View& g, const Scratch& s, const ForwardState& state, Span rows,
                  Span columns, int64_t row_stride, int64_t column_stride) {
    const int64_t channels = g.p.channels;
    const bool has_edges = g.p.edge_logits || g.p.edge_values;
    vf* x = s.row;
    for (int64_t r = 0; r < rows.count; ++r) {
        const int64_t i = rows.first + r;
        int64_t first = 0, last = 0;
        if (has_edges) {
            first = g.first_edge(i, columns.first);
            last = g.first_edge(i, columns.first + columns.count);
        }
        row_logits(g, s, i, columns, s.logits + r * row_stride, column_stride, first, last, x);
        const vf before = state.maximum[i];
        vf top = before;
        for (int64_t j = 0; j < columns.count; ++j) top = maximum(top, x[j]);
        vf sum = {};
        for (int64_t j = 0; j < columns.count; ++j) {
            x[j] = exponential(x[j] - top);
            sum += x[j];
        }
        vf* out = state.out + i * channels;
        const vf shrink = exponential(before - top);  // what was summed under a lower maximum
        state.sum[i] = state.sum[i] * shrink + sum;
        state.maximum[i] = top;
        for (int64_t c = 0; c < channels; ++c) out[c] *= shrink;
        if (g.p.dropout > 0) {
            const DropoutRow keys(g, i);
            for (int64_t j = 0; j < columns.count; ++j) {
                vi drop = DropoutRow::dropped(keys.a, keys.b, columns.first + j, g.threshold);
                x[j] = drop ? vf{} : x[j] * g.keep_scale;
            }
        }
        accumulate(x, 1, s.values + columns.first * channels, channels, columns.count, out);
        if (g.p.edge_values)
            for (int64_t e = first; e < last; ++e)
                accumulate(x + (g.p.edge_source[e] - columns.first), 1, g.edge_value(e, s.edge),
                           channels, 1, out);
    }
}

void prepare(const View& g, const Scratch& s, const Shape& shape) {
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

void finish_forward(const View& g, const ForwardState& state) {
    const Problem& p = g.p;
    for (int64_t i = 0; i < g.n; ++i) {
        const vf inverse = 1.0f / state.sum[i];
        vf* out = state.out + i * p.channels;
        for (int64_t c = 0; c < p.channels; ++c) out[c] *= inverse;
        store(p.maximum + (g.node + i) * p.heads + g.job.head, state.maximum[i], g.lanes);
        store(p.inverse + (g.node + i) * p.heads + g.job.head, inverse, g.lanes);
    }
    g.heads_first(state.out, p.out);
}

void forward(const Problem& p, const Table& table, const float* edge_values, const Job& job,
             char* memory) {
    const View g(p, job, edge_values);
    const Shape shape(p, g.n, g.k);
    Carver carver{memory};
    const Scratch s(carver, p, shape, false);
    if (job.state) carver.at = (char*)job.state;
    const ForwardState state(carver, shape);
    for (int64_t i = 0; i < g.n; ++i) {
        state.maximum[i] = splat(-FLT_MAX);  // not -∞: two parts may both not know a row
        state.sum[i] = vf{};
    }
    memset(state.out, 0, g.n * p.channels * sizeof(vf));
    prepare(g, s, shape);
    Tiles tile(g.n, job.first_tile);
    for (int64_t t = job.first_tile; t < job.last_tile; ++t, tile.next()) {
        const Span rows = block_span(g.n, tile.row), columns = block_span(g.n, tile.column);
        const bool diagonal = tile.row == tile.column;
        if (diagonal || t == job.first_tile)
            copy_rows(g, rows, shape.padded, rows.count + kRows, s.left);
        copy_rows(g, columns, shape.padded, columns.count + kColumns, s.right);
        compute_scores(s, rows, columns, diagonal, shape.padded);
        apply_phi1<false>(s, table, rows, columns, diagonal);
        forward_rows(g, s, state, rows, columns, kWidth, 1);
        if (!diagonal) forward_rows(g, s, state, columns, rows, 1, kWidth);
    }
    if (!job.state) finish_forward(g, state);
}

// Adds the parts of one graph: each has its own maxima.
void merge_forward(const Problem& p, const Job* jobs) {
    const View g(p, jobs[0], nullptr);
    const Shape shape(p, g.n, g.k);
    Carver carver{(char*)jobs[0].state};
    const ForwardState whole(carver, shape);
    for (int64_t part = 1; part < jobs[0].parts; ++part) {
        carver.at = (char*)jobs[part].state;
        const ForwardState state(carver, shape);
        for (int64_t i = 0; i < g.n; ++i) {
            const vf top = maximum(whole.maximum[i], state.maximum[i]);
            const vf mine = exponential(whole.maximum[i] - top);
            const vf theirs = exponential(state.maximum[i] - top);
            whole.maximum[i] = top;
            whole.sum[i] = whole.sum[i] * mine + state.sum[i] * theirs;
            for (int64_t c = i * p.channels; c < (i + 1) * p.channels; ++c)
                whole.out[c] = whole.out[c] * mine + state.out[c] * theirs;
        }
    }
    finish_forward(g, whole);
}

// Rows of a tile, backward. With D_i = Σ_j keep_ij α_ij dα_ij = d_out_i · out_i:
//   dα_ij = d_out_i · (v_j + w_ij),   dx_ij = α_ij (keep_ij dα_ij - D_i)
// and dx_ij goes to `gradient`, keep_ij α_ij to `kept`, both [rows, kWidth].
void backward_rows(const View& g, const Scratch& s, const BackwardState& state, const Sums& sums,
                   const Gradients& d, Span rows, Span columns, int64_t row_stride,
                   int64_t column_stride, vf* gradient) {
    const Problem& p = g.p;
    const int64_t channels = p.channels;
    const bool has_edges = p.edge_logits || p.edge_values;
    for (int64_t r = 0; r < rows.count; ++r) {
        const int64_t i = rows.first + r;
        const vf* d_out = s.d_out + i * channels;
        vf *x = s.row, *d_alpha = s.other, *kept = s.kept + r * kWidth, *dx = gradient + r * kWidth;
        int64_t first = 0, last = 0;
        if (has_edges) {
            first = g.first_edge(i, columns.first);
            last = g.first_edge(i, columns.first + columns.count);
        }
        row_logits(g, s, i, columns, s.logits + r * row_stride, column_stride, first, last, x);
        dot(d_out, s.values + columns.first * channels, channels, columns.count, d_alpha);
        if (p.edge_values)
            for (int64_t e = first; e < last; ++e) {
                vf extra;
                dot(d_out, g.edge_value(e, s.edge), channels, 1, &extra);
                d_alpha[p.edge_source[e] - columns.first] += extra;
            }
        const vf top = s.maximum[i], inverse = s.inverse[i], mean = s.weighted[i];
        const DropoutRow keys(g, i);
        for (int64_t j = 0; j < columns.count; ++j) {
            const vf alpha = exponential(x[j] - top) * inverse;
            vf weight = alpha;
            if (p.dropout > 0) {
                vi drop = DropoutRow::dropped(keys.a, keys.b, columns.first + j, g.threshold);
                weight = drop ? vf{} : alpha * g.keep_scale;
            }
            kept[j] = weight;
            dx[j] = weight * d_alpha[j] - alpha * mean;
        }
        for (int64_t e = first; e < last; ++e) {
            const int64_t j = p.edge_source[e] - columns.first, kind = p.edge_kind[e];
            if (p.edge_logits) {
                if (p.shared_kinds) {
                    vf* sum = (vf*)sums.edge_logits + kind;
                    *sum += dx[j];
                } else {
                    store(d.edge_logits + kind * p.heads + g.job.head, dx[j], g.lanes);
                }
            }
            if (p.edge_values) {
                vf* sum = p.shared_kinds ? (vf*)sums.edge_values + kind * channels : s.edge;
                for (int64_t c = 0; c < channels; ++c)
                    sum[c] = (p.shared_kinds ? sum[c] : vf{}) + kept[j] * d_out[c];
                if (!p.shared_kinds) g.heads_first_row(s.edge, kind, d.edge_values);
            }
        }
        if (p.psi) {
            // d(q·k/√C) = dx ψ'; the product is computed again, which is cheaper than to keep it.
            const vf* keys_of_columns = s.keys + columns.first * channels;
            vf* dq = s.d_product + r * kWidth;
            feature_products(s.wide_queries + i * channels, s.wide_keys + columns.first * channels,
                             channels, columns.count, g.scale, dq);
            for (int64_t j = 0; j < columns.count; ++j)
                dq[j] = dx[j] * psi_slope(dq[j], p.psi) * (float)g.scale;
            accumulate(dq, 1, keys_of_columns, channels, columns.count,
                       state.queries + i * channels);
        }
    }
    for (int64_t j = 0; j < columns.count; ++j) {
        const int64_t column = (columns.first + j) * channels;
        accumulate(s.kept + j, kWidth, s.d_out + rows.first * channels, channels, rows.count,
                   state.values + column);
        if (p.psi)
            accumulate(s.d_product + j, kWidth, s.queries + rows.first * channels, channels,
                       rows.count, state.keys + column);
    }
}

// φ₁ backward, for both halves at once: dφ₁/ds = slope, and the piece that s lies in gets
// d_slope += dx·s and d_intercept += dx. Turns the scores into their gradients.
void backward_phi1(const Scratch& s, Piece* sums, Span rows, Span columns, bool diagonal) {
    for (int64_t i = 0; i < rows.count; ++i) {
        vf* score = s.scores + i * kWidth;
        int64_t j = 0;
        if (diagonal)
            for (; j < i; ++j) score[j] = vf{};
        for (; j < columns.count; ++j) {
            vf dx = s.gradient[i * kWidth + j];
            if (!diagonal) dx += s.mirrored[j * kWidth + i];
            else if (j > i) dx += s.gradient[j * kWidth + i];
            scatter_pairs(sums, s.segment[i * kWidth + j], dx * score[j], dx);
            score[j] = dx * s.slope[i * kWidth + j];
        }
    }
    // A register block may reach one row further.
    for (int64_t j = 0; j < columns.count; ++j) s.scores[rows.count * kWidth + j] = vf{};
}

// dφ₂(λ_k) = Σ_i u_ik Σ_j ds_ij u_jk
void backward_importance(const Scratch& s, const BackwardState& state, Span rows, Span columns,
                         bool diagonal, int64_t padded) {
    for (int64_t i = 0; i < rows.count; i += kRows)
        for (int64_t k = 0; k < padded; k += kColumns) {
            vf sum[kRows][kColumns] = {};
            for (int64_t j = diagonal ? i : 0; j < columns.count; ++j)
                for (int c = 0; c < kColumns; ++c)
                    for (int r = 0; r < kRows; ++r)
                        sum[r][c] += s.scores[(i + r) * kWidth + j] * s.right[j * padded + k + c];
            for (int r = 0; r < kRows; ++r)
                for (int c = 0; c < kColumns; ++c)
                    state.importance[k + c] += sum[r][c] * s.left[(i + r) * padded + k + c];
        }
}

void finish_backward(const View& g, const BackwardState& state, const Gradients& d) {
    const Problem& p = g.p;
    float* importance = d.importance + (g.importance - p.importance);
    for (int64_t k = 0; k < g.k; ++k) store(importance + k * p.heads, state.importance[k], g.lanes);
    g.heads_first(state.values, d.values);
    if (p.psi) {
        g.heads_first(state.queries, d.queries);
        g.heads_first(state.keys, d.keys);
    }
}

void backward(const Problem& p, const Gradients& d, const Table& table, const float* edge_values,
              const Job& job, const Sums& sums, char* memory) {
    const View g(p, job, edge_values);
    const Shape shape(p, g.n, g.k);
    Carver carver{memory};
    const Scratch s(carver, p, shape, true);
    if (job.state) carver.at = (char*)job.state;
    char* begin = carver.at;
    const BackwardState state(carver, p, shape);
    memset(begin, 0, carver.at - begin);
    prepare(g, s, shape);
    g.lanes_last(d.d_out, s.d_out);
    for (int64_t i = 0; i < g.n; ++i) {
        const int64_t at = (g.node + i) * p.heads + job.head;
        s.maximum[i] = load(p.maximum + at, g.lanes);
        s.inverse[i] = load(p.inverse + at, g.lanes);
        g.lanes_last_row(p.out, g.node + i, s.edge);
        dot(s.d_out + i * p.channels, s.edge, p.channels, 1, s.weighted + i);
    }
    // A large graph sums tile by tile first: millions of pairs, one by one, would lose digits.
    const bool split = block_count(g.n) > 1;
    const int64_t pieces = p.segments * kLanes;
    Tiles tile(g.n, job.first_tile);
    for (int64_t t = job.first_tile; t < job.last_tile; ++t, tile.next()) {
        const Span rows = block_span(g.n, tile.row), columns = block_span(g.n, tile.column);
        const bool diagonal = tile.row == tile.column;
        if (diagonal || t == job.first_tile)
            copy_rows(g, rows, shape.padded, rows.count + kRows, s.left);
        copy_rows(g, columns, shape.padded, columns.count + kColumns, s.right);
        compute_scores(s, rows, columns, diagonal, shape.padded);
        apply_phi1<true>(s, table, rows, columns, diagonal);
        backward_rows(g, s, state, sums, d, rows, columns, kWidth, 1, s.gradient);
        if (!diagonal)
            backward_rows(g, s, state, sums, d, columns, rows, 1, kWidth, s.mirrored);
        if (split) memset(s.pieces, 0, pieces * sizeof(Piece));
        backward_phi1(s, split ? s.pieces : sums.pieces, rows, columns, diagonal);
        for (int64_t m = 0; split && m < pieces; ++m) {
            sums.pieces[m].slope += s.pieces[m].slope;
            sums.pieces[m].intercept += s.pieces[m].intercept;
        }
        backward_importance(s, state, rows, columns, diagonal, shape.padded);
    }
    if (!job.state) finish_backward(g, state, d);
}

void merge_backward(const Problem& p, const Gradients& d, const Job* jobs) {
    const View g(p, jobs[0], nullptr);
    const Shape shape(p, g.n, g.k);
    Carver carver{(char*)jobs[0].state};
    const BackwardState whole(carver, p, shape);
    const int64_t count = (carver.at - (char*)jobs[0].state) / sizeof(float);
    for (int64_t part = 1; part < jobs[0].parts; ++part)
        for (int64_t c = 0; c < count; ++c) jobs[0].state[c] += jobs[part].state[c];
    finish_backward(g, whole, d);
}

size_t state_bytes(const Problem& p, int64_t nodes, int64_t frequencies, bool is_backward) {
    const Shape shape(p, nodes, frequencies);
    Carver carver{nullptr};
    if (is_backward) BackwardState(carver, p, shape);
    else ForwardState(carver, shape);
    return (size_t)carver.at;
}

size_t scratch_bytes(const Problem& p, int64_t nodes, int64_t frequencies, bool is_backward) {
    const Shape shape(p, nodes, frequencies);
    Carver carver{nullptr};
    Scratch(carver, p, shape, is_backward);
    return (size_t)carver.at + state_bytes(p, nodes, frequencies, is_backward);
}

}  // namespace

extern const Kernel kernel;
const Kernel kernel = {EIGENFORMER_STRING(EIGENFORMER_TARGET), scratch_bytes, state_bytes, forward,
                       backward, merge_forward, merge_backward, pieces, pieces_backward};

}  // namespace EIGENFORMER_TARGET

}  // namespace eigenformer
