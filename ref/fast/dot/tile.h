/* tile.h - the kernels of batch.h: rows of codes become doubles once, and meet many inputs.
 *
 * Like those of kernels.h they may add in any order; batch.c counts the roundings. */
#ifndef SB_DOT_TILE_H
#define SB_DOT_TILE_H

#include "ref/fast/dot/dot.h"

/* SB_TILE_DEPTH: where rows of columns are cut. Longer blocks join their lanes less often; the rows
 * of a tile and the inputs that meet them stay in the second nearest cache. */
enum {
    SB_TILE_ROWS = 4,  /* rows that multiply() takes at once */
    SB_TILE_STEP = 16, /* columns come in multiples of these, filled up with zeros */
    SB_TILE_DEPTH = 1024
};

/* n columns, filled up. */
static inline size_t sb_tile_padded(size_t n)
{
    return (n + SB_TILE_STEP - 1) / SB_TILE_STEP * SB_TILE_STEP;
}

/* Columns first .. first + n - 1 of a row as exact values, (code - zero point) * scale, and zeros
 * behind them up to a multiple of SB_TILE_STEP; first is such a multiple. Returns the sum of their
 * squares, each of which passed through at most n roundings; it is NaN or infinite where a value
 * is. */
typedef double sb_tile_widen(const sb_row_codes *w, size_t first, size_t n, double *values);

/* The same row, whose scales are values of binary32: each product rounded to binary32, then to
 * BF16, as a file has it. */
typedef void sb_tile_bf16(const sb_row_codes *w, size_t n, unsigned char *values);

/* n codes of four bits, `group` of which share a scale: the value of code c under scale code s is
 * table[s][c]. Both are multiples of SB_TILE_STEP, n one of group. */
typedef void sb_tile_pick(const unsigned char *codes, const unsigned char *scales, size_t group,
                          size_t n, const uint16_t (*table)[16], unsigned char *values);

/* The factors of a sum: both products are exact, 24 x 24 bits. */
typedef struct sb_tile_factor {
    double mul, div;
} sb_tile_factor;

/* One for each instruction set, an entry of its sb_dot_kernels. */
typedef struct sb_tile_kernels {
    size_t lanes;  /* sums that the columns of a block are dealt to before they are joined */
    size_t inputs; /* that multiply() takes at most */
    /* sums[t * stride + r] += the dot product of row r and input t, for SB_TILE_ROWS rows w and
     * `inputs` inputs x of n columns, which stand one behind the other */
    void (*multiply)(const double *w, const double *x, size_t inputs, size_t n, double *sums,
                     size_t stride);
    /* The rounding test: out[r] = RN32( sums[r] * mul / div ), and open[r] = 0 if that of every
     * real number is so that is within bounds[r] * size and the roundings of this line. Returns
     * whether one of the n is open. */
    int (*round)(const double *sums, const double *bounds, double size, sb_tile_factor factor,
                 size_t n, float *out, unsigned char *open);
    sb_tile_widen *widen[SB_FORMAT_COUNT]; /* NULL: sb_tile_decode */
    sb_tile_bf16 *bf16[SB_FORMAT_COUNT];   /* of rows without zeros; may be NULL */
    sb_tile_pick *pick;                    /* may be NULL */
} sb_tile_kernels;

/* Portable C. */
extern const sb_tile_kernels sb_tile_scalar;
int sb_tile_round(const double *sums, const double *bounds, double size, sb_tile_factor factor,
                  size_t n, float *out, unsigned char *open);
double sb_tile_decode(sb_format format, const sb_row_codes *w, size_t first, size_t n,
                      double *values);

#endif
