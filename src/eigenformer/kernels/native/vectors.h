// Vectors over eight heads: what the compiler and the C library do not have for them.
//
// Part of lanes.cpp, compiled once per instruction set.
#pragma once

#include <float.h>
#include <math.h>
#include <string.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "structures.h"

#ifndef EIGENFORMER_TARGET
#define EIGENFORMER_TARGET baseline
#endif
#define INLINE static inline __attribute__((always_inline))

namespace eigenformer {
namespace EIGENFORMER_TARGET {
namespace {

// may_alias: the same memory is an array of floats elsewhere.
typedef float vf __attribute__((vector_size(4 * kLanes), may_alias));
typedef int32_t vi __attribute__((vector_size(4 * kLanes), may_alias));
typedef uint32_t vu __attribute__((vector_size(4 * kLanes)));
typedef double vd __attribute__((vector_size(8 * kLanes), may_alias));
// Four numbers, which is what compilers do well in float64.
constexpr int kDoubles = 4;
typedef double v4 __attribute__((vector_size(8 * kDoubles), may_alias));
typedef int64_t l4 __attribute__((vector_size(8 * kDoubles)));

const vi kLane = {0, 1, 2, 3, 4, 5, 6, 7};

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
INLINE bool any(l4 mask) {
#ifdef __AVX2__
    return _mm256_movemask_pd((__m256d)mask) != 0;
#else
    return (mask[0] | mask[1] | mask[2] | mask[3]) != 0;
#endif
}
// The 8 × 8 matrix with these rows, transposed: a row and a column index are three bits each, and
// interleaving the upper half of the rows with the lower one rotates the six of them by one.
INLINE void transpose(vf (&m)[kLanes]) {
    for (int bit = 0; bit < 3; ++bit) {
        vf t[kLanes];
        for (int i = 0; i < kLanes / 2; ++i) {
            const vf a = m[i], b = m[i + kLanes / 2];
            t[2 * i] = vf{a[0], b[0], a[1], b[1], a[2], b[2], a[3], b[3]};
            t[2 * i + 1] = vf{a[4], b[4], a[5], b[5], a[6], b[6], a[7], b[7]};
        }
        for (int i = 0; i < kLanes; ++i) m[i] = t[i];
    }
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

}  // namespace
}  // namespace EIGENFORMER_TARGET
}  // namespace eigenformer
