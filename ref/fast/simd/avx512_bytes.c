#include "ref/fast/dot/kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include "ref/fast/simd/avx512_codes.h"

/* E4M3 as the upper 16 bits of binary64, which can hold all E4M3 values. A code without its sign
 * bit is eeeemmm. Doubled, with 0x40 as the upper byte, it forms the exponent and the fraction of a
 * binary64 that is 2^8 times the value of the code. The subnormal codes 0 to 7 take both bytes from
 * tables instead. */
#define SUBNORMAL_LOW 0x00, 0, 0xe0, 0, 0xf0, 0, 0xf8, 0, 0x00, 0, 0x04, 0, 0x08, 0, 0x0c, 0
#define SUBNORMAL_HIGH 0x00, 0, 0x3f, 0, 0x3f, 0, 0x3f, 0, 0x40, 0, 0x40, 0, 0x40, 0, 0x40, 0
#define UNIT 0x1p-8
static const unsigned char subnormal_low[16] = {SUBNORMAL_LOW};
static const unsigned char subnormal_high[16] = {SUBNORMAL_HIGH};

INLINE __m512i table_of(const unsigned char *bytes)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)bytes));
}

INLINE __mmask64 subnormals_of(__m512i codes)
{
    return _mm512_testn_epi8_mask(codes, _mm512_set1_epi8(0x78));
}

/* Converts 64 codes to words: words[0] has columns 16 l to 16 l + 7, words[1] has columns 16 l + 8
 * to 16 l + 15, l = 0 to 3. Updates each byte of *twice to the maximum with the doubled code
 * without sign. all_normal (a constant): no code is subnormal or zero. */
INLINE void words_of(__m512i codes, int all_normal, __m512i words[2], __m512i *twice)
{
    const __m512i sign = _mm512_set1_epi8((char)0x80);
    const __m512i doubled = _mm512_add_epi8(codes, codes);
    __m512i low = doubled, high = _mm512_set1_epi8(0x40);
    if (!all_normal) {
        const __mmask64 subnormal = subnormals_of(codes);
        low = _mm512_mask_shuffle_epi8(low, subnormal, table_of(subnormal_low), doubled);
        high = _mm512_mask_shuffle_epi8(high, subnormal, table_of(subnormal_high), doubled);
    }
    high = _mm512_ternarylogic_epi64(codes, sign, high, 0x6a); /* codes & sign ^ high */
    *twice = _mm512_max_epu8(*twice, doubled);
    words[0] = _mm512_unpacklo_epi8(low, high);
    words[1] = _mm512_unpackhi_epi8(low, high);
}

/* Word k of each lane, as a binary64. */
INLINE __m512d value_of(__m512i words, int k)
{
    const __m512i second = _mm512_broadcast_i32x4(
        _mm_setr_epi8(-1, -1, -1, -1, -1, -1, 2, 3, -1, -1, -1, -1, -1, -1, 10, 11));
    const __m512i third = _mm512_broadcast_i32x4(
        _mm_setr_epi8(-1, -1, -1, -1, -1, -1, 4, 5, -1, -1, -1, -1, -1, -1, 12, 13));
    const __m512i top = _mm512_set1_epi64((int64_t)0xffff000000000000u);
    switch (k) {
    case 0:
        return _mm512_castsi512_pd(_mm512_slli_epi64(words, 48));
    case 1:
        return _mm512_castsi512_pd(_mm512_shuffle_epi8(words, second));
    case 2:
        return _mm512_castsi512_pd(_mm512_shuffle_epi8(words, third));
    default:
        return _mm512_castsi512_pd(_mm512_and_si512(words, top));
    }
}

/* Writes an input in the order of sums_64(): lane 2 l + h of step 4 p + k has column 16 l + 8 p + 4
 * h + k of 64. */
AVX512 void sb_avx512_arrange_e4m3(const double *x, size_t n, double *lanes)
{
    const size_t end = (n + SB_ROW_BLOCK - 1) / SB_ROW_BLOCK * SB_ROW_BLOCK;
    for (size_t i = 0; i < end; i += 64)
        for (size_t l = 0; l < 8; l++)
            for (size_t step = 0; step < 8; step++)
                lanes[i + 8 * step + l] =
                    x[i + 16 * (l / 2) + 8 * (step / 4) + 4 * (l % 2) + step % 4];
}

/* Computes, by lane, the sums of 64 codes times their inputs, for each of `rows` rows (a
 * constant). */
INLINE void sums_64(const __m512i *codes, size_t rows, int all_normal, const double *lanes,
                    __m512i *twice, __m512d *sums)
{
    __m512i words[2][2];
    __m512d sum[2][2];
#pragma GCC unroll 2
    for (size_t r = 0; r < rows; r++)
        words_of(codes[r], all_normal, words[r], &twice[r]);
#pragma GCC unroll 2
    for (int p = 0; p < 2; p++)
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            const __m512d x = _mm512_load_pd(lanes + 32 * p + 8 * k);
#pragma GCC unroll 2
            for (size_t r = 0; r < rows; r++)
                sum[r][p] = k == 0 ? _mm512_mul_pd(value_of(words[r][p], k), x)
                                   : _mm512_fmadd_pd(value_of(words[r][p], k), x, sum[r][p]);
        }
#pragma GCC unroll 2
    for (size_t r = 0; r < rows; r++)
        sums[r] = _mm512_add_pd(sum[r][0], sum[r][1]);
}

/* For groups smaller than a block: adds lanes 2 l and 2 l + 1 of both halves, so that each lane has
 * the sum of 16 neighbouring columns. */
INLINE __m512d join(__m512d first, __m512d second)
{
    const __m512i even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    const __m512i odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
    return _mm512_add_pd(_mm512_permutex2var_pd(first, even, second),
                         _mm512_permutex2var_pd(first, odd, second));
}

typedef struct byte_sums {
    row_sums of[2];
    __m512i twice[2];
} byte_sums;

/* Adds the block from column i on, for `rows` rows. The block has `here` columns. */
INLINE void add_codes(byte_sums *to, const sb_row_codes *w, size_t rows, grouping g,
                      const sb_row_input *x, size_t i, size_t here)
{
    __m512i codes[2][2];
    __m512d sums[2][2];
    __mmask64 subnormal = 0;
#pragma GCC unroll 2
    for (size_t r = 0; r < rows; r++) {
        const unsigned char *at = w[r].codes + i;
        sb_fetch(at);
        sb_fetch(at + 64);
        codes[0][r] = load_end(at, here);
        codes[1][r] = load_end(at + 64, here > 64 ? here - 64 : 0);
        subnormal |= subnormals_of(codes[0][r]) | subnormals_of(codes[1][r]);
    }
    if (__builtin_expect(subnormal == 0, 1)) {
        sums_64(codes[0], rows, 1, x->lanes + i, to->twice, sums[0]);
        sums_64(codes[1], rows, 1, x->lanes + i + 64, to->twice, sums[1]);
    } else {
        sums_64(codes[0], rows, 0, x->lanes + i, to->twice, sums[0]);
        sums_64(codes[1], rows, 0, x->lanes + i + 64, to->twice, sums[1]);
    }
#pragma GCC unroll 2
    for (size_t r = 0; r < rows; r++) {
        const __m512d sum = g == OTHER_GROUPS ? join(sums[0][r], sums[1][r])
                                              : _mm512_add_pd(sums[0][r], sums[1][r]);
        if (g == WHOLE_ROW)
            to->of[r].sum = _mm512_add_pd(to->of[r].sum, sum);
        else
            add_block(&to->of[r], &w[r], g, x, i, sum, _mm512_set1_pd(448));
    }
}

/* The partial of a row. NaN codes are found in `twice`: the code 0x7f is 0xfe when doubled. */
INLINE sb_partial of_bytes(const row_sums *sums, __m512i twice, const sb_row_codes *w, grouping g,
                           const sb_row_input *x)
{
    sb_partial partial = partial_of(sums);
    if (g == WHOLE_ROW) {
        const double scale = w->scales ? w->scales[0] : 1;
        partial.sum *= scale;
        partial.magnitude = 448 * sb_absolute(scale) * x->size;
    }
    partial.sum *= UNIT;
    if (_mm512_cmpeq_epi8_mask(twice, _mm512_set1_epi8((char)0xfe)))
        partial.sum = sb_f64_from_bits(0x7ff8000000000000u);
    return partial;
}

/* A product passes through these roundings: 1 of the product itself, 4 in sums_64, 1 in join, n /
 * 128 + 1 when blocks are added, 3 when lanes are added, 1 for the scale. */
INLINE void rows_of(const sb_row_codes *w, size_t rows, grouping g, const sb_row_input *x,
                    sb_partial *partials)
{
    const size_t n = w->n, whole = n / SB_ROW_BLOCK * SB_ROW_BLOCK;
    byte_sums sums;
#pragma GCC unroll 2
    for (size_t r = 0; r < rows; r++) {
        sums.of[r] = (row_sums){_mm512_setzero_pd(), _mm512_setzero_pd()};
        sums.twice[r] = _mm512_setzero_si512();
    }
    for (size_t i = 0; i < whole; i += SB_ROW_BLOCK)
        add_codes(&sums, w, rows, g, x, i, SB_ROW_BLOCK);
    if (whole < n)
        add_codes(&sums, w, rows, g, x, whole, n - whole);
#pragma GCC unroll 2
    for (size_t r = 0; r < rows; r++)
        partials[r] = of_bytes(&sums.of[r], sums.twice[r], &w[r], g, x);
}

#define ROWS(rows)                                                                                 \
    switch (grouping_of(w)) {                                                                      \
    case WHOLE_ROW:                                                                                \
        rows_of(w, rows, WHOLE_ROW, x, partials);                                                  \
        break;                                                                                     \
    case BLOCKS:                                                                                   \
        rows_of(w, rows, BLOCKS, x, partials);                                                     \
        break;                                                                                     \
    default:                                                                                       \
        rows_of(w, rows, OTHER_GROUPS, x, partials);                                               \
    }

AVX512 sb_partial sb_avx512_row_e4m3(const sb_row_codes *w, const sb_row_input *x)
{
    sb_partial partials[1];
    ROWS(1)
    return partials[0];
}

AVX512 void sb_avx512_pair_e4m3(const sb_row_codes w[2], const sb_row_input *x,
                                sb_partial partials[2]){ROWS(2)}

/* Decodes sixteen codes at a time; the last step may have fewer codes. */
AVX512 int sb_avx512_scales(const unsigned char *codes, size_t n, double *values)
{
    const __m512 factor = _mm512_set1_ps(256); /* the exponents of binary16 are 8 higher */
    __m128i most = _mm_setzero_si128();
    for (size_t i = 0; i < n; i += STEP) {
        const __mmask16 mask = first_of(n - i);
        const __m128i some = _mm_maskz_loadu_epi8(mask, codes + i);
        const __m256i half = _mm256_slli_epi16(_mm256_cvtepu8_epi16(some), 7);
        const __m512 wide = _mm512_mul_ps(_mm512_cvtph_ps(half), factor);
        most = _mm_max_epu8(most, some);
        _mm512_mask_storeu_pd(values + i, (__mmask8)mask, low(wide));
        _mm512_mask_storeu_pd(values + i + 8, (__mmask8)(mask >> 8), high(wide));
    }
    return _mm_cmplt_epu8_mask(most, _mm_set1_epi8(0x7f)) == 0xffff;
}

#endif
