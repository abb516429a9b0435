/* avx2_fixed.c - rows of E2M1 with inputs in fixed point (fixed.h). Sums of eight byte products fit
 * into 16 bits. */
#include "ref/fast/dot/kernels.h"

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)

#include <string.h>

#include "ref/fast/simd/avx2.h"
#include "ref/fast/simd/fixed.h"

enum { DIGITS = SB_FIXED_DIGITS, GROUP = SB_FIXED_GROUP, GROUPS = SB_ROW_BLOCK / GROUP };

/* The content of sb_row_input.lanes for a block. A group has eight bytes of codes and one
 * doubleword of each array of digits. The doublewords are in the order of groups 0, 1, 4, 5, 2, 3,
 * 6, 7, because a shuffle within 128-bit lanes puts the halves of their codes in this order. */
typedef struct fixed_block {
    /* indices: digit, lowest first; half of the group, four bytes each; low or high nibbles */
    int8_t digits[DIGITS][2][2][32];
    /* for the lower and the upper three digits: 2^31 - 12 times their sum */
    uint32_t start[2][GROUPS];
    double unit[GROUPS]; /* unit of products, in group order: u / 2 * SB_FIXED_UNIT */
    double size[GROUPS]; /* magnitude times SB_FIXED_UNIT: see sb_fixed_spread() */
    double sizes;        /* in the first block: the sum of all sizes */
    uint64_t lowest;     /* the number of lowest digits that are 0 everywhere, 0 to 3 */
} fixed_block;

_Static_assert(sizeof(fixed_block) <= SB_ROW_BLOCK * sizeof(double), "a block has no more room");

INLINE __m256i load(const void *at)
{
    return _mm256_load_si256(at);
}

INLINE __m256d absolute(__m256d x)
{
    return _mm256_andnot_pd(_mm256_set1_pd(-0.0), x);
}

/* The sum of four lanes. */
INLINE double added_up(__m256d x)
{
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

/* Rounds four numbers to integer multiples of the unit: adding 1.5 * 2^52 moves the integer to the
 * low bits. */
INLINE __m256i whole(const double *x, __m256d units, __m256d *errors)
{
    const __m256d by = _mm256_set1_pd(0x1.8p52), exact = _mm256_mul_pd(_mm256_load_pd(x), units);
    const __m256d shifted = _mm256_add_pd(exact, by);
    *errors = _mm256_add_pd(*errors, absolute(_mm256_sub_pd(exact, _mm256_sub_pd(shifted, by))));
    return _mm256_sub_epi64(_mm256_castpd_si256(shifted), _mm256_castpd_si256(by));
}

/* The digits of a group, one doubleword per digit, lowest first. Indices: half of the group (four
 * bytes of codes); low or high nibbles. */
typedef struct group_digits {
    __m128i lower[2][2], upper[2][2]; /* the lower four digits, and the upper two */
} group_digits;

/* Splits four numbers into digits. After 128 is added to each digit, the digits are unsigned and
 * are the bytes of the number. `numbers` has numbers 0 and 2 in the lower half, 1 and 3 in the
 * upper. Adds to *sums the number formed by the lower three digits and, times 2^32, the number
 * formed by the upper three digits, both with the added 128s. */
INLINE void digits_of(__m256i numbers, __m128i *lower, __m128i *upper, __m256i *sums)
{
    const __m256i added = _mm256_set1_epi64x((int64_t)0x808080808080);
    const __m256i biased = _mm256_add_epi64(numbers, added);
    const __m256i bytes = _mm256_xor_si256(biased, _mm256_set1_epi8(-128));
    const __m128i a = _mm256_castsi256_si128(bytes), b = _mm256_extracti128_si256(bytes, 1);
    const __m128i first = _mm_unpacklo_epi8(a, b), second = _mm_unpackhi_epi8(a, b);
    *lower = _mm_unpacklo_epi16(first, second);
    *upper = _mm_unpackhi_epi16(first, second);
    *sums = _mm256_add_epi64(*sums, _mm256_and_si256(biased, _mm256_set1_epi64x(0xffffff)));
    *sums = _mm256_add_epi64(*sums, _mm256_slli_epi64(_mm256_srli_epi64(biased, 24), 32));
}

/* Writes start, unit and size of group g to the block, and its digits to *digits. ORs all numbers
 * into *any. */
INLINE void write_group(const double *x, double spread, size_t g, size_t slot, fixed_block *to,
                        group_digits *digits, __m256i *any)
{
    __m256d most = _mm256_setzero_pd(), all = most, errors = most;
    __m256i sums = _mm256_setzero_si256();
    for (size_t i = 0; i < GROUP; i += 4) {
        most = _mm256_max_pd(most, absolute(_mm256_load_pd(x + i)));
        all = _mm256_add_pd(all, absolute(_mm256_load_pd(x + i)));
    }
    most = _mm256_max_pd(most, _mm256_permute2f128_pd(most, most, 1));
    most = _mm256_max_pd(most, _mm256_permute_pd(most, 5));
    const double size = added_up(all), top = sb_fixed_top(_mm256_cvtsd_f64(most), size);
    const __m256d units = _mm256_set1_pd(top > 0 ? 0x1p47 / top : 0);
    for (size_t h = 0; h < 2; h++) {
        const __m256i a = whole(x + 8 * h, units, &errors),
                      b = whole(x + 8 * h + 4, units, &errors);
        *any = _mm256_or_si256(*any, _mm256_or_si256(a, b));
        digits_of(_mm256_unpacklo_epi64(a, b), &digits->lower[h][0], &digits->upper[h][0], &sums);
        digits_of(_mm256_unpackhi_epi64(a, b), &digits->lower[h][1], &digits->upper[h][1], &sums);
    }
    __m128i two = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    two = _mm_add_epi64(two, _mm_unpackhi_epi64(two, two));
    for (int i = 0; i < 2; i++) {
        const uint32_t sum = (uint32_t)(i ? _mm_extract_epi32(two, 1) : _mm_cvtsi128_si32(two));
        to->start[i][slot] = 0x80000000u - SB_FIXED_CODE * (sum - GROUP * 0x808080u);
    }
    to->unit[g] = top * (0x1p-48 * SB_FIXED_UNIT);
    to->size[g] = (size + spread * (added_up(errors) * (top * 0x1p-47))) * SB_FIXED_UNIT;
}

/* Writes the digits of four groups in the order of the kernels. */
INLINE void write_digits(const group_digits from[4], size_t slot, fixed_block *to)
{
    for (size_t i = 0; i < 4; i++) {
        const size_t h = i / 2, p = i % 2;
        const __m128i *const a = &from[0].lower[h][p], *const b = &from[1].lower[h][p];
        const __m128i *const c = &from[2].lower[h][p], *const d = &from[3].lower[h][p];
        const __m128i low[2] = {_mm_unpacklo_epi32(*a, *b), _mm_unpacklo_epi32(*c, *d)};
        const __m128i mid[2] = {_mm_unpackhi_epi32(*a, *b), _mm_unpackhi_epi32(*c, *d)};
        const __m128i high[2] = {_mm_unpacklo_epi32(from[0].upper[h][p], from[1].upper[h][p]),
                                 _mm_unpacklo_epi32(from[2].upper[h][p], from[3].upper[h][p])};
        const __m128i digits[DIGITS] = {
            _mm_unpacklo_epi64(low[0], low[1]),   _mm_unpackhi_epi64(low[0], low[1]),
            _mm_unpacklo_epi64(mid[0], mid[1]),   _mm_unpackhi_epi64(mid[0], mid[1]),
            _mm_unpacklo_epi64(high[0], high[1]), _mm_unpackhi_epi64(high[0], high[1])};
        for (size_t k = 0; k < DIGITS; k++)
            _mm_store_si128((void *)(to->digits[k][h][p] + 4 * slot), digits[k]);
    }
}

INLINE uint64_t joined_bits(__m256i any)
{
    uint64_t lanes[4];
    _mm256_storeu_si256((__m256i *)(void *)lanes, any);
    return lanes[0] | lanes[1] | lanes[2] | lanes[3];
}

AVX2 void sb_avx2_arrange_fixed(const double *x, size_t n, double *lanes)
{
    static const unsigned char groups[GROUPS] = {0, 1, 4, 5, 2, 3, 6, 7};
    const double spread = sb_fixed_spread(n);
    __m256d sizes = _mm256_setzero_pd();
    for (size_t i = 0; i < n; i += SB_ROW_BLOCK) {
        fixed_block *to = (fixed_block *)(void *)(lanes + i);
        __m256i any = _mm256_setzero_si256();
        for (size_t slot = 0; slot < GROUPS; slot += 4) {
            group_digits digits[4];
            for (size_t k = 0; k < 4; k++) {
                const size_t g = groups[slot + k];
                write_group(x + i + g * GROUP, spread, g, slot + k, to, &digits[k], &any);
            }
            write_digits(digits, slot, to);
        }
        sizes = _mm256_add_pd(
            sizes, _mm256_add_pd(_mm256_load_pd(to->size), _mm256_load_pd(to->size + 4)));
        to->lowest = (uint64_t)sb_fixed_lowest(joined_bits(any));
    }
    if (n > 0)
        ((fixed_block *)(void *)lanes)->sizes = added_up(sizes);
}

/* Loads 32 bytes. Bytes after the first `left` are zero and are not read. */
INLINE __m256i load_end(const unsigned char *at, size_t left)
{
    unsigned char bytes[32];
    if (left >= sizeof bytes)
        return _mm256_loadu_si256((const __m256i *)(const void *)at);
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, at, left);
    return _mm256_loadu_si256((const __m256i *)(const void *)bytes);
}

AVX2 int sb_avx2_reads_scales(const unsigned char *codes, size_t n)
{
    const __m256i least = _mm256_set1_epi8(7), past = _mm256_set1_epi8(0x7f);
    __m256i bad = _mm256_setzero_si256();
    for (size_t i = 0; i < n; i += 32) {
        const __m256i some = load_end(codes + i, n - i);
        const __m256i small = _mm256_cmpeq_epi8(_mm256_min_epu8(some, least), some);
        const __m256i zero = _mm256_cmpeq_epi8(some, _mm256_setzero_si256());
        bad = _mm256_or_si256(bad, _mm256_cmpeq_epi8(_mm256_max_epu8(some, past), some));
        bad = _mm256_or_si256(bad, _mm256_andnot_si256(zero, small));
    }
    return _mm256_testz_si256(bad, bad);
}

/* Codes + 12 of a block. Indices: half of each group; low or high nibbles. */
typedef struct halves {
    __m256i at[2][2];
} halves;

INLINE halves halves_of(__m256i first, __m256i second)
{
    const __m256i values = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m256i mask = _mm256_set1_epi8(15);
    const __m256 a = _mm256_castsi256_ps(first), b = _mm256_castsi256_ps(second);
    const __m256i half[2] = {_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88)),
                             _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd))};
    halves codes;
    for (int h = 0; h < 2; h++) {
        const __m256i high = _mm256_srli_epi16(half[h], 4);
        codes.at[h][0] = _mm256_shuffle_epi8(values, _mm256_and_si256(half[h], mask));
        codes.at[h][1] = _mm256_shuffle_epi8(values, _mm256_and_si256(high, mask));
    }
    return codes;
}

/* The sums of each group, in doublewords, plus 2^31, for the lower or the upper three digits.
 * Without the added 12 the sums are below 16 * 12 * 2^23 < 2^31. Sums of eight products are below
 * 8 * 24 * 128 < 2^15. The lowest `lowest` digits (a constant) are 0. */
INLINE __m256i by_digits(const halves *codes, const fixed_block *x, int upper, int lowest)
{
    __m256i sum = load(x->start[upper]);
#pragma GCC unroll 3
    for (int d = 0; d < 3; d++) {
        if (3 * upper + d < lowest)
            continue;
        const int8_t(*digits)[2][32] = x->digits[3 * upper + d];
        const __m256i eight = _mm256_add_epi16(
            _mm256_add_epi16(_mm256_maddubs_epi16(codes->at[0][0], load(digits[0][0])),
                             _mm256_maddubs_epi16(codes->at[0][1], load(digits[0][1]))),
            _mm256_add_epi16(_mm256_maddubs_epi16(codes->at[1][0], load(digits[1][0])),
                             _mm256_maddubs_epi16(codes->at[1][1], load(digits[1][1]))));
        __m256i all = _mm256_madd_epi16(eight, _mm256_set1_epi16(d == 1 ? 256 : 1));
        if (d == 2)
            all = _mm256_slli_epi32(all, 16);
        sum = _mm256_add_epi32(sum, all);
    }
    return sum;
}

/* Joins the lower and the upper sum of each of four groups. As the low bits of 2^52 and of 2^76,
 * the sums become binary64 numbers. The numbers 2^31 + 2^52 and 2^24 (2^31 + 2^52), which this adds
 * to them, are subtracted exactly. */
INLINE __m256d joined(__m256i lower, __m256i upper)
{
    const __m256d added = _mm256_set1_pd(0x1p76 + 0x1p55 + 0x1p52 + 0x1p31);
    return _mm256_add_pd(_mm256_sub_pd(_mm256_castsi256_pd(upper), added),
                         _mm256_castsi256_pd(lower));
}

/* The sums of groups 0 to 3, and of groups 4 to 7. */
INLINE void sums_of_groups(const halves *codes, const fixed_block *x, int lowest, __m256d to[2])
{
    const __m256i low = _mm256_set1_epi32((1023 + 52) << 20);
    const __m256i high = _mm256_set1_epi32((1023 + 76) << 20);
    const __m256i upper = by_digits(codes, x, 1, lowest);
    if (lowest == 3) { /* the lower digits are 0 */
        const __m256d added = _mm256_set1_pd(0x1p76 + 0x1p55);
        to[0] = _mm256_sub_pd(_mm256_castsi256_pd(_mm256_unpacklo_epi32(upper, high)), added);
        to[1] = _mm256_sub_pd(_mm256_castsi256_pd(_mm256_unpackhi_epi32(upper, high)), added);
        return;
    }
    const __m256i lower = by_digits(codes, x, 0, lowest);
    to[0] = joined(_mm256_unpacklo_epi32(lower, low), _mm256_unpacklo_epi32(upper, high));
    to[1] = joined(_mm256_unpackhi_epi32(lower, low), _mm256_unpackhi_epi32(upper, high));
}

/* The sums of a row, one lane per group: [0] for groups 0 to 3 of all blocks, [1] for groups 4 to
 * 7. With coded scales, magnitude is not used. */
typedef struct row_sums {
    __m256d sum[2], magnitude[2];
} row_sums;

/* A block of a row. Coded scales are stored as 2^-1016 of their values. Columns past the end of the
 * row are 0, and their memory is not read. `whole` (a constant): the block is complete. */
typedef struct opened {
    halves codes;
    __m256d scale[2];
} opened;

INLINE void coded_scales(const sb_row_codes *w, size_t i, int whole, __m256d to[2])
{
    const unsigned char *at = w->scale_codes + i / GROUP;
    const __m128i codes =
        whole ? _mm_loadl_epi64((const __m128i *)(const void *)at)
              : _mm256_castsi256_si128(load_end(at, (w->n - i + GROUP - 1) / GROUP));
    const __m256i four[2] = {_mm256_cvtepu8_epi64(codes),
                             _mm256_cvtepu8_epi64(_mm_srli_si128(codes, 4))};
    to[0] = _mm256_castsi256_pd(_mm256_slli_epi64(four[0], 49));
    to[1] = _mm256_castsi256_pd(_mm256_slli_epi64(four[1], 49));
}

INLINE void plain_scales(const sb_row_codes *w, size_t i, int whole, __m256d to[2])
{
    double scales[GROUPS];
    if (whole && w->group == GROUP) {
        to[0] = _mm256_loadu_pd(w->scales + i / GROUP);
        to[1] = _mm256_loadu_pd(w->scales + i / GROUP + 4);
        return;
    }
    if (whole && w->group == 2 * GROUP) {
        const __m256d four = _mm256_loadu_pd(w->scales + i / w->group);
        to[0] = _mm256_permute4x64_pd(four, 0x50); /* 0 0 1 1 */
        to[1] = _mm256_permute4x64_pd(four, 0xfa); /* 2 2 3 3 */
        return;
    }
    for (size_t g = 0; g < GROUPS; g++)
        scales[g] = i + g * GROUP < w->n ? w->scales[(i + g * GROUP) / w->group] : 0;
    to[0] = _mm256_loadu_pd(scales);
    to[1] = _mm256_loadu_pd(scales + 4);
}

INLINE void open_block(const sb_row_codes *w, size_t i, int coded, int whole, opened *to)
{
    const unsigned char *from = w->codes + i / 2;
    const size_t bytes = whole ? SB_ROW_BLOCK / 2 : (w->n - i + 1) / 2;
    sb_avx2_fetch(from);
    to->codes = halves_of(load_end(from, bytes), load_end(from + 32, bytes > 32 ? bytes - 32 : 0));
    if (coded)
        coded_scales(w, i, whole, to->scale);
    else
        plain_scales(w, i, whole, to->scale);
}

/* Multiplies a block with an input. */
INLINE void add_digits(row_sums *to, const opened *w, int coded, int lowest, const fixed_block *in)
{
    __m256d groups[2];
    sums_of_groups(&w->codes, in, lowest, groups);
    for (size_t b = 0; b < 2; b++) {
        const __m256d unit = _mm256_load_pd(in->unit + 4 * b);
        to->sum[b] = _mm256_fmadd_pd(_mm256_mul_pd(w->scale[b], unit), groups[b], to->sum[b]);
        if (!coded) /* coded scales have no sign */
            to->magnitude[b] =
                _mm256_fmadd_pd(w->scale[b], _mm256_load_pd(in->size + 4 * b), to->magnitude[b]);
    }
}

/* 2^-1016 of the largest coded scale of a row. */
INLINE double largest_scale(const sb_row_codes *w)
{
    const size_t n = (w->n + GROUP - 1) / GROUP;
    __m256i most = _mm256_setzero_si256();
    for (size_t i = 0; i < n; i += 32)
        most = _mm256_max_epu8(most, load_end(w->scale_codes + i, n - i));
    __m128i half = _mm_max_epu8(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    half = _mm_max_epu8(half, _mm_srli_si128(half, 8));
    half = _mm_max_epu8(half, _mm_srli_si128(half, 4));
    half = _mm_max_epu8(half, _mm_srli_si128(half, 2));
    half = _mm_max_epu8(half, _mm_srli_si128(half, 1));
    return sb_f64_from_bits((uint64_t)(_mm_cvtsi128_si32(half) & 0xff) << 49);
}

static const fixed_block *block_of(const sb_row_input *x, size_t i)
{
    return (const fixed_block *)(const void *)(x->lanes + i);
}

INLINE void add_block(row_sums *to, const sb_row_codes *w, const sb_row_input *x, size_t i,
                      int coded, int whole)
{
    const fixed_block *in = block_of(x, i);
    opened row;
    open_block(w, i, coded, whole, &row);
    if (in->lowest == 3)
        add_digits(to, &row, coded, 3, in);
    else if (in->lowest == 2)
        add_digits(to, &row, coded, 2, in);
    else if (in->lowest == 1)
        add_digits(to, &row, coded, 1, in);
    else
        add_digits(to, &row, coded, 0, in);
}

INLINE sb_partial row_of(const sb_row_codes *w, const sb_row_input *x, int coded)
{
    const __m256d none = _mm256_setzero_pd();
    const double part = coded ? SB_FIXED_OF_CODED : SB_FIXED_OF_PLAIN;
    const size_t whole = w->n / SB_ROW_BLOCK * SB_ROW_BLOCK;
    row_sums sums = {{none, none}, {none, none}};
    if (w->n == 0) /* then x has no block */
        return (sb_partial){0, 0};
    for (size_t i = 0; i < whole; i += SB_ROW_BLOCK)
        add_block(&sums, w, x, i, coded, 1);
    if (whole < w->n)
        add_block(&sums, w, x, whole, coded, 0);
    const double sum = added_up(_mm256_add_pd(sums.sum[0], sums.sum[1]));
    const double sixth = coded ? largest_scale(w) * block_of(x, 0)->sizes
                               : added_up(_mm256_add_pd(sums.magnitude[0], sums.magnitude[1]));
    return (sb_partial){sum * part, 6 * sixth * part};
}

AVX2 sb_partial sb_avx2_fixed_e2m1(const sb_row_codes *w, const sb_row_input *x)
{
    return w->scale_codes ? row_of(w, x, 1) : row_of(w, x, 0);
}

#endif
