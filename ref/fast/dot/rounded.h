/* rounded.h - a linear layer whose weights are rounded before the products: by a law of
 * dequantization, then possibly to the type of the parameters.
 *
 * Files do not contain these rounded values. They are computed for a few rows at a time, so that
 * they stay in the cache, and are then read like a plain matrix. */
#ifndef SB_DOT_ROUNDED_H
#define SB_DOT_ROUNDED_H

#include "ref/base/status.h"
#include "ref/math/law.h"

typedef struct sb_rounding {
    sb_law law;       /* of a quantized matrix */
    sb_format format; /* the plain format to which the values are then rounded; SB_FORMAT_f32: no
                         second rounding */
} sb_rounding;

/* out[t rows + i] = RN32( sum_k value[i, k] x[t, k] ), with the bits of exact.h, for `count` inputs
 * x (count, cols), which are valid operands of sb_dot_wide. Threads share the rows. */
sb_status sb_dot_rounded(const sb_matrix *w, const sb_rounding *how, const double *x, size_t count,
                         float *out);

#endif
