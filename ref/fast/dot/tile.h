/* tile.h - the kernels of batch.h: rows of codes are decoded to doubles once and multiplied with
 * many inputs.
 *
 * Like the kernels of kernels.h they may add in any order; batch.c counts the roundings. */
#ifndef SB_DOT_TILE_H
#define SB_DOT_TILE_H

#include "ref/fast/dot/dot.h"

/* SB_TILE_DEPTH is the number of columns of a block. Longer blocks join their lanes less often, but
 * the rows of a tile and their inputs must fit into the second-level cache. */
enum {
    SB_TILE_ROWS = 4,  /* rows of one multiply() */
    SB_TILE_STEP = 16, /* columns are padded with zeros to a multiple of this */
    SB_TILE_DEPTH = 1024
};

/* n rounded up to a multiple of SB_TILE_STEP. */
static inline size_t sb_tile_padded(size_t n)
{
    return (n + SB_TILE_STEP - 1) / SB_TILE_STEP * SB_TILE_STEP;
}

/* Decodes columns first .. first + n - 1 of a row to exact values, (code - zero point) * scale,
 * padded with zeros to a multiple of SB_TILE_STEP. `first` is a multiple of SB_TILE_STEP. Returns
 * the sum of the squares of the values; each square passes through at most n roundings. If a value
 * is NaN or infinite, so is the sum. */
typedef double sb_tile_widen(const sb_row_codes *w, size_t first, size_t n, double *values);

/* Decodes a row with binary32 scales to BF16 in file order: each product is rounded to binary32,
 * then to BF16. */
typedef void sb_tile_bf16(const sb_row_codes *w, size_t n, unsigned char *values);

/* Looks up n four-bit codes; `group` codes share a scale. The value of code c under scale code s is
 * table[s][c]. group is a multiple of SB_TILE_STEP, and n a multiple of group. */
typedef void sb_tile_pick(const unsigned char *codes, const unsigned char *scales, size_t group,
                          size_t n, const uint16_t (*table)[16], unsigned char *values);

/* The factors of a sum. mul and div are exact products of 24 x 24 bits. */
typedef struct sb_tile_factor {
    double mul, div;
} sb_tile_factor;

/* The tile kernels of an instruction set, an entry of its sb_dot_kernels. */
typedef struct sb_tile_kernels {
    size_t lanes;  /* number of partial sums of a block before they are joined */
    size_t inputs; /* the largest number of inputs of multiply() */
    /* sums[t * stride + r] += the dot product of row r and input t, for SB_TILE_ROWS rows w and
     * `inputs` inputs x of n columns, all contiguous */
    void (*multiply)(const double *w, const double *x, size_t inputs, size_t n, double *sums,
                     size_t stride);
    /* The rounding test: out[r] = RN32( sums[r] * mul / div ). open[r] = 0 if all real numbers
     * within bounds[r] * size, and within the roundings of this formula, round to the same value.
     * Returns nonzero if any of the n is open. */
    int (*round)(const double *sums, const double *bounds, double size, sb_tile_factor factor,
                 size_t n, float *out, unsigned char *open);
    sb_tile_widen *widen[SB_FORMAT_COUNT]; /* NULL: sb_tile_decode */
    sb_tile_bf16 *bf16[SB_FORMAT_COUNT];   /* for rows without zero points; may be NULL */
    sb_tile_pick *pick;                    /* may be NULL */
} sb_tile_kernels;

/* Portable C. */
extern const sb_tile_kernels sb_tile_scalar;
int sb_tile_round(const double *sums, const double *bounds, double size, sb_tile_factor factor,
                  size_t n, float *out, unsigned char *open);
double sb_tile_decode(sb_format format, const sb_row_codes *w, size_t first, size_t n,
                      double *values);

#endif
