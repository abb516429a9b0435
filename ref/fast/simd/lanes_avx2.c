#include "ref/fast/dot/lanes.h"

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)

#include "ref/fast/simd/lanes_avx2.h"

#include "ref/fast/dot/lanes_kernels.h"

LANES_INLINE vd d_quotient(vd a, vd b)
{
    return _mm256_div_pd(a, b);
}

/* Clamps x; keeps NaN. */
LANES_INLINE vd d_clamp(vd x, double least, double most)
{
    return _mm256_min_pd(d_set(most), _mm256_max_pd(d_set(least), x));
}

/* Returns n, the integer nearest to x; sets *root = roots[n mod 32], *power = 2^floor(n / 32). */
LANES_INLINE vd d_powers_of_two(vd x, const double *roots, vd *root, vd *power)
{
    const vd n = _mm256_round_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m128i i = _mm256_cvtpd_epi32(n);
    const __m128i exponent = _mm_add_epi32(_mm_srai_epi32(i, 5), _mm_set1_epi32(1023));
    *root = _mm256_i32gather_pd(roots, _mm_and_si128(i, _mm_set1_epi32(31)), 8);
    *power = _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_cvtepi32_epi64(exponent), 52));
    return n;
}

#include "ref/fast/simd/fn_lanes.h"

static const sb_lane_kernels avx2 = {LANES_KERNELS, .exp = many_exp, .sigmoid = many_sigmoid,
                                     .silu = many_silu};
const sb_lane_kernels *const sb_lanes_avx2 = &avx2;

#else

const sb_lane_kernels *const sb_lanes_avx2 = NULL;

#endif
