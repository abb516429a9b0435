/* avx512_codes.h - a row of codes in blocks of SB_ROW_BLOCK columns, whose eight lanes are sixteen
 * neighbouring columns each: their scales and magnitudes, and the end of the row. */
#ifndef SB_SIMD_AVX512_CODES_H
#define SB_SIMD_AVX512_CODES_H

#include "ref/fast/simd/avx512.h"

enum { NEIGHBOURS = 16, GROUPS = SB_ROW_BLOCK / NEIGHBOURS };

/* How the groups of a row lie in its blocks. Kernels are compiled for each. */
typedef enum grouping { WHOLE_ROW, BLOCKS, OTHER_GROUPS } grouping;

INLINE grouping grouping_of(const sb_row_codes *w)
{
    if (w->group >= w->n)
        return WHOLE_ROW;
    return w->group == SB_ROW_BLOCK ? BLOCKS : OTHER_GROUPS;
}

/* Asks for the coded scales of a row some rows on: those of each row are few bytes, which follow
 * each other. Row by row, as many at once would hold up the codes. */
INLINE void fetch_scales(const sb_row_codes *w)
{
    enum { AHEAD = 2048 };
    for (size_t i = 0; i * NEIGHBOURS < w->n; i += 64)
        _mm_prefetch((const char *)w->scale_codes + i + AHEAD, _MM_HINT_T0);
}

/* What `values` has for each lane of the block from column i on; 0 where the row has ended. */
INLINE __m512d by_lane(const sb_row_codes *w, grouping g, const double *values, size_t i)
{
    const size_t left = w->n - i;
    double lanes[GROUPS];
    if (g == WHOLE_ROW)
        return _mm512_set1_pd(values[0]);
    if (g == BLOCKS)
        return _mm512_set1_pd(values[i / SB_ROW_BLOCK]);
    if (w->group == NEIGHBOURS && left >= SB_ROW_BLOCK)
        return _mm512_loadu_pd(values + i / NEIGHBOURS);
    if (w->group == 2 * NEIGHBOURS && left >= SB_ROW_BLOCK)
        return _mm512_permutexvar_pd(
            _mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3),
            _mm512_castpd256_pd512(_mm256_loadu_pd(values + i / (2 * NEIGHBOURS))));
    for (size_t l = 0; l < GROUPS; l++)
        lanes[l] = l * NEIGHBOURS < left ? values[(i + l * NEIGHBOURS) / w->group] : 0;
    return _mm512_loadu_pd(lanes);
}

/* The sum of the scaled sums of eight lanes, and of what bounds their magnitudes. */
typedef struct row_sums {
    __m512d sum, magnitude;
} row_sums;

/* sums: of codes (less their zeros) times inputs; largest: no such code is larger. A scale is
 * joined in one rounding, and so is the magnitude's after one product. */
INLINE void add_block(row_sums *to, const sb_row_codes *w, grouping g, const sb_row_input *x,
                      size_t i, __m512d sums, __m512d largest)
{
    const __m512d size = _mm512_mul_pd(largest, _mm512_loadu_pd(x->x16 + i / NEIGHBOURS));
    if (!w->scales) {
        to->sum = _mm512_add_pd(to->sum, sums);
        to->magnitude = _mm512_add_pd(to->magnitude, size);
        return;
    }
    const __m512d scale = by_lane(w, g, w->scales, i);
    to->sum = _mm512_fmadd_pd(scale, sums, to->sum);
    to->magnitude = _mm512_fmadd_pd(_mm512_abs_pd(scale), size, to->magnitude);
}

INLINE sb_partial partial_of(const row_sums *from)
{
    return (sb_partial){_mm512_reduce_add_pd(from->sum), _mm512_reduce_add_pd(from->magnitude)};
}

/* 64 bytes, of which those behind the first `left` are zero and not read. */
INLINE __m512i load_end(const unsigned char *at, size_t left)
{
    return left >= 64 ? _mm512_loadu_si512(at)
                      : _mm512_maskz_loadu_epi8(((__mmask64)1 << left) - 1, at);
}

#endif
