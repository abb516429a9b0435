#include "ref/fast/dot/kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include "ref/fast/simd/avx512_codes.h"

/* The sums of a row, and the largest magnitude of its values by lane. `largest` may miss a NaN, but
 * then the sum is NaN. */
typedef struct plain_sums {
    __m512d sum[2];
    __m512 largest;
} plain_sums;

/* Without optimization the intrinsic is a macro that converts its mask to a signed number. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
INLINE __m512 larger_magnitude(__m512 a, __m512 b)
{
    return _mm512_range_ps(a, b, 0x0b);
}
#pragma GCC diagnostic pop

INLINE void add_16(plain_sums *to, __m512 values, const double *x)
{
    to->largest = larger_magnitude(to->largest, values);
    to->sum[0] = _mm512_fmadd_pd(low(values), _mm512_load_pd(x), to->sum[0]);
    to->sum[1] = _mm512_fmadd_pd(high(values), _mm512_load_pd(x + 8), to->sum[1]);
}

/* The sum of magnitudes is at most the largest code times the sum of magnitudes of the input. */
INLINE sb_partial of_plain(const plain_sums *from, const sb_row_input *x)
{
    const double largest = (double)_mm512_reduce_max_ps(from->largest);
    return (sb_partial){_mm512_reduce_add_pd(_mm512_add_pd(from->sum[0], from->sum[1])),
                        largest * x->size};
}

/* A product passes through these roundings: 1 of the product itself, n / 16 + 1 within a sum, 1
 * when the sums are added, 3 when lanes are added. */
#define ROW(format, size)                                                                          \
    AVX512 sb_partial sb_avx512_row_##format(const sb_row_codes *w, const sb_row_input *x)         \
    {                                                                                              \
        plain_sums sums = {{_mm512_setzero_pd(), _mm512_setzero_pd()}, _mm512_setzero_ps()};       \
        size_t i = 0;                                                                              \
        for (; i + 32 <= w->n; i += 32) {                                                          \
            for (size_t line = 0; line < 32 * (size); line += 64)                                  \
                sb_fetch(w->codes + i * (size) + line);                                            \
            add_16(&sums, of_##format(w->codes + i * (size), 0xffff), x->x + i);                   \
            add_16(&sums, of_##format(w->codes + (i + STEP) * (size), 0xffff), x->x + i + STEP);   \
        }                                                                                          \
        for (; i < w->n; i += STEP)                                                                \
            add_16(&sums, of_##format(w->codes + i * (size), first_of(w->n - i)), x->x + i);       \
        return of_plain(&sums, x);                                                                 \
    }
ROW(f16, 2)
ROW(f32, 4)

/* --- BF16 ------------------------------------------------------------------------------------- */
/*
 * A code has a sign, eight bits of exponent and seven of fraction. At the top of a binary64, with
 * three zeros after the sign, these bits give 2^-896 of the value, because the exponent biases are
 * 127 and 1023. Subnormal codes become subnormal binary64 values. Inputs are multiplied by 2^448,
 * so that no product underflows (by exact.h, the magnitudes of codes are at least 2^-133 and those
 * of inputs at least 2^-170). Infinite codes and NaN become finite numbers here. The bound by the
 * largest code or by squares still detects them. */
enum { LINE = 32 }; /* codes */

/* Lane q of vector k gets column 4 q + k of 32. */
AVX512 void sb_avx512_arrange_bf16(const double *x, size_t n, double *lanes)
{
    const __m512i first = _mm512_setr_epi64(0, 4, 8, 12, 0, 4, 8, 12);
    const __m512d unit = _mm512_set1_pd(0x1p448);
    for (size_t i = 0; i < n; i += LINE)
        for (int k = 0; k < 4; k++) {
            const __m512i which = _mm512_add_epi64(first, _mm512_set1_epi64(k));
            const __m512d low =
                _mm512_permutex2var_pd(_mm512_load_pd(x + i), which, _mm512_load_pd(x + i + 8));
            const __m512d high = _mm512_permutex2var_pd(_mm512_load_pd(x + i + 16), which,
                                                        _mm512_load_pd(x + i + 24));
            _mm512_store_pd(lanes + i + 8 * (size_t)k,
                            _mm512_mul_pd(_mm512_mask_blend_pd(0xf0, low, high), unit));
        }
}

/* How the sum of magnitudes of a row's products is bounded: by the largest code of the row, or by
 * the sum of squares of the row, which needs AVX512_BF16. */
typedef enum bound { LARGEST, SQUARES } bound;

typedef struct line_sums {
    __m512d sum[4];
    __m512i twice; /* the largest doubled code without sign, by word */
    __m512 squares;
} line_sums;

INLINE __m512d value_at_top(__m512i codes)
{
    const __m512i fields = _mm512_set1_epi64((int64_t)0x8fffe00000000000u);
    return _mm512_castsi512_pd(_mm512_and_si512(codes, fields));
}

/* Adds the squares of two codes to each lane. It uses no intrinsic, because then all calling
 * functions would have to target AVX512_BF16. */
INLINE __m512 plus_squares(__m512 squares, __m512i codes)
{
    __asm__("vdpbf16ps %1, %1, %0" : "+v"(squares) : "v"(codes));
    return squares;
}

/* Adds 32 codes. In each eight bytes the fourth and the second code are at the top of a doubleword;
 * a shift puts the third and the first there. */
INLINE void add_line(line_sums *to, bound by, __m512i codes, const __m512d x[4])
{
    const __m512i odd = _mm512_srai_epi32(codes, 3);
    const __m512i even = _mm512_srai_epi32(_mm512_slli_epi32(codes, 16), 3);
    const __m512i places[4] = {_mm512_slli_epi64(even, 32), _mm512_slli_epi64(odd, 32), even, odd};
    if (by == SQUARES)
        to->squares = plus_squares(to->squares, codes);
    else
        to->twice = _mm512_max_epu16(to->twice, _mm512_add_epi16(codes, codes));
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++)
        to->sum[k] = _mm512_fmadd_pd(value_at_top(places[k]), x[k], to->sum[k]);
}

INLINE double sum_of(const line_sums *from)
{
    const __m512d sum = _mm512_add_pd(_mm512_add_pd(from->sum[0], from->sum[1]),
                                      _mm512_add_pd(from->sum[2], from->sum[3]));
    return _mm512_reduce_add_pd(sum) * 0x1p448;
}

INLINE sb_partial of_largest(const line_sums *from, const sb_row_input *x)
{
    const __m512i even = _mm512_slli_epi32(from->twice, 16);
    const uint32_t largest = _mm512_reduce_max_epu32(_mm512_max_epu32(even, from->twice));
    return (sb_partial){sum_of(from), (double)sb_f32_from_bits(largest >> 17 << 16) * x->size};
}

/* By Cauchy-Schwarz, the sum of magnitudes is at most the root of the product of the two sums of
 * squares, of the codes and of the input. Let S be the exact sum of squares of the codes and T the
 * computed sum. VDPBF16PS may add two squares to a lane in any way: it rounds at most three times,
 * each time by less than 2^-23 of the result, and may treat codes, squares and results below 2^-126
 * as zero. Fewer than 2^20 columns are at most 2^15 lines, (1 - 2^-23)^(3 2^15) > 0.98, and adding
 * the lanes takes four more roundings. So T is at least 0.98 S - 2^-100, and if T > 2^-80, S < 1.03
 * T. The factor 1.0625 also covers the roundings of the input's sum of squares and of the lines
 * below. Infinities and NaN stay in T. Rows with a T outside the tested range, rows of zeros and
 * rows that are too long are read again. */
INLINE sb_partial of_squares(const line_sums *from, const sb_row_codes *w, const sb_row_input *x)
{
    const double squares = (double)_mm512_reduce_add_ps(from->squares);
    if (!(squares > 0x1p-80 && squares < 0x1p100 && w->n < (size_t)1 << 20))
        return sb_avx512_row_bf16(w, x);
    const __m128d product = _mm_set_sd(1.0625 * squares * x->squares);
    return (sb_partial){sum_of(from), _mm_cvtsd_f64(_mm_sqrt_sd(product, product))};
}

/* Adds the codes from column i on of `rows` rows (a constant); no memory beyond the first `here`
 * columns is read. Near the end of a row the prefetch skips the other row of the pair. */
INLINE void add_lines(line_sums *sums, bound by, const sb_row_codes *w, size_t rows,
                      const sb_row_input *x, size_t i, size_t here)
{
    const size_t skipped = i + SB_FETCH_NEAR / 2 < w->n ? 0 : 2 * (rows - 1) * w->n;
    __m512d lanes[4];
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; k++)
        lanes[k] = _mm512_load_pd(x->lanes + i + 8 * k);
#pragma GCC unroll 2
    for (size_t r = 0; r < rows; r++) {
        const unsigned char *at = w[r].codes + 2 * i;
        sb_fetch_far(at);
        sb_fetch_near(at + skipped);
        __m512i codes = load_end(at, 2 * here);
        __asm__("" : "+v"(codes)); /* so that the codes are loaded once, not for each instruction */
        add_line(&sums[r], by, codes, lanes);
    }
}

/* A product passes through these roundings: n / 32 + 1 within a sum, 2 when sums are added, 3 when
 * lanes are added. */
INLINE void bf16_rows(bound by, const sb_row_codes *w, size_t rows, const sb_row_input *x,
                      sb_partial *partials)
{
    const size_t n = w->n, whole = n / LINE * LINE;
    line_sums sums[2];
#pragma GCC unroll 2
    for (size_t r = 0; r < rows; r++) {
        sums[r].twice = _mm512_setzero_si512();
        sums[r].squares = _mm512_setzero_ps();
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            sums[r].sum[k] = _mm512_setzero_pd();
    }
    for (size_t i = 0; i < whole; i += LINE)
        add_lines(sums, by, w, rows, x, i, LINE);
    if (whole < n)
        add_lines(sums, by, w, rows, x, whole, n - whole);
#pragma GCC unroll 2
    for (size_t r = 0; r < rows; r++)
        partials[r] = by == SQUARES ? of_squares(&sums[r], &w[r], x) : of_largest(&sums[r], x);
}

AVX512 sb_partial sb_avx512_row_bf16(const sb_row_codes *w, const sb_row_input *x)
{
    sb_partial partial;
    bf16_rows(LARGEST, w, 1, x, &partial);
    return partial;
}

AVX512 void sb_avx512_pair_bf16(const sb_row_codes w[2], const sb_row_input *x,
                                sb_partial partials[2])
{
    bf16_rows(LARGEST, w, 2, x, partials);
}

/* __builtin_cpu_init was called when the set was chosen. */
static int has_squares(void)
{
    return __builtin_cpu_supports("avx512bf16") != 0;
}

AVX512 sb_partial sb_avx512_squares_row_bf16(const sb_row_codes *w, const sb_row_input *x)
{
    sb_partial partial;
    if (!has_squares())
        return sb_avx512_row_bf16(w, x);
    bf16_rows(SQUARES, w, 1, x, &partial);
    return partial;
}

AVX512 void sb_avx512_squares_pair_bf16(const sb_row_codes w[2], const sb_row_input *x,
                                        sb_partial partials[2])
{
    if (has_squares())
        bf16_rows(SQUARES, w, 2, x, partials);
    else
        sb_avx512_pair_bf16(w, x, partials);
}

/* Eight-bit integers: sixteen columns share a scale and a zero point. A product passes through
 * these roundings: 1 of the product itself, 1 when two products are added, n / 16 + 1 within a sum,
 * 3 when lanes are added. */
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
