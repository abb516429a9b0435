/* lanes_avx512.h - the lane operations of lanes_kernels.h for eight lanes of binary64, sixteen of
 * binary32. */
#ifndef SB_SIMD_LANES_AVX512_H
#define SB_SIMD_LANES_AVX512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define LANES_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")))
#define LANES_INLINE LANES_TARGET static inline __attribute__((always_inline))

enum { W = 8, HEADS_AT_ONCE = 8, DOTS_AT_ONCE = 2 };

typedef __m512d vd; /* W */
typedef __m512 vf;  /* 2 W */

LANES_INLINE vd d_set(double x)
{
    return _mm512_set1_pd(x);
}

LANES_INLINE vd d_load(const double *at)
{
    return _mm512_loadu_pd(at);
}

LANES_INLINE void d_store(double *at, vd x)
{
    _mm512_storeu_pd(at, x);
}

LANES_INLINE vd d_widen(const float *at)
{
    return _mm512_cvtps_pd(_mm256_loadu_ps(at));
}

LANES_INLINE vd d_add(vd a, vd b)
{
    return _mm512_add_pd(a, b);
}

LANES_INLINE vd d_mul(vd a, vd b)
{
    return _mm512_mul_pd(a, b);
}

/* a b + c */
LANES_INLINE vd d_mul_add(vd a, vd b, vd c)
{
    return _mm512_fmadd_pd(a, b, c);
}

LANES_INLINE vd d_abs(vd a)
{
    return _mm512_abs_pd(a);
}

LANES_INLINE double d_total(vd a)
{
    return _mm512_reduce_add_pd(a);
}

/* Writes the total of the lanes of each of eight vectors: adds pairs of lanes, then quarters, then
 * halves. */
LANES_INLINE void d_totals(const vd *a, double *out)
{
    vd four[4], two[2];
    for (int i = 0; i < 4; i++)
        four[i] = _mm512_add_pd(_mm512_unpacklo_pd(a[2 * i], a[2 * i + 1]),
                                _mm512_unpackhi_pd(a[2 * i], a[2 * i + 1]));
    for (int i = 0; i < 2; i++)
        two[i] = _mm512_add_pd(_mm512_shuffle_f64x2(four[2 * i], four[2 * i + 1], 0x88),
                               _mm512_shuffle_f64x2(four[2 * i], four[2 * i + 1], 0xdd));
    d_store(out, _mm512_add_pd(_mm512_shuffle_f64x2(two[0], two[1], 0x88),
                               _mm512_shuffle_f64x2(two[0], two[1], 0xdd)));
}

LANES_INLINE vf f_set(float x)
{
    return _mm512_set1_ps(x);
}

LANES_INLINE vf f_load(const float *at)
{
    return _mm512_loadu_ps(at);
}

LANES_INLINE void f_store(float *at, vf x)
{
    _mm512_storeu_ps(at, x);
}

LANES_INLINE vf f_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

LANES_INLINE vf f_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

/* Without optimization the intrinsic is a macro that converts its mask to a signed number. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
/* The larger magnitude. A NaN may be lost here, but the sum over the same values is then NaN. */
LANES_INLINE vf f_most(vf a, vf b)
{
    return _mm512_range_ps(a, b, 0x0b);
}
#pragma GCC diagnostic pop

LANES_INLINE float f_largest(vf a)
{
    return _mm512_reduce_max_ps(a);
}

LANES_INLINE vd f_low(vf x)
{
    return _mm512_cvtps_pd(_mm512_castps512_ps256(x));
}

LANES_INLINE vd f_high(vf x)
{
    return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
}

/* The rounding test of dot.c in every lane. Stores the results and returns the mask of the lanes
 * that are still open; their stored results are arbitrary. */
LANES_INLINE unsigned d_round(vd sum, vd bound, float *out)
{
    const vd reach = _mm512_fmadd_pd(_mm512_abs_pd(sum), d_set(0x1p-52), bound);
    const __m256 low = _mm512_cvtpd_ps(_mm512_sub_pd(sum, reach));
    const __m256 high = _mm512_cvtpd_ps(_mm512_add_pd(sum, reach));
    const __mmask8 small = _mm512_cmp_pd_mask(reach, d_set(0x1p900), _CMP_LT_OQ);
    _mm256_storeu_ps(out, low);
    return 0xffu & ~(unsigned)_mm256_mask_cmpeq_epi32_mask(small, _mm256_castps_si256(low),
                                                           _mm256_castps_si256(high));
}

#endif
