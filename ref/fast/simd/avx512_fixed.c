#include "ref/fast/dot/kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <string.h>

#include "ref/fast/simd/avx512_codes.h"
#include "ref/fast/simd/fixed.h"

/* Rows of E2M1 with inputs in fixed point: fixed.h. */
#define VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,f16c")))
#define VINLINE VNNI static inline __attribute__((always_inline))

enum { DIGITS = SB_FIXED_DIGITS, PAIR = 2 * SB_ROW_BLOCK, PAIR_GROUPS = 2 * GROUPS };

/* The content of sb_row_input.lanes for a pair of blocks. A group has eight bytes of codes and one
 * doubleword of each array here: doubleword 4 l + 2 b + g is for group 2 l + g of block b. Shuffles
 * within 128-bit lanes put the two halves of the group's codes there. */
typedef struct fixed_pair {
    /* indices: digit, lowest first; half of the group, four bytes each; low or high nibbles */
    int8_t digits[DIGITS][2][2][64];
    uint32_t start[2][PAIR_GROUPS]; /* for the lower and the upper three digits: 2^31 - 12 times
                                       their sum */
    double unit[PAIR_GROUPS];       /* unit of products, in group order: u / 2 * SB_FIXED_UNIT */
    double size[PAIR_GROUPS];       /* magnitude times SB_FIXED_UNIT: see sb_fixed_spread() */
    double sizes;                   /* in the first pair: the sum of all sizes */
    uint64_t lowest;                /* the number of lowest digits that are 0 everywhere, 0 to 3 */
} fixed_pair;

_Static_assert(sizeof(fixed_pair) <= PAIR * sizeof(double), "a pair of blocks has no more room");

AVX512 int sb_avx512_reads_scales(const unsigned char *codes, size_t n)
{
    const __m512i least = _mm512_set1_epi8(8), past = _mm512_set1_epi8(0x7f);
    __mmask64 bad = 0;
    for (size_t i = 0; i < n; i += 64) {
        const __m512i some = load_end(codes + i, n - i);
        bad |= _mm512_cmpge_epu8_mask(some, past) |
               (_mm512_cmplt_epu8_mask(some, least) & _mm512_test_epi8_mask(some, some));
    }
    return bad == 0;
}

/* The operation that reduces the lanes of a vector to one number. */
typedef enum meeting { SUM, SUM_OF_WHOLE, MOST } meeting;

VINLINE __m512i meet(meeting how, __m512i a, __m512i b)
{
    if (how == MOST)
        return _mm512_max_epu64(a, b);
    return how == SUM_OF_WHOLE
               ? _mm512_add_epi64(a, b)
               : _mm512_castpd_si512(_mm512_add_pd(_mm512_castsi512_pd(a), _mm512_castsi512_pd(b)));
}

/* Reduces eight vectors together, each to one lane. This takes three steps, as many as for one
 * vector. */
VINLINE __m512i of_each(const __m512i v[GROUPS], meeting how)
{
    __m512i two[4], four[2];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++)
        two[i] = meet(how, _mm512_unpacklo_epi64(v[2 * i], v[2 * i + 1]),
                      _mm512_unpackhi_epi64(v[2 * i], v[2 * i + 1]));
#pragma GCC unroll 2
    for (size_t i = 0; i < 2; i++)
        four[i] = meet(how, _mm512_shuffle_i64x2(two[2 * i], two[2 * i + 1], 0x88),
                       _mm512_shuffle_i64x2(two[2 * i], two[2 * i + 1], 0xdd));
    return meet(how, _mm512_shuffle_i64x2(four[0], four[1], 0x88),
                _mm512_shuffle_i64x2(four[0], four[1], 0xdd));
}

/* Computes 2^47 u of each of eight groups from the bits of its largest magnitude (see
 * SB_FIXED_ABOVE); 0 if the magnitude is 0. */
VINLINE __m512d tops_of(__m512i most)
{
    const __m512i least = _mm512_castpd_si512(_mm512_set1_pd(SB_FIXED_LEAST));
    const __m512i limit = _mm512_castpd_si512(_mm512_set1_pd(SB_FIXED_LIMIT));
    const __m512i above = _mm512_castpd_si512(
        _mm512_mul_pd(_mm512_castsi512_pd(most), _mm512_set1_pd(SB_FIXED_ABOVE)));
    const __m512i top =
        _mm512_slli_epi64(_mm512_add_epi64(_mm512_srli_epi64(above, 52), _mm512_set1_epi64(1)), 52);
    const __mmask8 fit =
        _mm512_cmplt_epu64_mask(most, limit) & _mm512_cmpge_epu64_mask(most, least);
    const __m512i others =
        _mm512_maskz_set1_epi64(_mm512_test_epi64_mask(most, most), (int64_t)0x7ff8 << 48);
    return _mm512_castsi512_pd(_mm512_mask_mov_epi64(others, fit, top));
}

/* The groups of a block as integer multiples of their units: even columns, odd columns. */
typedef struct whole_block {
    __m512i number[2][GROUPS];
} whole_block;

/* Converts a group to integers, or to zeros if units is 0. Returns the rounding errors. */
VINLINE __m512d whole_numbers(const double *x, double units, __m512i *even, __m512i *odd)
{
    const __mmask8 some = units > 0 ? 0xff : 0;
    __m512d errors = _mm512_setzero_pd();
    for (int o = 0; o < 2; o++) {
        const __m512i which =
            _mm512_add_epi64(_mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), _mm512_set1_epi64(o));
        const __m512d exact = _mm512_maskz_mul_pd(
            some, _mm512_permutex2var_pd(_mm512_load_pd(x), which, _mm512_load_pd(x + 8)),
            _mm512_set1_pd(units));
        const __m512i whole = _mm512_cvtpd_epi64(exact);
        errors =
            _mm512_add_pd(errors, _mm512_abs_pd(_mm512_sub_pd(exact, _mm512_cvtepi64_pd(whole))));
        *(o ? odd : even) = whole;
    }
    return errors;
}

/* Converts a block, and sets unit and size of its groups. Returns the sizes. */
VINLINE __m512d write_block(const double *x, double spread, whole_block *block, double *unit,
                            double *size)
{
    __m512i most[GROUPS], magnitudes[GROUPS], errors[GROUPS];
    double units[GROUPS];
#pragma GCC unroll 8
    for (size_t g = 0; g < GROUPS; g++) {
        const __m512d a = _mm512_abs_pd(_mm512_load_pd(x + g * NEIGHBOURS));
        const __m512d b = _mm512_abs_pd(_mm512_load_pd(x + g * NEIGHBOURS + 8));
        most[g] = _mm512_max_epu64(_mm512_castpd_si512(a), _mm512_castpd_si512(b));
        magnitudes[g] = _mm512_castpd_si512(_mm512_add_pd(a, b));
    }
    const __m512d top = tops_of(of_each(most, MOST));
    const __mmask8 some = _mm512_cmp_pd_mask(top, _mm512_setzero_pd(), _CMP_GT_OQ);
    _mm512_storeu_pd(units, _mm512_maskz_div_pd(some, _mm512_set1_pd(0x1p47), top));
#pragma GCC unroll 8
    for (size_t g = 0; g < GROUPS; g++)
        errors[g] = _mm512_castpd_si512(whole_numbers(x + g * NEIGHBOURS, units[g],
                                                      &block->number[0][g], &block->number[1][g]));
    const __m512d error = _mm512_mul_pd(_mm512_castsi512_pd(of_each(errors, SUM)),
                                        _mm512_mul_pd(top, _mm512_set1_pd(0x1p-47)));
    const __m512d sizes = _mm512_mul_pd(_mm512_add_pd(_mm512_castsi512_pd(of_each(magnitudes, SUM)),
                                                      _mm512_mul_pd(_mm512_set1_pd(spread), error)),
                                        _mm512_set1_pd(SB_FIXED_UNIT));
    _mm512_store_pd(unit, _mm512_mul_pd(top, _mm512_set1_pd(0x1p-48 * SB_FIXED_UNIT)));
    _mm512_store_pd(size, sizes);
    return sizes;
}

/* The digits of eight numbers of a group. After 128 is added to each digit, the digits are unsigned
 * and are the bytes of the numbers. Each 128-bit lane has the digits of two numbers, alternating,
 * lowest first. */
VINLINE __m512i digits_of(__m512i numbers)
{
    const __m512i by_two =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
    const __m512i biased =
        _mm512_add_epi64(numbers, _mm512_set1_epi64(((int64_t)0x8080 << 32) | 0x80808080));
    return _mm512_shuffle_epi8(_mm512_xor_si512(biased, _mm512_set1_epi8(-128)), by_two);
}

/* The digits of groups 4 l to 4 l + 3 of both blocks. Each 128-bit lane has the first or the second
 * halves of four groups. */
VINLINE void digits_of_eight(const whole_block blocks[2], int odd, size_t l, __m512i to[DIGITS])
{
    __m512i low[4], high[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        const __m512i *from = blocks[i / 2].number[odd] + 4 * l + i % 2;
        const __m512i a = digits_of(from[0]), b = digits_of(from[2]);
        const __m512i first = _mm512_shuffle_i32x4(a, b, 0x88);
        const __m512i second = _mm512_shuffle_i32x4(a, b, 0xdd);
        low[i] = _mm512_unpacklo_epi16(first, second);
        high[i] = _mm512_unpackhi_epi16(first, second);
    }
    const __m512i a = _mm512_unpacklo_epi32(low[0], low[1]);
    const __m512i b = _mm512_unpacklo_epi32(low[2], low[3]);
    const __m512i c = _mm512_unpackhi_epi32(low[0], low[1]);
    const __m512i d = _mm512_unpackhi_epi32(low[2], low[3]);
    const __m512i e = _mm512_unpacklo_epi32(high[0], high[1]);
    const __m512i f = _mm512_unpacklo_epi32(high[2], high[3]);
    to[0] = _mm512_unpacklo_epi64(a, b);
    to[1] = _mm512_unpackhi_epi64(a, b);
    to[2] = _mm512_unpacklo_epi64(c, d);
    to[3] = _mm512_unpackhi_epi64(c, d);
    to[4] = _mm512_unpacklo_epi64(e, f);
    to[5] = _mm512_unpackhi_epi64(e, f);
}

VINLINE void write_digits(const whole_block blocks[2], int odd, fixed_pair *to)
{
    __m512i eight[2][DIGITS];
    digits_of_eight(blocks, odd, 0, eight[0]);
    digits_of_eight(blocks, odd, 1, eight[1]);
#pragma GCC unroll 6
    for (size_t d = 0; d < DIGITS; d++) {
        const __m512i first = _mm512_shuffle_i32x4(eight[0][d], eight[1][d], 0x88);
        const __m512i second = _mm512_shuffle_i32x4(eight[0][d], eight[1][d], 0xdd);
        _mm512_store_si512(to->digits[d][0][odd], first);
        _mm512_store_si512(to->digits[d][1][odd], second);
    }
}

/* Returns the lower halves of the lanes of two blocks, as doublewords in the order of
 * fixed_pair. */
VINLINE __m512i in_order(const __m512i of[2])
{
    return _mm512_permutex2var_epi64(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(of[0])),
                                     _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11),
                                     _mm512_castsi256_si512(_mm512_cvtepi64_epi32(of[1])));
}

/* Writes `start` from the sums of the lower and of the upper three digits. */
VINLINE void write_start(const whole_block blocks[2], fixed_pair *to)
{
    const __m512i half = _mm512_set1_epi64(0x808080), top = _mm512_set1_epi32(INT32_MIN);
    const __m512i twelve = _mm512_set1_epi32(SB_FIXED_CODE);
    __m512i all[2], upper[2];
    for (size_t b = 0; b < 2; b++) {
        __m512i sums[GROUPS], uppers[GROUPS];
#pragma GCC unroll 8
        for (size_t g = 0; g < GROUPS; g++) {
            const __m512i even = blocks[b].number[0][g], odd = blocks[b].number[1][g];
            sums[g] = _mm512_add_epi64(even, odd);
            uppers[g] = _mm512_add_epi64(_mm512_srai_epi64(_mm512_add_epi64(even, half), 24),
                                         _mm512_srai_epi64(_mm512_add_epi64(odd, half), 24));
        }
        all[b] = of_each(sums, SUM_OF_WHOLE);
        upper[b] = of_each(uppers, SUM_OF_WHOLE);
    }
    const __m512i high = in_order(upper);
    const __m512i low = _mm512_sub_epi32(in_order(all), _mm512_slli_epi32(high, 24));
    _mm512_store_si512(to->start[0], _mm512_sub_epi32(top, _mm512_mullo_epi32(low, twelve)));
    _mm512_store_si512(to->start[1], _mm512_sub_epi32(top, _mm512_mullo_epi32(high, twelve)));
}

VINLINE uint64_t lowest_of(const whole_block blocks[2])
{
    __m512i all = _mm512_setzero_si512();
#pragma GCC unroll 2
    for (size_t b = 0; b < 2; b++)
#pragma GCC unroll 8
        for (size_t g = 0; g < GROUPS; g++)
            all = _mm512_ternarylogic_epi64(all, blocks[b].number[0][g], blocks[b].number[1][g],
                                            0xfe); /* or */
    return (uint64_t)sb_fixed_lowest((uint64_t)_mm512_reduce_or_epi64(all));
}

/* A group that is not finite, or whose unit would be too small, has the unit NaN. */
VNNI void sb_avx512_arrange_fixed(const double *x, size_t n, double *lanes)
{
    const double spread = sb_fixed_spread(n);
    __m512d sizes = _mm512_setzero_pd();
    for (size_t i = 0; i < n; i += PAIR) {
        fixed_pair *to = (fixed_pair *)(void *)(lanes + i);
        whole_block blocks[2];
        for (size_t b = 0; b < 2; b++)
            sizes = _mm512_add_pd(sizes, write_block(x + i + b * SB_ROW_BLOCK, spread, &blocks[b],
                                                     to->unit + b * GROUPS, to->size + b * GROUPS));
        write_digits(blocks, 0, to);
        write_digits(blocks, 1, to);
        write_start(blocks, to);
        to->lowest = lowest_of(blocks);
    }
    if (n > 0)
        ((fixed_pair *)(void *)lanes)->sizes = _mm512_reduce_add_pd(sizes);
}

/* Codes + 12 of a pair of blocks. Indices: half of each group; low or high nibbles. */
typedef struct halves {
    __m512i at[2][2];
} halves;

VINLINE halves halves_of(__m512i first, __m512i second)
{
    const __m512i values = _mm512_broadcast_i32x4(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m512i mask = _mm512_set1_epi8(15);
    const __m512 a = _mm512_castsi512_ps(first), b = _mm512_castsi512_ps(second);
    const __m512i half[2] = {_mm512_castps_si512(_mm512_shuffle_ps(a, b, 0x88)),
                             _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0xdd))};
    halves codes;
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        codes.at[h][0] = _mm512_shuffle_epi8(values, _mm512_and_si512(half[h], mask));
        codes.at[h][1] =
            _mm512_shuffle_epi8(values, _mm512_and_si512(_mm512_srli_epi16(half[h], 4), mask));
    }
    return codes;
}

/* The sums of each group of `rows` rows, in doublewords, plus 2^31: for the lower three digits, and
 * for the upper three. Without the added 12 the sums are below 16 * 12 * 2^23 < 2^31. The lowest
 * `lowest` digits (a constant) are 0. */
VINLINE void by_digits(const halves *codes, size_t rows, int lowest, const fixed_pair *x,
                       __m512i sums[][2])
{
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++)
        sums[r][0] = sums[r][1] = _mm512_setzero_si512();
#pragma GCC unroll 3
    for (int d = 2; d >= 0; d--)
#pragma GCC unroll 2
        for (int upper = d < lowest ? 1 : 0; upper < 2; upper++) {
            if (d < 2)
#pragma GCC unroll 4
                for (size_t r = 0; r < rows; r++)
                    sums[r][upper] = _mm512_slli_epi32(sums[r][upper], 8);
#pragma GCC unroll 4
            for (int part = 0; part < 4; part++) {
                __m512i digits = _mm512_load_si512(x->digits[3 * upper + d][part / 2][part % 2]);
                if (rows > 1) /* so that the digits are loaded once, not for each product */
                    __asm__("" : "+v"(digits));
#pragma GCC unroll 4
                for (size_t r = 0; r < rows; r++)
                    sums[r][upper] = _mm512_dpbusd_epi32(sums[r][upper],
                                                         codes[r].at[part / 2][part % 2], digits);
            }
        }
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++)
        if (lowest == 1 || lowest == 2) /* replaces the shifts of the skipped steps */
            sums[r][0] = _mm512_slli_epi32(sums[r][0], 8 * (unsigned)lowest);
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int upper = lowest == 3; upper < 2; upper++)
            sums[r][upper] = _mm512_add_epi32(sums[r][upper], _mm512_load_si512(x->start[upper]));
}

/* Joins the lower and the upper sum of each of eight groups. As the low bits of 2^52 and of 2^76,
 * the sums become binary64 numbers. The numbers 2^31 + 2^52 and 2^24 (2^31 + 2^52), which this adds
 * to them, are subtracted exactly. */
VINLINE __m512d joined(__m512i lower, __m512i upper)
{
    const __m512d added = _mm512_set1_pd(0x1p76 + 0x1p55 + 0x1p52 + 0x1p31);
    return _mm512_add_pd(_mm512_sub_pd(_mm512_castsi512_pd(upper), added),
                         _mm512_castsi512_pd(lower));
}

VINLINE void sums_of_groups(const __m512i sums[2], int lowest, __m512d to[2])
{
    const __m512i low = _mm512_set1_epi32((1023 + 52) << 20);
    const __m512i high = _mm512_set1_epi32((1023 + 76) << 20);
    if (lowest == 3) { /* the lower digits are 0 */
        const __m512d added = _mm512_set1_pd(0x1p76 + 0x1p55);
        to[0] = _mm512_sub_pd(_mm512_castsi512_pd(_mm512_unpacklo_epi32(sums[1], high)), added);
        to[1] = _mm512_sub_pd(_mm512_castsi512_pd(_mm512_unpackhi_epi32(sums[1], high)), added);
        return;
    }
    to[0] = joined(_mm512_unpacklo_epi32(sums[0], low), _mm512_unpacklo_epi32(sums[1], high));
    to[1] = joined(_mm512_unpackhi_epi32(sums[0], low), _mm512_unpackhi_epi32(sums[1], high));
}

/* Returns the scales of the eight groups from column i on, or 2^-1016 of the scales if they are
 * coded. Scales past the end of the row are 0; `whole` promises that there are none. */
VINLINE __m512d scales_of(const sb_row_codes *w, int coded, size_t i, int whole)
{
    if (!whole && i >= w->n)
        return _mm512_setzero_pd();
    if (!coded)
        return by_lane(w, OTHER_GROUPS, w->scales, i);
    const size_t left = (w->n - i + NEIGHBOURS - 1) / NEIGHBOURS;
    const unsigned char *at = w->scale_codes + i / NEIGHBOURS;
    const __m128i codes = whole || left >= GROUPS
                              ? _mm_loadl_epi64((const __m128i *)(const void *)at)
                              : _mm_maskz_loadu_epi8((__mmask16)((1u << left) - 1), at);
    return _mm512_castsi512_pd(_mm512_slli_epi64(_mm512_cvtepu8_epi64(codes), 49));
}

/* The pair of blocks from column i on, and the number of its columns that the rows have
 * (`here`). */
typedef struct place {
    const sb_row_codes *w;
    size_t i, here;
} place;

VINLINE __m512d scale_at(const place *at, size_t r, int coded, size_t b)
{
    return scales_of(&at->w[r], coded, at->i + b * SB_ROW_BLOCK, at->here == PAIR);
}

/* The results of scale_at(), kept for many inputs. */
typedef struct opened_scales {
    __m512d scale[2];
} opened_scales;

/* Multiplies the codes of `rows` rows with an input. opened: the scales of each row, or NULL. */
VINLINE void add_codes(row_sums *to, const place *at, const halves *codes,
                       const opened_scales *opened, size_t rows, int coded, int lowest,
                       const fixed_pair *in)
{
    __m512i sums[SB_SMALL_GEMM_ROWS][2];
    by_digits(codes, rows, lowest, in, sums);
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) {
        __m512d groups[2];
        sums_of_groups(sums[r], lowest, groups);
#pragma GCC unroll 2
        for (size_t b = 0; b < 2; b++) {
            const __m512d scale = opened ? opened[r].scale[b] : scale_at(at, r, coded, b);
            to[r].sum = _mm512_fmadd_pd(_mm512_mul_pd(scale, _mm512_load_pd(in->unit + b * GROUPS)),
                                        groups[b], to[r].sum);
            if (!coded)
                to[r].magnitude = _mm512_fmadd_pd(
                    _mm512_abs_pd(scale), _mm512_load_pd(in->size + b * GROUPS), to[r].magnitude);
        }
    }
}

VINLINE void add_input(row_sums *to, const place *at, const halves *codes,
                       const opened_scales *opened, size_t rows, int coded, const sb_row_input *x)
{
    const fixed_pair *in = (const fixed_pair *)(const void *)(x->lanes + at->i);
    if (in->lowest == 3)
        add_codes(to, at, codes, opened, rows, coded, 3, in);
    else if (in->lowest == 2)
        add_codes(to, at, codes, opened, rows, coded, 2, in);
    else if (in->lowest == 1)
        add_codes(to, at, codes, opened, rows, coded, 1, in);
    else
        add_codes(to, at, codes, opened, rows, coded, 0, in);
}

VINLINE void read_codes(const place *at, size_t rows, halves *codes)
{
    const size_t bytes = (at->here + 1) / 2, more = bytes > 64 ? bytes - 64 : 0;
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) {
        const unsigned char *from = at->w[r].codes + at->i / 2;
        sb_fetch(from);
        sb_fetch(from + 64);
        codes[r] = halves_of(load_end(from, bytes), load_end(from + 64, more));
    }
}

VINLINE void add_pair(row_sums *to, const sb_row_codes *w, size_t rows, int coded,
                      const sb_row_input *x, size_t i, size_t here)
{
    const place at = {w, i, here};
    halves codes[2];
    read_codes(&at, rows, codes);
    add_input(to, &at, codes, NULL, rows, coded, x);
}

/* Returns the sum of the lanes of a and the sum of the lanes of b. */
VINLINE __m128d added_up(__m512d a, __m512d b)
{
    const __m512d both = _mm512_add_pd(_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
    const __m256d half =
        _mm256_add_pd(_mm512_castpd512_pd256(both), _mm512_extractf64x4_pd(both, 1));
    return _mm_add_pd(_mm256_castpd256_pd128(half), _mm256_extractf128_pd(half, 1));
}

/* Returns 16 bytes whose maximum is the largest coded scale of a row. */
VINLINE __m128i largest_by_byte(const sb_row_codes *w)
{
    const size_t n = (w->n + NEIGHBOURS - 1) / NEIGHBOURS;
    __m512i most = _mm512_setzero_si512();
    for (size_t i = 0; i < n; i += 64)
        most = _mm512_max_epu8(most, load_end(w->scale_codes + i, n - i));
    const __m256i half =
        _mm256_max_epu8(_mm512_castsi512_si256(most), _mm512_extracti64x4_epi64(most, 1));
    return _mm_max_epu8(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/* 2^-1016 of the largest coded scale of each row. */
VINLINE __m128d largest_scales(const sb_row_codes *w, size_t rows)
{
    const __m128i a = largest_by_byte(&w[0]), b = rows > 1 ? largest_by_byte(&w[1]) : a;
    __m128i most = _mm_max_epu8(_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b));
    most = _mm_max_epu8(most, _mm_srli_epi64(most, 32));
    most = _mm_max_epu8(most, _mm_srli_epi64(most, 16));
    most = _mm_max_epu8(most, _mm_srli_epi64(most, 8));
    return _mm_castsi128_pd(_mm_slli_epi64(_mm_and_si128(most, _mm_set1_epi64x(0xff)), 49));
}

VINLINE void fixed_rows(const sb_row_codes *w, size_t rows, int coded, const sb_row_input *x,
                        sb_partial *partials)
{
    const size_t whole = w->n / PAIR * PAIR;
    if (w->n == 0) { /* then x has no pair */
        for (size_t r = 0; r < rows; r++)
            partials[r] = (sb_partial){0, 0};
        return;
    }
    row_sums sums[2];
#pragma GCC unroll 2
    for (size_t r = 0; r < rows; r++) {
        if (coded)
            fetch_scales(&w[r]);
        sums[r] = (row_sums){_mm512_setzero_pd(), _mm512_setzero_pd()};
    }
    for (size_t i = 0; i < whole; i += PAIR)
        add_pair(sums, w, rows, coded, x, i, PAIR);
    if (whole < w->n)
        add_pair(sums, w, rows, coded, x, whole, w->n - whole);
    const __m128d part = _mm_set1_pd(coded ? SB_FIXED_OF_CODED : SB_FIXED_OF_PLAIN);
    const __m128d sum = _mm_mul_pd(added_up(sums[0].sum, sums[rows - 1].sum), part);
    const __m128d sizes = _mm_set1_pd(((const fixed_pair *)(const void *)x->lanes)->sizes);
    const __m128d sixth = coded ? _mm_mul_pd(largest_scales(w, rows), sizes)
                                : added_up(sums[0].magnitude, sums[rows - 1].magnitude);
    const __m128d magnitude = _mm_mul_pd(_mm_mul_pd(_mm_set1_pd(6), sixth), part);
    _mm_storeu_pd(&partials[0].sum, _mm_unpacklo_pd(sum, magnitude));
    if (rows > 1)
        _mm_storeu_pd(&partials[1].sum, _mm_unpackhi_pd(sum, magnitude));
}

VNNI sb_partial sb_avx512_fixed_e2m1(const sb_row_codes *w, const sb_row_input *x)
{
    sb_partial partial;
    if (w->scale_codes)
        fixed_rows(w, 1, 1, x, &partial);
    else
        fixed_rows(w, 1, 0, x, &partial);
    return partial;
}

VNNI void sb_avx512_fixed_pair_e2m1(const sb_row_codes w[2], const sb_row_input *x,
                                    sb_partial partials[2])
{
    if (w->scale_codes)
        fixed_rows(w, 2, 1, x, partials);
    else
        fixed_rows(w, 2, 0, x, partials);
}

/* The number of rows with coded scales that are multiplied with many inputs together. The codes
 * stay in registers, the sums do not. */
enum { ROWS = SB_SMALL_GEMM_ROWS };

VINLINE void add_many(row_sums (*to)[ROWS], const sb_row_codes *w, const sb_row_input *x,
                      size_t inputs, size_t i, size_t here)
{
    const place at = {w, i, here};
    halves codes[ROWS];
    opened_scales scales[ROWS];
    read_codes(&at, ROWS, codes);
#pragma GCC unroll 4
    for (size_t r = 0; r < ROWS; r++)
#pragma GCC unroll 2
        for (size_t b = 0; b < 2; b++)
            scales[r].scale[b] = scale_at(&at, r, 1, b);
    for (size_t t = 0; t < inputs; t++)
        add_input(to[t], &at, codes, scales, ROWS, 1, x + t);
}

VNNI void sb_avx512_fixed_many_e2m1(const sb_row_codes *w, const sb_row_input *x, size_t inputs,
                                    double *sums, double *magnitudes, size_t stride)
{
    const size_t n = w->n, whole = n / PAIR * PAIR;
    const __m128d part = _mm_set1_pd(SB_FIXED_OF_CODED);
    row_sums all[SB_SMALL_GEMM_INPUTS][ROWS];
    for (size_t r = 0; r < ROWS; r++)
        fetch_scales(&w[r]);
    for (size_t t = 0; t < inputs; t++)
        for (size_t r = 0; r < ROWS; r++)
            all[t][r].sum = _mm512_setzero_pd();
    for (size_t i = 0; i < whole; i += PAIR)
        add_many(all, w, x, inputs, i, PAIR);
    if (whole < n)
        add_many(all, w, x, inputs, whole, n - whole);
    for (size_t r = 0; r < ROWS; r += 2) {
        const __m128d largest = largest_scales(w + r, 2);
        for (size_t t = 0; t < inputs; t++) {
            const __m128d sum = added_up(all[t][r].sum, all[t][r + 1].sum);
            const __m128d sizes =
                _mm_set1_pd(((const fixed_pair *)(const void *)x[t].lanes)->sizes);
            const __m128d magnitude = _mm_mul_pd(_mm_set1_pd(6), _mm_mul_pd(largest, sizes));
            _mm_storeu_pd(sums + t * stride + r, _mm_mul_pd(sum, part));
            _mm_storeu_pd(magnitudes + t * stride + r, _mm_mul_pd(magnitude, part));
        }
    }
}

#endif
