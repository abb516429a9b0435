#include "ref/fast/dot/kernels.h"

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)

#include "ref/fast/simd/avx2.h"

enum { LANES = 4 };

typedef struct kept_lanes {
    __m256d sum, errors, rest, size;
} kept_lanes;

/* The same operations as two_sum of compensated.c. */
INLINE __m256d two_sum(__m256d x, __m256d y, __m256d *sum)
{
    const __m256d s = _mm256_add_pd(x, y);
    const __m256d y_seen = _mm256_sub_pd(s, x), x_seen = _mm256_sub_pd(s, y_seen);
    *sum = s;
    return _mm256_add_pd(_mm256_sub_pd(x, x_seen), _mm256_sub_pd(y, y_seen));
}

INLINE void join_error(kept_lanes *to, __m256d error)
{
    const __m256d left = two_sum(to->errors, error, &to->errors);
    to->rest = _mm256_add_pd(to->rest, left);
    to->size = _mm256_add_pd(to->size, _mm256_andnot_pd(_mm256_set1_pd(-0.0), left));
}

/* True if any lane has an error. Products of few bits have no error, so the branch is well
 * predicted. */
INLINE int any(__m256d error)
{
    return _mm256_movemask_pd(_mm256_cmp_pd(error, _mm256_setzero_pd(), _CMP_NEQ_UQ));
}

/* Loads the next four of `left` values. Missing values are zero and are not read. */
INLINE __m256d next(const double *x, size_t left)
{
    static const long long mask[2 * LANES] = {-1, -1, -1, -1, 0, 0, 0, 0};
    if (left >= LANES)
        return _mm256_loadu_pd(x);
    return _mm256_maskload_pd(x, _mm256_loadu_si256((const __m256i *)(mask + LANES - left)));
}

/* A fused multiply-add gives the exact error of a product. It is small compared with the sum and is
 * added to the errors directly. */
AVX2 void sb_avx2_compensated(sb_compensated *to, const double *a, const double *b, size_t n)
{
    const __m256d zero = _mm256_setzero_pd();
    kept_lanes acc = {zero, zero, zero, zero};
    double lanes[4][LANES];
    for (size_t i = 0; i < n; i += LANES) {
        const __m256d x = next(a + i, n - i), y = next(b + i, n - i);
        const __m256d product = _mm256_mul_pd(x, y);
        const __m256d error = _mm256_fmsub_pd(x, y, product);
        if (any(error))
            join_error(&acc, error);
        join_error(&acc, two_sum(acc.sum, product, &acc.sum));
    }
    _mm256_storeu_pd(lanes[0], acc.sum);
    _mm256_storeu_pd(lanes[1], acc.errors);
    _mm256_storeu_pd(lanes[2], acc.rest);
    _mm256_storeu_pd(lanes[3], acc.size);
    for (size_t l = 0; l < LANES; l++) {
        sb_compensated_join(to, lanes[0][l]);
        sb_compensated_join(to, lanes[1][l]);
        to->rest += lanes[2][l];
        to->size += lanes[3][l];
    }
}

/* The largest magnitude of a product, ignoring NaN. */
INLINE double largest(const double *a, const double *b, size_t n)
{
    __m256d most = _mm256_setzero_pd();
    double lanes[LANES], size = 0;
    for (size_t i = 0; i < n; i += LANES) {
        const __m256d product = _mm256_mul_pd(next(a + i, n - i), next(b + i, n - i));
        most = _mm256_max_pd(_mm256_andnot_pd(_mm256_set1_pd(-0.0), product), most);
    }
    _mm256_storeu_pd(lanes, most);
    for (size_t l = 0; l < LANES; l++)
        size = lanes[l] > size ? lanes[l] : size;
    return size;
}

/* Adds the term to the level, which is larger, and returns the part that was rounded off. */
INLINE __m256d drop(__m256d *level, __m256d term)
{
    const __m256d sum = _mm256_add_pd(*level, term);
    const __m256d left = _mm256_sub_pd(term, _mm256_sub_pd(sum, *level));
    *level = sum;
    return left;
}

/* Adds the products to the levels and writes the sums of the levels to `parts`. Returns nonzero if
 * the last level passes nothing on. */
INLINE int fill(const double *a, const double *b, size_t n, const double *start, int levels,
                double parts[SB_PARTS])
{
    __m256d level[SB_LEVELS], lost = _mm256_setzero_pd();
    for (int l = 0; l < levels; l++)
        level[l] = _mm256_set1_pd(start[l]);
    for (size_t i = 0; i < n; i += LANES) {
        const __m256d x = next(a + i, n - i), y = next(b + i, n - i);
        __m256d term = _mm256_mul_pd(x, y), error = _mm256_fmsub_pd(x, y, term);
#pragma GCC unroll 8
        for (int l = 0; l < levels; l++)
            term = drop(&level[l], term);
        lost = _mm256_or_pd(lost, term);
        if (!any(error))
            continue;
#pragma GCC unroll 8
        for (int l = 1; l < levels; l++)
            error = drop(&level[l], error);
        lost = _mm256_or_pd(lost, error);
    }
    for (int l = 0; l < levels; l++) {
        const __m256d part = _mm256_sub_pd(level[l], _mm256_set1_pd(start[l]));
        _mm_storeu_pd(parts + 2 * l,
                      _mm_add_pd(_mm256_castpd256_pd128(part), _mm256_extractf128_pd(part, 1)));
    }
    return !any(lost);
}

/* A few levels are enough for most sums. The parts of unused levels are zeros. */
AVX2 int sb_avx2_parts(const double *a, const double *b, size_t n, double parts[SB_PARTS])
{
    double start[SB_LEVELS];
    for (int i = 0; i < SB_PARTS; i++)
        parts[i] = 0;
    return sb_levels_start(largest(a, b, n), (n + LANES - 1) / LANES, start) &&
           (fill(a, b, n, start, SB_LEVELS_FEW, parts) || fill(a, b, n, start, SB_LEVELS, parts));
}

#endif
