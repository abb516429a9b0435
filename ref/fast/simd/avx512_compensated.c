#include "ref/fast/dot/kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include "ref/fast/simd/avx512.h"

typedef struct kept_lanes {
    __m512d sum, errors, rest, size;
} kept_lanes;

/* The same operations as two_sum of compensated.c. */
INLINE __m512d two_sum(__m512d x, __m512d y, __m512d *sum)
{
    const __m512d s = _mm512_add_pd(x, y);
    const __m512d y_seen = _mm512_sub_pd(s, x), x_seen = _mm512_sub_pd(s, y_seen);
    *sum = s;
    return _mm512_add_pd(_mm512_sub_pd(x, x_seen), _mm512_sub_pd(y, y_seen));
}

INLINE void join_error(kept_lanes *to, __m512d error)
{
    const __m512d left = two_sum(to->errors, error, &to->errors);
    to->rest = _mm512_add_pd(to->rest, left);
    to->size = _mm512_add_pd(to->size, _mm512_abs_pd(left));
}

/* True if any lane has an error. Products of few bits have no error, and neither have their sums,
 * which often are ties. So the branches are well predicted. */
INLINE int any(__m512d error)
{
    return _mm512_cmp_pd_mask(error, _mm512_setzero_pd(), _CMP_NEQ_UQ) != 0;
}

/* A fused multiply-add gives the exact error of a product. It is small compared with the sum and is
 * added to the errors directly. */
AVX512 void sb_avx512_compensated(sb_compensated *to, const double *a, const double *b, size_t n)
{
    const __m512d zero = _mm512_setzero_pd();
    kept_lanes acc = {zero, zero, zero, zero};
    double lanes[2][8];
    for (size_t i = 0; i < n; i += 8) {
        const __mmask8 mask = (__mmask8)first_of(n - i);
        const __m512d x = _mm512_maskz_loadu_pd(mask, a + i),
                      y = _mm512_maskz_loadu_pd(mask, b + i);
        const __m512d product = _mm512_mul_pd(x, y);
        const __m512d error = _mm512_fmsub_pd(x, y, product);
        if (any(error))
            join_error(&acc, error);
        const __m512d lost = two_sum(acc.sum, product, &acc.sum);
        if (any(lost))
            join_error(&acc, lost);
    }
    _mm512_storeu_pd(lanes[0], acc.sum);
    _mm512_storeu_pd(lanes[1], acc.errors);
    for (size_t l = 0; l < 8; l++) {
        sb_compensated_join(to, lanes[0][l]);
        sb_compensated_join(to, lanes[1][l]);
    }
    to->rest += _mm512_reduce_add_pd(acc.rest);
    to->size += _mm512_reduce_add_pd(acc.size);
}

/* The largest magnitude of a product, ignoring NaN. */
INLINE double largest(const double *a, const double *b, size_t n)
{
    __m512d most = _mm512_setzero_pd();
    for (size_t i = 0; i < n; i += 8) {
        const __mmask8 mask = (__mmask8)first_of(n - i);
        const __m512d product =
            _mm512_mul_pd(_mm512_maskz_loadu_pd(mask, a + i), _mm512_maskz_loadu_pd(mask, b + i));
        most = _mm512_max_pd(_mm512_abs_pd(product), most);
    }
    return _mm512_reduce_max_pd(most);
}

/* Adds the term to the level, which is larger, and returns the part that was rounded off. */
INLINE __m512d drop(__m512d *level, __m512d term)
{
    const __m512d sum = _mm512_add_pd(*level, term);
    const __m512d left = _mm512_sub_pd(term, _mm512_sub_pd(sum, *level));
    *level = sum;
    return left;
}

/* Adds the products to the levels and writes the sums of the levels to `parts`. Returns nonzero if
 * the last level passes nothing on. */
INLINE int fill(const double *a, const double *b, size_t n, const double *start, int levels,
                double parts[SB_PARTS])
{
    const __m512i magnitude = _mm512_set1_epi64(INT64_MAX);
    __m512d level[SB_LEVELS];
    __m512i lost = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int l = 0; l < levels; l++)
        level[l] = _mm512_set1_pd(start[l]);
    for (size_t i = 0; i < n; i += 8) {
        const __mmask8 mask = (__mmask8)first_of(n - i);
        const __m512d x = _mm512_maskz_loadu_pd(mask, a + i),
                      y = _mm512_maskz_loadu_pd(mask, b + i);
        __m512d term = _mm512_mul_pd(x, y), error = _mm512_fmsub_pd(x, y, term);
#pragma GCC unroll 8
        for (int l = 0; l < levels; l++)
            term = drop(&level[l], term);
        lost = _mm512_or_si512(lost, _mm512_castpd_si512(term));
        if (!any(error))
            continue;
#pragma GCC unroll 8
        for (int l = 1; l < levels; l++)
            error = drop(&level[l], error);
        lost = _mm512_or_si512(lost, _mm512_castpd_si512(error));
    }
#pragma GCC unroll 8
    for (int l = 0; l < levels; l++) {
        const __m512d part = _mm512_sub_pd(level[l], _mm512_set1_pd(start[l]));
        const __m256d two =
            _mm256_add_pd(_mm512_castpd512_pd256(part), _mm512_extractf64x4_pd(part, 1));
        _mm_storeu_pd(parts + 2 * l,
                      _mm_add_pd(_mm256_castpd256_pd128(two), _mm256_extractf128_pd(two, 1)));
    }
    return _mm512_test_epi64_mask(lost, magnitude) == 0;
}

/* A few levels are enough for most sums. The parts of unused levels are zeros. */
AVX512 int sb_avx512_parts(const double *a, const double *b, size_t n, double parts[SB_PARTS])
{
    double start[SB_LEVELS];
    for (int i = 0; i < SB_PARTS; i++)
        parts[i] = 0;
    return sb_levels_start(largest(a, b, n), (n + 7) / 8, start) &&
           (fill(a, b, n, start, SB_LEVELS_FEW, parts) || fill(a, b, n, start, SB_LEVELS, parts));
}

#endif
