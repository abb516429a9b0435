/* lanes_avx2.h - the lane operations of lanes_kernels.h for four lanes of binary64, eight of
 * binary32. */
#ifndef SB_SIMD_LANES_AVX2_H
#define SB_SIMD_LANES_AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define LANES_TARGET __attribute__((target("avx2,fma,f16c")))
#define LANES_INLINE LANES_TARGET static inline __attribute__((always_inline))

enum { W = 4, HEADS_AT_ONCE = 4, DOTS_AT_ONCE = 1 };

typedef __m256d vd; /* W */
typedef __m256 vf;  /* 2 W */

LANES_INLINE vd d_set(double x)
{
    return _mm256_set1_pd(x);
}

LANES_INLINE vd d_load(const double *at)
{
    return _mm256_loadu_pd(at);
}

LANES_INLINE void d_store(double *at, vd x)
{
    _mm256_storeu_pd(at, x);
}

LANES_INLINE vd d_widen(const float *at)
{
    return _mm256_cvtps_pd(_mm_loadu_ps(at));
}

LANES_INLINE vd d_add(vd a, vd b)
{
    return _mm256_add_pd(a, b);
}

LANES_INLINE vd d_mul(vd a, vd b)
{
    return _mm256_mul_pd(a, b);
}

/* a b + c */
LANES_INLINE vd d_mul_add(vd a, vd b, vd c)
{
    return _mm256_fmadd_pd(a, b, c);
}

LANES_INLINE vd d_abs(vd a)
{
    return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a);
}

LANES_INLINE double d_total(vd a)
{
    const __m128d pair = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(pair, _mm_unpackhi_pd(pair, pair)));
}

/* Writes the total of the lanes of each of eight vectors: adds pairs of lanes, then halves. */
LANES_INLINE void d_totals(const vd *a, double *out)
{
    for (int i = 0; i < 8; i += 4) {
        const vd first = _mm256_hadd_pd(a[i], a[i + 1]),
                 second = _mm256_hadd_pd(a[i + 2], a[i + 3]);
        d_store(out + i, _mm256_add_pd(_mm256_permute2f128_pd(first, second, 0x20),
                                       _mm256_permute2f128_pd(first, second, 0x31)));
    }
}

LANES_INLINE vf f_set(float x)
{
    return _mm256_set1_ps(x);
}

LANES_INLINE vf f_load(const float *at)
{
    return _mm256_loadu_ps(at);
}

LANES_INLINE void f_store(float *at, vf x)
{
    _mm256_storeu_ps(at, x);
}

LANES_INLINE vf f_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}

LANES_INLINE vf f_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

/* The larger magnitude. A NaN may be lost here, but the sum over the same values is then NaN. */
LANES_INLINE vf f_most(vf a, vf b)
{
    return _mm256_max_ps(a, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), b));
}

LANES_INLINE float f_largest(vf a)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
}

LANES_INLINE vd f_low(vf x)
{
    return _mm256_cvtps_pd(_mm256_castps256_ps128(x));
}

LANES_INLINE vd f_high(vf x)
{
    return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
}

/* The rounding test of dot.c in every lane. Stores the results and returns the mask of the lanes
 * that are still open; their stored results are arbitrary. */
LANES_INLINE unsigned d_round(vd sum, vd bound, float *out)
{
    const vd reach = _mm256_fmadd_pd(d_abs(sum), d_set(0x1p-52), bound);
    const __m128 low = _mm256_cvtpd_ps(_mm256_sub_pd(sum, reach));
    const __m128 high = _mm256_cvtpd_ps(_mm256_add_pd(sum, reach));
    const vd small = _mm256_cmp_pd(reach, d_set(0x1p900), _CMP_LT_OQ);
    const __m128i equal = _mm_cmpeq_epi32(_mm_castps_si128(low), _mm_castps_si128(high));
    _mm_storeu_ps(out, low);
    return 0xfu & ~(unsigned)(_mm256_movemask_pd(small) & _mm_movemask_ps(_mm_castsi128_ps(equal)));
}

#endif
