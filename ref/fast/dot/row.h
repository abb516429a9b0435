/* row.h - a linear layer as a whole: stored rows with inputs in binary64, read where they lie.
 *
 * The row kernels of the chosen set add up a row as fast as memory gives it and know the magnitudes
 * of its products only roughly. Where that leaves the rounding open, sb_row_settle takes the row
 * again, more slowly and more exactly, until exact.h decides. */
#ifndef SB_DOT_ROW_H
#define SB_DOT_ROW_H

#include "ref/fast/dot/dot.h"

/* out[t rows + i] = RN32( sum_k w[i, k] x[t, k] * factor ), the same bits as exact.h, of `count`
 * inputs x (count, cols), which are as sb_dot_wide takes them. Threads share the rows. */
sb_status sb_dot_matrix(const sb_matrix *w, const double *x, size_t count, const sb_scalar *factor,
                        float *out);

/* Whether the chosen set has a kernel that reads this matrix. */
int sb_row_reads(const sb_matrix *w);

/* A row for a kernel. room: sb_row_room(w) doubles, which the result points to. */
size_t sb_row_room(const sb_matrix *w);
sb_row_codes sb_row_open(const sb_matrix *w, uint32_t row, double *room);

/* Whether its scales lie as those kernels read them in place: one of E4M3 after the other. */
int sb_row_scales_lie_well(const sb_matrix *w);

/* The exact values of a row, or what is not finite where one is. room: as sb_row_open; wide: room
 * for as many doubles as sb_tile_padded() says. */
void sb_row_wide(const sb_matrix *w, uint32_t row, double *room, double *wide);

/* The same of a row whose codes are at hand. */
void sb_row_widen(const sb_matrix *w, uint32_t row, const sb_row_codes *codes, double *wide);

/* An input for those kernels. room: sb_row_input_room(w) doubles, which the result points to. */
size_t sb_row_input_room(const sb_matrix *w);
sb_row_input sb_row_prepare(const sb_matrix *w, const double *x, double *room);

/* What every row kernel of n columns promises: a product of a code and an input passes through at
 * most so many roundings, and partial.magnitude is an upper bound of the sum of magnitudes, but for
 * as many roundings. That is: sums of 16 products, one multiplication by the group's scale, and a
 * sum of those. Where a code, a scale or an input is not finite, sum or magnitude is not. */
static inline size_t sb_row_roundings(size_t n)
{
    return n / 16 + 24;
}

/* The same with the two roundings of a factor: its products are exact, 24 x 24 bits. */
static inline size_t sb_row_roundings_scaled(size_t n)
{
    return sb_row_roundings(n) + 2;
}

/* The bound of the error of such a sum in magnitudes, with a factor of this size. As n has 32 bits,
 * there are fewer than 2^28 + 26 roundings, and error_bound() of dot.c holds without a test. */
static inline double sb_row_error(uint32_t n, double factor)
{
    return (double)sb_row_roundings_scaled(n) * 0x1.0001p-53 * factor;
}

/* The rounding test for the partial of a row kernel of n columns, times a factor: nonzero, and
 * *rounded set, if the answer is certain. */
int sb_row_certain(sb_partial partial, size_t n, const sb_scalar *factor, float *rounded);

/* The same for several rows: out[r] where it is certain, and open[r] nonzero where it is not.
 * Returns whether one is open. */
int sb_row_round(uint32_t n, const sb_scalar *factor, const double *sums, const double *magnitudes,
                 size_t rows, float *out, unsigned char *open);

/* The answer for one row and one input that a rounding test has left open. wide: room for cols
 * doubles. */
float sb_row_settle(const sb_matrix *w, uint32_t row, const double *x, const sb_scalar *factor,
                    double *wide);

#endif
