#include "ref/fast/simd/tiles.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <string.h>

#include "ref/fast/simd/avx512.h"

enum { ROWS = SB_TILE_ROWS, INPUTS = 6, LANES = 8 };
_Static_assert((int)STEP == (int)SB_TILE_STEP, "two registers are a step of columns");

/* Returns the sum of each of four registers. */
INLINE __m256d across4(const __m512d *a)
{
    const __m512d ab =
        _mm512_add_pd(_mm512_unpacklo_pd(a[0], a[1]), _mm512_unpackhi_pd(a[0], a[1]));
    const __m512d cd =
        _mm512_add_pd(_mm512_unpacklo_pd(a[2], a[3]), _mm512_unpackhi_pd(a[2], a[3]));
    const __m256d x = _mm256_add_pd(_mm512_castpd512_pd256(ab), _mm512_extractf64x4_pd(ab, 1));
    const __m256d y = _mm256_add_pd(_mm512_castpd512_pd256(cd), _mm512_extractf64x4_pd(cd, 1));
    return _mm256_add_pd(_mm256_permute2f128_pd(x, y, 0x20), _mm256_permute2f128_pd(x, y, 0x31));
}

/* Multiplies four rows with a constant number of inputs. */
INLINE void block(const double *w, const double *x, const size_t inputs, size_t n, double *sums,
                  size_t stride)
{
    __m512d acc[INPUTS][ROWS];
#pragma GCC unroll 6
    for (size_t t = 0; t < inputs; t++)
#pragma GCC unroll 4
        for (size_t r = 0; r < ROWS; r++)
            acc[t][r] = _mm512_setzero_pd();
    for (size_t k = 0; k < n; k += LANES) {
        __m512d row[ROWS];
#pragma GCC unroll 4
        for (size_t r = 0; r < ROWS; r++)
            row[r] = _mm512_loadu_pd(w + r * n + k);
#pragma GCC unroll 6
        for (size_t t = 0; t < inputs; t++) {
            const __m512d input = _mm512_loadu_pd(x + t * n + k);
#pragma GCC unroll 4
            for (size_t r = 0; r < ROWS; r++)
                acc[t][r] = _mm512_fmadd_pd(row[r], input, acc[t][r]);
        }
    }
#pragma GCC unroll 6
    for (size_t t = 0; t < inputs; t++, sums += stride)
        _mm256_storeu_pd(sums, _mm256_add_pd(_mm256_loadu_pd(sums), across4(acc[t])));
}

AVX512 static void multiply(const double *w, const double *x, size_t inputs, size_t n, double *sums,
                            size_t stride)
{
    switch (inputs) {
    case 1:
        block(w, x, 1, n, sums, stride);
        break;
    case 2:
        block(w, x, 2, n, sums, stride);
        break;
    case 3:
        block(w, x, 3, n, sums, stride);
        break;
    case 4:
        block(w, x, 4, n, sums, stride);
        break;
    case 5:
        block(w, x, 5, n, sums, stride);
        break;
    default:
        block(w, x, 6, n, sums, stride);
    }
}

/* Sixteen values. */
typedef struct pair {
    __m512d low, high;
} pair;

INLINE pair of_ps(__m512 x)
{
    return (pair){low(x), high(x)};
}

INLINE pair of_f32s(const unsigned char *at)
{
    return of_ps(of_f32(at, first_of(STEP)));
}

INLINE pair of_bf16s(const unsigned char *at)
{
    return of_ps(of_bf16(at, first_of(STEP)));
}

INLINE pair of_f16s(const unsigned char *at)
{
    return of_ps(of_f16(at, first_of(STEP)));
}

INLINE __m128i bytes16(const unsigned char *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

/* Returns 2^-8 of the values: E4M3 bits are read as a binary16, whose exponent has another bias. */
INLINE pair of_e4m3(const unsigned char *at)
{
    const __m256i code = _mm256_cvtepu8_epi16(bytes16(at)), mask = _mm256_set1_epi16(0x7f);
    const __m256i size = _mm256_and_si256(code, mask);
    __m256i half = _mm256_or_si256(_mm256_slli_epi16(size, 7),
                                   _mm256_slli_epi16(_mm256_andnot_si256(mask, code), 8));
    half =
        _mm256_mask_mov_epi16(half, _mm256_cmpeq_epi16_mask(size, mask), _mm256_set1_epi16(0x7e00));
    return of_ps(_mm512_cvtph_ps(half));
}

INLINE pair of_epi32(__m512i x)
{
    return (pair){_mm512_cvtepi32_pd(_mm512_castsi512_si256(x)),
                  _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(x, 1))};
}

INLINE pair of_int8(const unsigned char *at)
{
    return of_epi32(_mm512_cvtepi8_epi32(bytes16(at)));
}

INLINE pair of_uint8(const unsigned char *at)
{
    return of_epi32(_mm512_cvtepu8_epi32(bytes16(at)));
}

/* Looks up sixteen four-bit codes, each shifted to the place of a table index. */
INLINE pair of_table(const unsigned char *at, __m512d first, __m512d second)
{
    long long word;
    memcpy(&word, at, sizeof word);
    const __m512i all = _mm512_set1_epi64(word);
    const __m512i low = _mm512_setr_epi64(0, 4, 8, 12, 16, 20, 24, 28);
    const __m512i high = _mm512_setr_epi64(32, 36, 40, 44, 48, 52, 56, 60);
    return (pair){_mm512_permutex2var_pd(first, _mm512_srlv_epi64(all, low), second),
                  _mm512_permutex2var_pd(first, _mm512_srlv_epi64(all, high), second)};
}

INLINE pair of_e2m1(const unsigned char *at)
{
    return of_table(at, _mm512_setr_pd(0, 0.5, 1, 1.5, 2, 3, 4, 6),
                    _mm512_setr_pd(-0.0, -0.5, -1, -1.5, -2, -3, -4, -6));
}

INLINE pair of_uint4(const unsigned char *at)
{
    return of_table(at, _mm512_setr_pd(0, 1, 2, 3, 4, 5, 6, 7),
                    _mm512_setr_pd(8, 9, 10, 11, 12, 13, 14, 15));
}

INLINE pair of_int4(const unsigned char *at)
{
    return of_table(at, _mm512_setr_pd(0, 1, 2, 3, 4, 5, 6, 7),
                    _mm512_setr_pd(-8, -7, -6, -5, -4, -3, -2, -1));
}

/* Stores the first `left` of sixteen values and adds their squares. */
INLINE pair put(pair squares, pair x, size_t left, double *values)
{
    const __mmask16 mask = first_of(left);
    x.low = _mm512_maskz_mov_pd((__mmask8)mask, x.low);
    x.high = _mm512_maskz_mov_pd((__mmask8)(mask >> 8), x.high);
    _mm512_storeu_pd(values, x.low);
    _mm512_storeu_pd(values + 8, x.high);
    return (pair){_mm512_fmadd_pd(x.low, x.low, squares.low),
                  _mm512_fmadd_pd(x.high, x.high, squares.high)};
}

INLINE pair scaled(pair x, __m512d scale)
{
    return (pair){_mm512_mul_pd(x.low, scale), _mm512_mul_pd(x.high, scale)};
}

INLINE pair shifted(pair x, __m512d zero)
{
    return (pair){_mm512_sub_pd(x.low, zero), _mm512_sub_pd(x.high, zero)};
}

/* Decodes columns i to `end` of a row of codes of `bits` bits: `of` reads sixteen codes, and `with`
 * multiplies them. The last codes are read from a copy, so that no byte past the row is read. */
#define RUN(bits, of, with)                                                                        \
    for (; i + STEP <= end; i += STEP)                                                             \
        squares = put(squares, with(of(codes + i / 8 * (bits))), STEP, values + i);                \
    if (i < end) {                                                                                 \
        unsigned char rest[STEP * 4] = {0};                                                        \
        memcpy(rest, codes + i / 8 * (bits), ((end - i) * (bits) + 7) / 8);                        \
        squares = put(squares, with(of(rest)), end - i, values + i);                               \
        i = end;                                                                                   \
    }

#define PLAIN(x) (x)
#define SCALED(x) scaled(x, scale)
#define SHIFTED(x) scaled(shifted(x, zero), scale)

/* A kernel for codes without scales. */
#define WIDEN_PLAIN(name, bits, of)                                                                \
    AVX512 static double name(const sb_row_codes *w, size_t first, size_t end, double *values)     \
    {                                                                                              \
        const unsigned char *codes = w->codes + first / 8 * (bits);                                \
        pair squares = {_mm512_setzero_pd(), _mm512_setzero_pd()};                                 \
        size_t i = 0;                                                                              \
        RUN(bits, of, PLAIN)                                                                       \
        return _mm512_reduce_add_pd(_mm512_add_pd(squares.low, squares.high));                     \
    }
WIDEN_PLAIN(widen_f32, 32, of_f32s)
WIDEN_PLAIN(widen_bf16, 16, of_bf16s)
WIDEN_PLAIN(widen_f16, 16, of_f16s)

/* A kernel for codes with scales; `of` returns values divided by `unit`. */
#define WIDEN(name, bits, of, unit)                                                                \
    AVX512 static double name(const sb_row_codes *w, size_t first, size_t n, double *values)       \
    {                                                                                              \
        const unsigned char *codes = w->codes + first / 8 * (bits);                                \
        pair squares = {_mm512_setzero_pd(), _mm512_setzero_pd()};                                 \
        size_t i = 0, g = first / w->group, next = (g + 1) * w->group - first;                     \
        for (; i < n; g++, next += w->group) {                                                     \
            const size_t end = next < n ? next : n;                                                \
            const __m512d scale = _mm512_set1_pd((w->scales ? w->scales[g] : 1) * (unit));         \
            if (w->zeros) {                                                                        \
                const __m512d zero = _mm512_set1_pd(w->zeros[g]);                                  \
                RUN(bits, of, SHIFTED)                                                             \
            } else {                                                                               \
                RUN(bits, of, SCALED)                                                              \
            }                                                                                      \
        }                                                                                          \
        return _mm512_reduce_add_pd(_mm512_add_pd(squares.low, squares.high));                     \
    }
WIDEN(widen_e4m3, 8, of_e4m3, 256)
WIDEN(widen_int8, 8, of_int8, 1)
WIDEN(widen_uint8, 8, of_uint8, 1)
WIDEN(widen_groups_e2m1, 4, of_e2m1, 1)
WIDEN(widen_int4, 4, of_int4, 1)
WIDEN(widen_uint4, 4, of_uint4, 1)

/* The kernel for E2M1. One scale per sixteen columns, as in NVFP4 files, needs no loop for each
 * group. */
AVX512 static double widen_e2m1(const sb_row_codes *w, size_t first, size_t n, double *values)
{
    if (w->group != STEP || !w->scales || w->zeros || n % STEP)
        return widen_groups_e2m1(w, first, n, values);
    const unsigned char *codes = w->codes + first / 2;
    const double *scales = w->scales + first / STEP;
    pair squares = {_mm512_setzero_pd(), _mm512_setzero_pd()};
    for (size_t i = 0; i < n; i += STEP) {
        const __m512d scale = _mm512_set1_pd(scales[i / STEP]);
        squares = put(squares, scaled(of_e2m1(codes + i / 2), scale), STEP, values + i);
    }
    return _mm512_reduce_add_pd(_mm512_add_pd(squares.low, squares.high));
}

/* sb_tile_round for eight rows at a time. */
AVX512 static int round8(const double *sums, const double *bounds, double size,
                         sb_tile_factor factor, size_t n, float *out, unsigned char *open)
{
    const __m512d mul = _mm512_set1_pd(factor.mul), div = _mm512_set1_pd(factor.div);
    unsigned any = 0;
    for (size_t r = 0; r < n; r += LANES) {
        const __mmask8 mask = (__mmask8)(n - r < LANES ? (1u << (n - r)) - 1 : 0xffu);
        const __m512d sum = _mm512_maskz_loadu_pd(mask, sums + r);
        const __m512d value = _mm512_div_pd(_mm512_mul_pd(sum, mul), div);
        const __m512d bound = _mm512_add_pd(
            _mm512_mul_pd(_mm512_maskz_loadu_pd(mask, bounds + r), _mm512_set1_pd(size)),
            _mm512_mul_pd(_mm512_abs_pd(value), _mm512_set1_pd(0x1p-52)));
        const __m256 low = _mm512_cvtpd_ps(_mm512_sub_pd(value, bound));
        const __m256 high = _mm512_cvtpd_ps(_mm512_add_pd(value, bound));
        const __mmask8 certain = _mm256_mask_cmpeq_epi32_mask(
            _mm512_cmp_pd_mask(bound, _mm512_set1_pd(0x1p1000), _CMP_LT_OQ),
            _mm256_castps_si256(low), _mm256_castps_si256(high));
        const unsigned left = (unsigned)mask & ~(unsigned)certain;
        _mm256_mask_storeu_ps(out + r, mask, low);
        _mm_mask_storeu_epi8(open + r, mask, _mm_maskz_set1_epi8((__mmask16)left, 1));
        any |= left;
    }
    return any != 0;
}

const sb_tile_kernels sb_tile_avx512 = {
    LANES,
    INPUTS,
    multiply,
    round8,
    {[SB_FORMAT_f32] = widen_f32,
     [SB_FORMAT_bf16] = widen_bf16,
     [SB_FORMAT_f16] = widen_f16,
     [SB_FORMAT_e4m3] = widen_e4m3,
     [SB_FORMAT_int8] = widen_int8,
     [SB_FORMAT_uint8] = widen_uint8,
     [SB_FORMAT_e2m1] = widen_e2m1,
     [SB_FORMAT_int4] = widen_int4,
     [SB_FORMAT_uint4] = widen_uint4},
    {[SB_FORMAT_e4m3] = sb_avx512_bf16_e4m3, [SB_FORMAT_e2m1] = sb_avx512_bf16_e2m1},
    sb_avx512_pick,
};

#endif
