/* strips.h - one input with rows of interleaved four-bit codes, as GPTQ and AWQ store them: up to
 * 512 rows at once, column after column. row.h handles one input with other kinds of rows, and has
 * the error bounds. */
#ifndef SB_DOT_STRIPS_H
#define SB_DOT_STRIPS_H

#include "ref/fast/dot/dot.h"

enum {
    SB_STRIP_ROWS = 512,
    SB_STRIP_BLOCK = 32, /* columns of one kernel step; groups are multiples of it */
    SB_STRIP_DIGITS = 6,
    SB_STRIP_INPUTS = 12 /* least inputs for which tiles are faster than strips */
};

/* A block of columns of an input in the fixed point of fixed.h, but with one unit for each group of
 * the weights. The digits are in groups of four, in the order of the codes of a word, lowest digits
 * first. */
typedef struct sb_strip_block {
    int8_t digits[SB_STRIP_DIGITS][SB_STRIP_BLOCK];
    int lowest; /* the number of lowest digits that are 0 everywhere, 0 to 3 */
} sb_strip_block;

typedef struct sb_strip_group {
    double unit;                   /* unit of the numbers; NaN if no unit is possible */
    double size;                   /* sum of magnitudes, plus a part that covers their rounding */
    int32_t sums[SB_STRIP_DIGITS]; /* of the digits over all columns */
} sb_strip_group;

typedef struct sb_strip_input {
    sb_strip_block *blocks;
    sb_strip_group *groups;
} sb_strip_input;

/* A strip: rows first .. first + rows - 1 of a matrix. `first`, the stored row of `first`, and the
 * number of stored rows are multiples of eight. */
typedef struct sb_strip {
    const sb_matrix *w;
    uint32_t first, rows;
} sb_strip;

/* The strip kernels of a set. The sums of a strip and the upper bounds of magnitudes fulfil the
 * contract of row.h. Both arrays have room for SB_STRIP_ROWS. */
typedef struct sb_strip_kernels {
    void (*arrange)(const sb_matrix *w, const double *x, const sb_strip_input *to);
    void (*add)(const sb_strip *strip, const sb_strip_input *x, double *sums, double *magnitudes);
} sb_strip_kernels;

/* For AVX2; x86-64 only. */
extern const sb_strip_kernels sb_strips_avx2;

/* True if the chosen set has kernels for the matrix. */
int sb_strips_read(const sb_matrix *w);

/* sb_dot_matrix of row.h for such a matrix and one input. */
sb_status sb_dot_strips(const sb_matrix *w, const double *x, const sb_scalar *factor, float *out);

/* Writes the partial that the kernels compute for each row. */
sb_status sb_strips_partials(const sb_matrix *w, const double *x, sb_partial *partials);

#endif
