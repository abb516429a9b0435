/* avx512_codes.h - rows of codes in blocks of SB_ROW_BLOCK columns. Each of the eight lanes of a
 * block covers sixteen neighbouring columns. This header handles scales, magnitudes, and the end of
 * the row. */
#ifndef SB_SIMD_AVX512_CODES_H
#define SB_SIMD_AVX512_CODES_H

#include "ref/fast/simd/avx512.h"

enum { NEIGHBOURS = 16, GROUPS = SB_ROW_BLOCK / NEIGHBOURS };

/* The size of groups: the whole row, a block, or another size. Kernels are compiled for each
 * case. */
typedef enum grouping { WHOLE_ROW, BLOCKS, OTHER_GROUPS } grouping;

INLINE grouping grouping_of(const sb_row_codes *w)
{
    if (w->group >= w->n)
        return WHOLE_ROW;
    return w->group == SB_ROW_BLOCK ? BLOCKS : OTHER_GROUPS;
}

/* Prefetches the coded scales of a row some rows ahead. The scales of a row are few, contiguous
 * bytes. Called once per row, because prefetching the scales of many rows together would delay the
 * codes. */
INLINE void fetch_scales(const sb_row_codes *w)
{
    enum { AHEAD = 2048 };
    for (size_t i = 0; i * NEIGHBOURS < w->n; i += 64)
        _mm_prefetch((const char *)w->scale_codes + i + AHEAD, _MM_HINT_T0);
}

/* Returns, for each lane of the block from column i on, the element of `values` (one per group) for
 * its columns; 0 past the end of the row. */
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

/* The scaled sums of eight lanes, and the upper bounds of their magnitudes. */
typedef struct row_sums {
    __m512d sum, magnitude;
} row_sums;

/* sums: the sums of codes (minus zero points) times inputs. largest: an upper bound of these codes.
 * The fused addition of scale times sum takes one rounding. The magnitude has one more, in its
 * product. */
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

/* Loads 64 bytes. Bytes after the first `left` are zero and are not read. */
INLINE __m512i load_end(const unsigned char *at, size_t left)
{
    return left >= 64 ? _mm512_loadu_si512(at)
                      : _mm512_maskz_loadu_epi8(((__mmask64)1 << left) - 1, at);
}

#endif
