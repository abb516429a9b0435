/* rounded.h - a linear layer whose weights are rounded before they meet an input: by a law of
 * dequantization, then perhaps to the type of a model's parameters.
 *
 * No file has those values. A few rows of them are made at a time, near the processor, and read as
 * a plain matrix is. */
#ifndef SB_DOT_ROUNDED_H
#define SB_DOT_ROUNDED_H

#include "ref/base/status.h"
#include "ref/math/law.h"

typedef struct sb_rounding {
    sb_law law;       /* of a quantized matrix */
    sb_format format; /* that a value is rounded to then, a plain one: SB_FORMAT_f32, to none */
} sb_rounding;

/* out[t rows + i] = RN32( sum_k value[i, k] x[t, k] ), the same bits as exact.h, of `count` inputs
 * x (count, cols), which are as sb_dot_wide takes them. Threads share the rows. */
sb_status sb_dot_rounded(const sb_matrix *w, const sb_rounding *how, const double *x, size_t count,
                         float *out);

#endif
