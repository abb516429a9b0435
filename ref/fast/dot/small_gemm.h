/* small_gemm.h - several inputs with rows that a kernel reads in place: rows by four meet one input
 * after the other, so that codes are taken apart once. What several inputs are in batch.h are
 * doubles; here they are what one input is in row.h, and so are bounds. */
#ifndef SB_DOT_SMALL_GEMM_H
#define SB_DOT_SMALL_GEMM_H

#include "ref/fast/dot/dot.h"

/* Whether the chosen set has such a kernel for the matrix, but for rows whose scales are not fit.
 */
int sb_small_gemm_reads(const sb_matrix *w);

/* What sb_dot_matrix of row.h is, for such a matrix. */
sb_status sb_small_gemm(const sb_matrix *w, const double *x, size_t count, const sb_scalar *factor,
                        float *out);

#endif
