/* blas.h - the time of dequantized weights in a BLAS: a yardstick that is not linked, but loaded if
 * present. */
#ifndef SB_BENCH_BLAS_H
#define SB_BENCH_BLAS_H

#include "tools/bench/measure.h"

typedef struct sb_blas sb_blas;

/* library: a path or a name for the loader; NULL tries OpenBLAS by its usual name. SB_ERR_SKIPPED
 * if there is none. */
sb_status sb_blas_open(const char *library, sb_blas **out, sb_error *err);
void sb_blas_close(sb_blas *blas);
void sb_blas_threads(const sb_blas *blas, unsigned threads);

/* Bytes per second for rows of 2048 weights in binary32 and binary64 times one input. */
sb_status sb_blas_rows(const sb_blas *blas, size_t passes, sb_bench_noise *sgemv,
                       sb_bench_noise *dgemv, sb_error *err);

/* Seconds for out (tokens, rows) = x (tokens, cols) times the transposed weights (rows, cols) in
 * binary32. */
double sb_blas_multiply(const sb_blas *blas, const float *weights, size_t rows, size_t cols,
                        const float *x, size_t tokens, float *out);

#endif
