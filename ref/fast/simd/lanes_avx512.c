#include "ref/fast/dot/lanes.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include "ref/fast/simd/lanes_avx512.h"

#include "ref/fast/dot/lanes_kernels.h"

LANES_INLINE vd d_quotient(vd a, vd b)
{
    return _mm512_div_pd(a, b);
}

/* Clamps x; keeps NaN. */
LANES_INLINE vd d_clamp(vd x, double least, double most)
{
    return _mm512_min_pd(d_set(most), _mm512_max_pd(d_set(least), x));
}

/* Without optimization the intrinsic is a macro that converts its mask to a signed number. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
LANES_INLINE vd d_nearest(vd x)
{
    return _mm512_roundscale_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#pragma GCC diagnostic pop

/* Returns n, the integer nearest to x; sets *root = roots[n mod 32], *power = 2^floor(n / 32). */
LANES_INLINE vd d_powers_of_two(vd x, const double *roots, vd *root, vd *power)
{
    const vd n = d_nearest(x);
    const __m512i i = _mm512_cvtpd_epi64(n);
    const vd low = _mm512_permutex2var_pd(d_load(roots), i, d_load(roots + 8));
    const vd high = _mm512_permutex2var_pd(d_load(roots + 16), i, d_load(roots + 24));
    const __mmask8 upper = _mm512_test_epi64_mask(i, _mm512_set1_epi64(16));
    const __m512i exponent = _mm512_add_epi64(_mm512_srai_epi64(i, 5), _mm512_set1_epi64(1023));
    *root = _mm512_mask_mov_pd(low, upper, high);
    *power = _mm512_castsi512_pd(_mm512_slli_epi64(exponent, 52));
    return n;
}

#include "ref/fast/simd/fn_lanes.h"

static const sb_lane_kernels avx512 = {LANES_KERNELS, .exp = many_exp, .sigmoid = many_sigmoid,
                                       .silu = many_silu};
const sb_lane_kernels *const sb_lanes_avx512 = &avx512;

#else

const sb_lane_kernels *const sb_lanes_avx512 = NULL;

#endif
