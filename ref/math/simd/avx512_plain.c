#include "ref/math/kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include "ref/math/simd/avx512_codes.h"

/* The sums of a row, with the largest magnitude of its values by lane: that of NaN may be lost
 * there, as the sum is NaN, then. */
typedef struct plain_sums {
    __m512d sum[2];
    __m512 largest;
} plain_sums;

INLINE void add_16(plain_sums *to, __m512 values, const double *x)
{
    enum { LARGER_MAGNITUDE = 11 };
    to->largest = _mm512_range_ps(to->largest, values, LARGER_MAGNITUDE);
    to->sum[0] = _mm512_fmadd_pd(low(values), _mm512_load_pd(x), to->sum[0]);
    to->sum[1] = _mm512_fmadd_pd(high(values), _mm512_load_pd(x + 8), to->sum[1]);
}

/* All products together are at most the largest code times all magnitudes of the input. */
INLINE sb_partial of_plain(const plain_sums *from, const sb_row_input *x, size_t n)
{
    const __m512 most = from->largest;
    const double largest = (double)_mm512_reduce_max_ps(most);
    __m512d sizes = _mm512_setzero_pd();
    for (size_t i = 0; i < n; i += SB_ROW_BLOCK)
        sizes = _mm512_add_pd(sizes, _mm512_loadu_pd(x->x16 + i / NEIGHBOURS));
    return (sb_partial){_mm512_reduce_add_pd(_mm512_add_pd(from->sum[0], from->sum[1])),
                        largest * _mm512_reduce_add_pd(sizes)};
}

/* How far ahead of the arithmetic, in bytes, memory is asked for: with less it is waited for. */
enum { AHEAD = 4096 };

/* Roundings of a product on its way: 1 of its own, n / 16 + 1, 1 and 3 where the lanes meet. */
#define ROW(format, size)                                                                          \
    AVX512 sb_partial sb_avx512_row_##format(const sb_row_codes *w, const sb_row_input *x)         \
    {                                                                                              \
        plain_sums sums = {{_mm512_setzero_pd(), _mm512_setzero_pd()}, _mm512_setzero_ps()};       \
        size_t i = 0;                                                                              \
        for (; i + 32 <= w->n; i += 32) {                                                          \
            for (size_t line = 0; line < 32 * (size); line += 64)                                  \
                _mm_prefetch((const char *)w->codes + i * (size) + AHEAD + line, _MM_HINT_T0);     \
            add_16(&sums, of_##format(w->codes + i * (size), 0xffff), x->x + i);                   \
            add_16(&sums, of_##format(w->codes + (i + STEP) * (size), 0xffff), x->x + i + STEP);   \
        }                                                                                          \
        for (; i < w->n; i += STEP)                                                                \
            add_16(&sums, of_##format(w->codes + i * (size), first_of(w->n - i)), x->x + i);       \
        return of_plain(&sums, x, w->n);                                                           \
    }
ROW(bf16, 2)
ROW(f16, 2)
ROW(f32, 4)

/* Integers of eight bits: sixteen columns share a scale and a zero. Roundings: 1 of the product, 1
 * where two meet, n / 16 + 1 and 3 where the lanes meet. */
#define INTEGERS(format, widen, least)                                                             \
    AVX512 sb_partial sb_avx512_row_##format(const sb_row_codes *w, const sb_row_input *x)         \
    {                                                                                              \
        __m512d sum = _mm512_setzero_pd();                                                         \
        double magnitude = 0;                                                                      \
        for (size_t i = 0; i < w->n; i += STEP) {                                                  \
            const __mmask16 mask = first_of(w->n - i);                                             \
            const __m512i codes = widen(_mm_maskz_loadu_epi8(mask, w->codes + i));                 \
            const double zero = w->zeros ? w->zeros[i / w->group] : 0;                             \
            const double scale = w->scales ? w->scales[i / w->group] : 1;                          \
            const __m512d zeros = _mm512_set1_pd(zero);                                            \
            const __m512d first = _mm512_cvtepi32_pd(_mm512_castsi512_si256(codes));               \
            const __m512d second = _mm512_cvtepi32_pd(_mm512_extracti32x8_epi32(codes, 1));        \
            __m512d both = _mm512_mul_pd(_mm512_sub_pd(first, zeros), _mm512_load_pd(x->x + i));   \
            both =                                                                                 \
                _mm512_fmadd_pd(_mm512_sub_pd(second, zeros), _mm512_load_pd(x->x + i + 8), both); \
            sum = _mm512_fmadd_pd(_mm512_set1_pd(scale), both, sum);                               \
            magnitude += sb_absolute(scale) * ((least) + sb_absolute(zero)) * x->x16[i / STEP];    \
        }                                                                                          \
        return (sb_partial){_mm512_reduce_add_pd(sum), magnitude};                                 \
    }
INTEGERS(int8, _mm512_cvtepi8_epi32, 128)
INTEGERS(uint8, _mm512_cvtepu8_epi32, 255)

#endif
