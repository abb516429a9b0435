/* row.h - a whole linear layer: stored rows, read in place, with inputs in binary64.
 *
 * The row kernels of the chosen set sum a row at the speed of memory, with only a rough bound of
 * the magnitudes of its products. If this bound does not decide the rounding, sb_row_settle
 * computes the row again with slower and more exact methods, finally with exact.h. */
#ifndef SB_DOT_ROW_H
#define SB_DOT_ROW_H

#include "ref/fast/dot/dot.h"

/* out[t rows + i] = RN32( sum_k w[i, k] x[t, k] * factor ), with the bits of exact.h, for `count`
 * inputs x (count, cols), valid operands of sb_dot_wide. Threads share the rows. */
sb_status sb_dot_matrix(const sb_matrix *w, const double *x, size_t count, const sb_scalar *factor,
                        float *out);

/* True if the chosen set has a kernel that reads this matrix. */
int sb_row_reads(const sb_matrix *w);

/* Opens a row for a kernel. room: sb_row_workspace(w) doubles; the result contains pointers to
 * them. */
size_t sb_row_workspace(const sb_matrix *w);
sb_row_codes sb_row_open(const sb_matrix *w, uint32_t row, double *room);

/* True if the scales are contiguous E4M3 codes, which kernels can read in place. */
int sb_row_scales_lie_well(const sb_matrix *w);

/* Writes the exact values of a row; NaN and infinities are kept. room: as for sb_row_open. wide:
 * sb_tile_padded() doubles. */
void sb_row_wide(const sb_matrix *w, uint32_t row, double *room, double *wide);

/* As sb_row_wide, for a row that is already open. */
void sb_row_widen(const sb_matrix *w, uint32_t row, const sb_row_codes *codes, double *wide);

/* Prepares an input for the kernels. room: sb_row_input_workspace(w) doubles; the result contains
 * pointers to them. */
size_t sb_row_input_workspace(const sb_matrix *w);
sb_row_input sb_row_prepare(const sb_matrix *w, const double *x, double *room);

/* The contract of every row kernel of n columns: a product of a code and an input passes through at
 * most this many roundings. partial.magnitude is an upper bound of the sum of magnitudes, but it
 * too may be off by the same number of roundings. The roundings are those in sums of 16 products,
 * in one multiplication by the group's scale, and in the sum over groups. If a code, a scale or an
 * input is not finite, sum or magnitude is not finite. */
static inline size_t sb_row_roundings(size_t n)
{
    return n / 16 + 24;
}

/* The same number plus two, for sums that are multiplied by a factor. The products within the
 * factor are exact, 24 x 24 bits. */
static inline size_t sb_row_roundings_scaled(size_t n)
{
    return sb_row_roundings(n) + 2;
}

/* The error bound of such a sum, times a factor of this magnitude, as a multiple of its magnitude.
 * n has 32 bits, so a product passes through fewer than 2^28 + 26 roundings, and error_bound() of
 * dot.c holds without a test of n. */
static inline double sb_row_error(uint32_t n, double factor)
{
    return (double)sb_row_roundings_scaled(n) * 0x1.0001p-53 * factor;
}

/* The rounding test for the partial of a row kernel of n columns, times a factor. Returns nonzero
 * and sets *rounded if the result is certain. */
int sb_row_certain(sb_partial partial, size_t n, const sb_scalar *factor, float *rounded);

/* The rounding test for several rows: sets out[r] if certain, else open[r] nonzero. Returns nonzero
 * if any row is open. */
int sb_row_round(uint32_t n, const sb_scalar *factor, const double *sums, const double *magnitudes,
                 size_t rows, float *out, unsigned char *open);

/* The result for one row and one input that the rounding test could not decide. wide: scratch for
 * cols doubles. */
float sb_row_settle(const sb_matrix *w, uint32_t row, const double *x, const sb_scalar *factor,
                    double *wide);

#endif
