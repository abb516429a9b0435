#include "ref/math/kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <string.h>

#include "ref/math/simd/avx512_codes.h"

/* Rows of E2M1 with an input in fixed point, whose products are integers. The sixteen inputs of a
 * group have a unit u of their own, a power of two, of which they are rounded to whole numbers up
 * to 2^46. Such a number is written as six digits to the base 256, from -128 to 127; a code is a
 * whole number of halves. So the sum of a group is exact in 64 bits but for the inputs' rounding:
 * u/2 each at most. */
#define VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,f16c")))
#define VINLINE VNNI static inline __attribute__((always_inline))

enum { DIGITS = 6, HALF = SB_ROW_BLOCK / 2 };

/* What stands in sb_row_input.lanes for a block: of the codes in the low and in the high halves of
 * bytes, the digits of their inputs, the lowest first; and of each group what it needs. */
typedef struct fixed_block {
    int8_t digits[DIGITS][2][HALF];
    int64_t start[GROUPS]; /* -12 times the sum: kernels multiply codes + 12 */
    double unit[GROUPS];   /* of a product: u / 2 */
} fixed_block;

_Static_assert(sizeof(fixed_block) <= SB_ROW_BLOCK * sizeof(double), "a block has no more room");

/* A power of two above all magnitudes of a group; 0 if they are 0, NaN if one is not finite. */
VINLINE double top_of(const double *x)
{
    const __m512d a = _mm512_abs_pd(_mm512_load_pd(x)), b = _mm512_abs_pd(_mm512_load_pd(x + 8));
    const __m512d limit = _mm512_set1_pd(0x1p900);
    const int finite = (_mm512_cmp_pd_mask(a, limit, _CMP_LT_OQ) &
                        _mm512_cmp_pd_mask(b, limit, _CMP_LT_OQ)) == 0xff;
    const uint64_t bits = sb_bits_f64(_mm512_reduce_max_pd(_mm512_max_pd(a, b))) >> 52;
    if (!finite)
        return sb_f64_from_bits((uint64_t)0x7ff8 << 48);
    return bits ? sb_f64_from_bits((bits + 1) << 52) : 0;
}

/* The even or the odd columns of a group; zeros if units is 0. */
VINLINE __m512i whole_numbers(const double *x, int odd, double units)
{
    const __m512i even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    const __m512i which = odd ? _mm512_add_epi64(even, _mm512_set1_epi64(1)) : even;
    const __m512d some = _mm512_permutex2var_pd(_mm512_load_pd(x), which, _mm512_load_pd(x + 8));
    return _mm512_maskz_cvtpd_epi64(units > 0 ? 0xff : 0,
                                    _mm512_mul_pd(some, _mm512_set1_pd(units)));
}

/* The digits of eight numbers: with 128 added to each they have no sign, and are the bytes. */
VINLINE void write_digits(__m512i numbers, fixed_block *to, int odd, size_t group)
{
    const __m512i biased =
        _mm512_add_epi64(numbers, _mm512_set1_epi64(((int64_t)0x8080 << 32) | 0x80808080));
    const __m512i bytes = _mm512_xor_si512(biased, _mm512_set1_epi8(-128));
    for (unsigned d = 0; d < DIGITS; d++)
        _mm_storel_epi64((__m128i *)(void *)&to->digits[d][odd][group * 8],
                         _mm512_cvtepi64_epi8(_mm512_srli_epi64(bytes, 8 * d)));
}

/* A group that is not finite, or whose unit would be too small a number, has a unit of NaN. */
VNNI void sb_avx512_arrange_fixed(const double *x, double *lanes)
{
    fixed_block *to = (fixed_block *)(void *)lanes;
    for (size_t g = 0; g < GROUPS; g++, x += NEIGHBOURS) {
        const double top = top_of(x), none = sb_f64_from_bits((uint64_t)0x7ff8 << 48);
        const int usable = top > 0x1p-900;
        const double units = usable ? 0x1p46 / top : 0;
        const __m512i even = whole_numbers(x, 0, units), odd = whole_numbers(x, 1, units);
        write_digits(even, to, 0, g);
        write_digits(odd, to, 1, g);
        to->start[g] = -12 * _mm512_reduce_add_epi64(_mm512_add_epi64(even, odd));
        to->unit[g] = usable || top == 0 ? top * 0x1p-47 : none;
    }
}

/* Three digits from `first` on, the highest first, times the codes + 12 of both halves. A lane
 * has half a group: eight products, below 2^31 together, as 8 * 24 * 128 * (2^16 + 2^8 + 1) is. */
VINLINE __m512i three_digits(__m512i low, __m512i high, const fixed_block *x, int first)
{
    __m512i sum = _mm512_setzero_si512();
#pragma GCC unroll 3
    for (int d = first + 2; d >= first; d--) {
        sum = _mm512_slli_epi32(sum, 8);
        sum = _mm512_dpbusd_epi32(sum, low, _mm512_load_si512(x->digits[d][0]));
        sum = _mm512_dpbusd_epi32(sum, high, _mm512_load_si512(x->digits[d][1]));
    }
    return sum;
}

/* The sums of the two halves of each group: those of the high digits are below 2^31 together. */
VINLINE __m512i of_high(__m512i sums)
{
    return _mm512_mul_epi32(_mm512_add_epi32(sums, _mm512_srli_epi64(sums, 32)),
                            _mm512_set1_epi64(1 << 24));
}

VINLINE __m512i of_low(__m512i sums)
{
    return _mm512_add_epi64(_mm512_mul_epi32(sums, _mm512_set1_epi64(1)),
                            _mm512_srai_epi64(sums, 32));
}

VINLINE void add_fixed(row_sums *to, const sb_row_codes *w, grouping g, const sb_row_input *x,
                       size_t i, __m512i codes, __m512d spread)
{
    const fixed_block *in = (const fixed_block *)(const void *)(x->lanes + i);
    const __m512i halves = _mm512_broadcast_i32x4(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m512i mask = _mm512_set1_epi8(15);
    const __m512i low = _mm512_shuffle_epi8(halves, _mm512_and_si512(codes, mask));
    const __m512i high =
        _mm512_shuffle_epi8(halves, _mm512_and_si512(_mm512_srli_epi16(codes, 4), mask));
    __m512i sum = _mm512_load_si512(in->start);
    sum = _mm512_add_epi64(sum, of_high(three_digits(low, high, in, 3)));
    sum = _mm512_add_epi64(sum, of_low(three_digits(low, high, in, 0)));
    const __m512d unit = _mm512_load_pd(in->unit);
    const __m512d scale = g == CODED_LANES ? coded_scales(w, i) : by_lane(w, g, w->scales, i);
    const __m512d size = _mm512_fmadd_pd(spread, unit, _mm512_loadu_pd(x->x16 + i / NEIGHBOURS));
    to->sum = _mm512_fmadd_pd(_mm512_mul_pd(scale, unit), _mm512_cvtepi64_pd(sum), to->sum);
    to->magnitude = _mm512_fmadd_pd(_mm512_abs_pd(scale), size, to->magnitude);
}

/* Roundings on the way of a product: one of the group's sum, n / 128 + 1 at the blocks, 3 where the
 * lanes meet. row.h allows 18 + 7 n / 128 more, each of 2^-53 of the magnitude; 16 + 7 n / 128 of
 * them pay for the inputs' rounding, which is at most 16 inputs times a code of 6 times u / 2 for a
 * group of scale 1, by 6 spread u / 2 in its magnitude. */
VINLINE sb_partial fixed_row(const sb_row_codes *w, const sb_row_input *x, grouping g)
{
    row_sums sums = {_mm512_setzero_pd(), _mm512_setzero_pd()};
    const __m512d spread = _mm512_set1_pd(0x1p57 / (double)(16 + 7 * w->n / SB_ROW_BLOCK));
    size_t i = 0;
    for (; i + SB_ROW_BLOCK <= w->n; i += SB_ROW_BLOCK) {
        fetch_ahead(w->codes + i / 2);
        add_fixed(&sums, w, g, x, i, _mm512_loadu_si512(w->codes + i / 2), spread);
    }
    if (i < w->n)
        add_fixed(&sums, w, g, x, i, load_end(w->codes + i / 2, (w->n - i + 1) / 2), spread);
    sums.magnitude = _mm512_mul_pd(sums.magnitude, _mm512_set1_pd(6));
    return partial_of(&sums);
}

VNNI sb_partial sb_avx512_fixed_e2m1(const sb_row_codes *w, const sb_row_input *x)
{
    if (grouping_of(w) == CODED_LANES)
        return fixed_row(w, x, CODED_LANES);
    return fixed_row(w, x, grouping_of(w) == LANES ? LANES : OTHER_GROUPS);
}

#endif
