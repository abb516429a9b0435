#include "ref/fast/dot/kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include "ref/fast/simd/avx512_codes.h"

/* Sixteen codes are eight bytes, one lane. Step k shifts code k of each lane to the lowest bits. So
 * lane l of step k gets column 16 l + k. */
AVX512 void sb_avx512_arrange_nibbles(const double *x, size_t n, double *lanes)
{
    for (size_t i = 0; i < n; i += SB_ROW_BLOCK)
        for (size_t k = 0; k < NEIGHBOURS; k++)
            for (size_t l = 0; l < GROUPS; l++)
                lanes[i + k * GROUPS + l] = x[i + l * NEIGHBOURS + k];
}

/* The values of the sixteen codes. */
typedef struct table {
    __m512d first, second;
} table;

/* Computes, by lane, the sums of codes times inputs of a block. The lookup uses only the low four
 * bits of an index. A product passes through at most one rounding of its own and 8 of additions. */
INLINE __m512d sum_block(__m512i codes, const table *values, __m512d zero, int has_zeros,
                         const double *lanes)
{
    __m512d sum[2] = {_mm512_setzero_pd(), _mm512_setzero_pd()};
#pragma GCC unroll 16
    for (unsigned k = 0; k < NEIGHBOURS; k++) {
        const __m512i index = k ? _mm512_srli_epi64(codes, 4 * k) : codes;
        __m512d value = _mm512_permutex2var_pd(values->first, index, values->second);
        if (has_zeros)
            value = _mm512_sub_pd(value, zero);
        sum[k % 2] = _mm512_fmadd_pd(value, _mm512_load_pd(lanes + k * GROUPS), sum[k % 2]);
    }
    return _mm512_add_pd(sum[0], sum[1]);
}

/* The properties of a row, all constants. `least` and `largest` are the limits of the values of
 * codes. */
typedef struct form {
    double least, largest;
    grouping groups;
    int has_zeros;
} form;

INLINE void add_codes(row_sums *sums, const sb_row_codes *w, const sb_row_input *x, size_t i,
                      __m512i codes, const table *values, form f)
{
    __m512d zero = _mm512_setzero_pd(), sum;
    if (f.has_zeros)
        zero = by_lane(w, f.groups, w->zeros, i);
    const __m512d most =
        _mm512_max_pd(_mm512_abs_pd(_mm512_sub_pd(_mm512_set1_pd(f.least), zero)),
                      _mm512_abs_pd(_mm512_sub_pd(_mm512_set1_pd(f.largest), zero)));
    if (f.has_zeros && f.groups == BLOCKS) { /* the same zero point in all lanes */
        const table less = {_mm512_sub_pd(values->first, zero),
                            _mm512_sub_pd(values->second, zero)};
        sum = sum_block(codes, &less, zero, 0, x->lanes + i);
    } else {
        sum = sum_block(codes, values, zero, f.has_zeros, x->lanes + i);
    }
    add_block(sums, w, f.groups, x, i, sum, most);
}

/* A product passes through these roundings: 1 of the product itself, 9 in sum_block, n / 128 + 1
 * when blocks are added, 3 when lanes are added. Codes past the end of the row are multiplied with
 * inputs of 0. */
INLINE sb_partial row_of(const sb_row_codes *w, const sb_row_input *x, const table *values, form f)
{
    row_sums sums = {_mm512_setzero_pd(), _mm512_setzero_pd()};
    size_t i = 0;
    for (; i + SB_ROW_BLOCK <= w->n; i += SB_ROW_BLOCK) {
        sb_fetch(w->codes + i / 2);
        add_codes(&sums, w, x, i, _mm512_loadu_si512(w->codes + i / 2), values, f);
    }
    if (i < w->n)
        add_codes(&sums, w, x, i, load_end(w->codes + i / 2, (w->n - i + 1) / 2), values, f);
    return partial_of(&sums);
}

INLINE sb_partial integers(const sb_row_codes *w, const sb_row_input *x, const table *values,
                           double least, double largest)
{
    if (grouping_of(w) == BLOCKS)
        return w->zeros ? row_of(w, x, values, (form){least, largest, BLOCKS, 1})
                        : row_of(w, x, values, (form){least, largest, BLOCKS, 0});
    return w->zeros ? row_of(w, x, values, (form){least, largest, OTHER_GROUPS, 1})
                    : row_of(w, x, values, (form){least, largest, OTHER_GROUPS, 0});
}

AVX512 sb_partial sb_avx512_row_int4(const sb_row_codes *w, const sb_row_input *x)
{
    const table values = {_mm512_setr_pd(0, 1, 2, 3, 4, 5, 6, 7),
                          _mm512_setr_pd(-8, -7, -6, -5, -4, -3, -2, -1)};
    return integers(w, x, &values, -8, 7);
}

AVX512 sb_partial sb_avx512_row_uint4(const sb_row_codes *w, const sb_row_input *x)
{
    const table values = {_mm512_setr_pd(0, 1, 2, 3, 4, 5, 6, 7),
                          _mm512_setr_pd(8, 9, 10, 11, 12, 13, 14, 15)};
    return integers(w, x, &values, 0, 15);
}

#endif
