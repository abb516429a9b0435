/* strips.h - one input with rows whose codes of four bits lie side by side, as GPTQ and AWQ store
 * them: up to 512 rows at once, column after column. What one input is with other rows is in row.h,
 * and so are bounds. */
#ifndef SB_DOT_STRIPS_H
#define SB_DOT_STRIPS_H

#include "ref/fast/dot/dot.h"

enum {
    SB_STRIP_ROWS = 512,
    SB_STRIP_BLOCK = 32, /* columns that a kernel takes at once; a group has a multiple of them */
    SB_STRIP_DIGITS = 6,
    SB_STRIP_INPUTS = 12 /* from which on tiles are faster than a strip for each */
};

/* An input in fixed point, as fixed.h has it, but with a unit for each group of the weights. A
 * block of columns: digits in fours, as a word of the codes has them, lowest digits first. */
typedef struct sb_strip_block {
    int8_t digits[SB_STRIP_DIGITS][SB_STRIP_BLOCK];
    int lowest; /* digits that are 0 in all of it: 0 to 3 of the lowest */
} sb_strip_block;

typedef struct sb_strip_group {
    double unit;                   /* of the numbers; NaN if there is none */
    double size;                   /* sum of magnitudes, with what pays for their rounding */
    int32_t sums[SB_STRIP_DIGITS]; /* of the digits of all columns */
} sb_strip_group;

typedef struct sb_strip_input {
    sb_strip_block *blocks;
    sb_strip_group *groups;
} sb_strip_input;

/* What of a matrix stands at a strip: rows first .. first + rows - 1, of which `first`, by itself
 * and among those stored, and the stored rows are multiples of eight. */
typedef struct sb_strip {
    const sb_matrix *w;
    uint32_t first, rows;
} sb_strip;

/* A set's kernels; the sums of a strip, and bounds of the sums of magnitudes, keep the promise of
 * row.h. Both have room for SB_STRIP_ROWS. */
typedef struct sb_strip_kernels {
    void (*arrange)(const sb_matrix *w, const double *x, const sb_strip_input *to);
    void (*add)(const sb_strip *strip, const sb_strip_input *x, double *sums, double *magnitudes);
} sb_strip_kernels;

/* For AVX2, and on x86-64 only. */
extern const sb_strip_kernels sb_strips_avx2;

/* Whether the chosen set has kernels for the matrix. */
int sb_strips_read(const sb_matrix *w);

/* What sb_dot_matrix of row.h is, for such a matrix and one input. */
sb_status sb_dot_strips(const sb_matrix *w, const double *x, const sb_scalar *factor, float *out);

/* What the kernels say of each of its rows. */
sb_status sb_strips_partials(const sb_matrix *w, const double *x, sb_partial *partials);

#endif
