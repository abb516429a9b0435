/* small_gemm.h - several inputs with rows that a kernel reads in place. Four rows at a time are
 * multiplied with one input after the other, so that codes are unpacked once. Unlike in batch.h,
 * rows are not decoded to doubles first. Inputs and error bounds are those of row.h. */
#ifndef SB_DOT_SMALL_GEMM_H
#define SB_DOT_SMALL_GEMM_H

#include "ref/fast/dot/dot.h"

/* True if the chosen set has such a kernel for the matrix. Some of its rows may still have
 * unsuitable scales. */
int sb_small_gemm_reads(const sb_matrix *w);

/* sb_dot_matrix of row.h for such a matrix. */
sb_status sb_small_gemm(const sb_matrix *w, const double *x, size_t count, const sb_scalar *factor,
                        float *out);

#endif
