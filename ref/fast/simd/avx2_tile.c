#include "ref/fast/simd/tiles.h"

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)

#include <string.h>

#include "ref/fast/simd/avx2.h"

enum { ROWS = SB_TILE_ROWS, STEP = SB_TILE_STEP, INPUTS = 3, LANES = 4 };

/* Returns the sum of each of four registers. */
INLINE __m256d across4(const __m256d *a)
{
    const __m256d ab = _mm256_hadd_pd(a[0], a[1]), cd = _mm256_hadd_pd(a[2], a[3]);
    return _mm256_add_pd(_mm256_permute2f128_pd(ab, cd, 0x20),
                         _mm256_permute2f128_pd(ab, cd, 0x31));
}

/* Multiplies four rows with a constant number of inputs. */
INLINE void block(const double *w, const double *x, const size_t inputs, size_t n, double *sums,
                  size_t stride)
{
    __m256d acc[INPUTS][ROWS];
    for (size_t t = 0; t < inputs; t++)
        for (size_t r = 0; r < ROWS; r++)
            acc[t][r] = _mm256_setzero_pd();
    for (size_t k = 0; k < n; k += LANES) {
        __m256d input[INPUTS];
        for (size_t t = 0; t < inputs; t++)
            input[t] = _mm256_loadu_pd(x + t * n + k);
        for (size_t r = 0; r < ROWS; r++) {
            const __m256d row = _mm256_loadu_pd(w + r * n + k);
            for (size_t t = 0; t < inputs; t++)
                acc[t][r] = _mm256_fmadd_pd(row, input[t], acc[t][r]);
        }
    }
    for (size_t t = 0; t < inputs; t++, sums += stride)
        _mm256_storeu_pd(sums, _mm256_add_pd(_mm256_loadu_pd(sums), across4(acc[t])));
}

AVX2 static void multiply(const double *w, const double *x, size_t inputs, size_t n, double *sums,
                          size_t stride)
{
    if (inputs == 3)
        block(w, x, 3, n, sums, stride);
    else if (inputs == 2)
        block(w, x, 2, n, sums, stride);
    else
        block(w, x, 1, n, sums, stride);
}

/* Sixteen values. */
typedef struct values16 {
    __m256d of[4];
} values16;

INLINE values16 of_ps(__m256 low, __m256 high)
{
    return (values16){{_mm256_cvtps_pd(_mm256_castps256_ps128(low)),
                       _mm256_cvtps_pd(_mm256_extractf128_ps(low, 1)),
                       _mm256_cvtps_pd(_mm256_castps256_ps128(high)),
                       _mm256_cvtps_pd(_mm256_extractf128_ps(high, 1))}};
}

INLINE __m128i bytes16(const unsigned char *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

INLINE values16 of_f32(const unsigned char *at)
{
    __m256 low, high;
    memcpy(&low, at, sizeof low);
    memcpy(&high, at + sizeof low, sizeof high);
    return of_ps(low, high);
}

INLINE __m256 of_bf16x8(const unsigned char *at)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bytes16(at)), 16));
}

INLINE values16 of_bf16(const unsigned char *at)
{
    return of_ps(of_bf16x8(at), of_bf16x8(at + 16));
}

INLINE values16 of_f16(const unsigned char *at)
{
    return of_ps(_mm256_cvtph_ps(bytes16(at)), _mm256_cvtph_ps(bytes16(at + 16)));
}

/* Returns 2^-8 of the values: E4M3 bits are read as a binary16, whose exponent has another bias. */
INLINE values16 of_e4m3(const unsigned char *at)
{
    const __m256i code = _mm256_cvtepu8_epi16(bytes16(at)), mask = _mm256_set1_epi16(0x7f);
    const __m256i size = _mm256_and_si256(code, mask);
    const __m256i half = _mm256_or_si256(_mm256_slli_epi16(size, 7),
                                         _mm256_slli_epi16(_mm256_andnot_si256(mask, code), 8));
    const __m256i all =
        _mm256_blendv_epi8(half, _mm256_set1_epi16(0x7e00), _mm256_cmpeq_epi16(size, mask));
    return of_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(all)),
                 _mm256_cvtph_ps(_mm256_extracti128_si256(all, 1)));
}

/* Converts sixteen signed bytes. */
INLINE values16 of_bytes(__m128i x)
{
    const __m256i low = _mm256_cvtepi8_epi32(x);
    const __m256i high = _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8));
    return (values16){{_mm256_cvtepi32_pd(_mm256_castsi256_si128(low)),
                       _mm256_cvtepi32_pd(_mm256_extracti128_si256(low, 1)),
                       _mm256_cvtepi32_pd(_mm256_castsi256_si128(high)),
                       _mm256_cvtepi32_pd(_mm256_extracti128_si256(high, 1))}};
}

INLINE values16 of_int8(const unsigned char *at)
{
    return of_bytes(bytes16(at));
}

INLINE values16 of_uint8(const unsigned char *at)
{
    const __m256i low = _mm256_cvtepu8_epi32(bytes16(at));
    const __m256i high = _mm256_cvtepu8_epi32(_mm_srli_si128(bytes16(at), 8));
    return (values16){{_mm256_cvtepi32_pd(_mm256_castsi256_si128(low)),
                       _mm256_cvtepi32_pd(_mm256_extracti128_si256(low, 1)),
                       _mm256_cvtepi32_pd(_mm256_castsi256_si128(high)),
                       _mm256_cvtepi32_pd(_mm256_extracti128_si256(high, 1))}};
}

/* Looks up sixteen four-bit codes in the table. */
INLINE values16 of_table(const unsigned char *at, __m128i table)
{
    const __m128i codes = _mm_loadl_epi64((const __m128i *)(const void *)at);
    const __m128i mask = _mm_set1_epi8(15);
    const __m128i low = _mm_and_si128(codes, mask);
    const __m128i high = _mm_and_si128(_mm_srli_epi16(codes, 4), mask);
    return of_bytes(_mm_shuffle_epi8(table, _mm_unpacklo_epi8(low, high)));
}

/* Returns twice the values. */
INLINE values16 of_e2m1(const unsigned char *at)
{
    return of_table(at, _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
}

INLINE values16 of_uint4(const unsigned char *at)
{
    return of_table(at, _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

INLINE values16 of_int4(const unsigned char *at)
{
    return of_table(at, _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1));
}

/* Stores sixteen values and adds their squares. */
INLINE void put(values16 *squares, values16 x, double *values)
{
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_pd(values + LANES * i, x.of[i]);
        squares->of[i] = _mm256_fmadd_pd(x.of[i], x.of[i], squares->of[i]);
    }
}

INLINE values16 scaled(values16 x, __m256d zero, __m256d scale)
{
    for (int i = 0; i < 4; i++)
        x.of[i] = _mm256_mul_pd(_mm256_sub_pd(x.of[i], zero), scale);
    return x;
}

/* Returns x with the values from index `left` on set to zero. */
INLINE values16 first_of(values16 x, size_t left)
{
    double all[STEP];
    values16 none = {
        {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()}};
    put(&none, x, all);
    for (size_t i = left; i < STEP; i++)
        all[i] = 0;
    for (size_t i = 0; i < 4; i++)
        x.of[i] = _mm256_loadu_pd(all + LANES * i);
    return x;
}

INLINE double total(const values16 *x)
{
    double all[LANES];
    _mm256_storeu_pd(
        all, _mm256_add_pd(_mm256_add_pd(x->of[0], x->of[1]), _mm256_add_pd(x->of[2], x->of[3])));
    return (all[0] + all[1]) + (all[2] + all[3]);
}

/* A kernel for codes of `bits` bits. `of` reads sixteen codes and returns their values divided by
 * `unit`. The last codes are read from a copy, so that no byte past the row is read. */
#define WIDEN(name, bits, of, unit)                                                                \
    AVX2 static double name(const sb_row_codes *w, size_t first, size_t n, double *values)         \
    {                                                                                              \
        const unsigned char *codes = w->codes + first / 8 * (bits);                                \
        values16 squares = {                                                                       \
            {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()}}; \
        size_t i = 0, g = first / w->group, next = (g + 1) * w->group - first;                     \
        for (; i < n; g++, next += w->group) {                                                     \
            const size_t end = next < n ? next : n;                                                \
            const double factor = (w->scales ? w->scales[g] : 1) * (unit);                         \
            const __m256d scale = _mm256_set1_pd(factor);                                          \
            const __m256d zero = _mm256_set1_pd(w->zeros ? w->zeros[g] / (unit) : 0);              \
            for (; i + STEP <= end; i += STEP)                                                     \
                put(&squares, scaled(of(codes + i / 8 * (bits)), zero, scale), values + i);        \
            if (i < end) {                                                                         \
                unsigned char rest[STEP * 4] = {0};                                                \
                memcpy(rest, codes + i / 8 * (bits), ((end - i) * (bits) + 7) / 8);                \
                put(&squares, first_of(scaled(of(rest), zero, scale), end - i), values + i);       \
                i = end;                                                                           \
            }                                                                                      \
        }                                                                                          \
        return total(&squares);                                                                    \
    }
WIDEN(widen_f32, 32, of_f32, 1)
WIDEN(widen_bf16, 16, of_bf16, 1)
WIDEN(widen_f16, 16, of_f16, 1)
WIDEN(widen_e4m3, 8, of_e4m3, 256)
WIDEN(widen_int8, 8, of_int8, 1)
WIDEN(widen_uint8, 8, of_uint8, 1)
WIDEN(widen_e2m1, 4, of_e2m1, 0.5)
WIDEN(widen_int4, 4, of_int4, 1)
WIDEN(widen_uint4, 4, of_uint4, 1)

const sb_tile_kernels sb_tile_avx2 = {
    .lanes = LANES,
    .inputs = INPUTS,
    .multiply = multiply,
    .round = sb_tile_round,
    .widen = {[SB_FORMAT_f32] = widen_f32,
              [SB_FORMAT_bf16] = widen_bf16,
              [SB_FORMAT_f16] = widen_f16,
              [SB_FORMAT_e4m3] = widen_e4m3,
              [SB_FORMAT_int8] = widen_int8,
              [SB_FORMAT_uint8] = widen_uint8,
              [SB_FORMAT_e2m1] = widen_e2m1,
              [SB_FORMAT_int4] = widen_int4,
              [SB_FORMAT_uint4] = widen_uint4},
};

#endif
