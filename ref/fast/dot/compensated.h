/* compensated.h - compensated sums. They can decide the rounding of a reduction, ties included, if
 * its binary64 sum cannot. Only the remaining cases need exact.h. */
#ifndef SB_DOT_COMPENSATED_H
#define SB_DOT_COMPENSATED_H

#include <stddef.h>

#include "ref/math/exact.h"

#ifdef __cplusplus
extern "C" {
#endif

/* sum + errors + rest is the sum of n products, apart from a small error: `rest` was rounded at
 * each addition. `size` is the sum of the magnitudes of the terms of `rest`. sb_compensated_round
 * bounds the error from n and `size`. */
typedef struct sb_compensated {
    double sum, errors, rest, size;
} sb_compensated;

/* Adds n products of valid operands of sb_exact_add_wide_product. Portable code. NaN and infinity
 * make the sum NaN or infinite. */
void sb_compensated_add(sb_compensated *to, const double *a, const double *b, size_t n);

/* Adds one exact term. */
void sb_compensated_join(sb_compensated *to, double term);

/* Returns nonzero and sets *rounded if RN32( sum of n products * factor ) is certain. */
int sb_compensated_round(const sb_compensated *from, size_t n, const sb_scalar *factor,
                         float *rounded);

#ifdef __cplusplus
}
#endif

#endif
