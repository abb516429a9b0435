/* int_dot.h - layers whose weights and input are codes, so that their sums are integers.
 *
 * Used for NVFP4 weights with an NVFP4 input. The value of an E2M1 code is k / 2 with an integer
 * |k| <= 12. An E4M3 scale is 2^-9 m with an integer m <= 448 * 2^9. So a product of two codes and
 * two scales is an integer multiple of 2^-20. In this unit, the 16 products of a group sum up to at
 * most 2304 m m', below 2^47. So 64 bits hold the sum of 2^20 columns, and the only rounding is at
 * the end. */
#ifndef SB_DOT_INT_DOT_H
#define SB_DOT_INT_DOT_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/formats/matrix.h"
#include "ref/math/exact.h"

/* The rows of a quantized input. */
typedef struct sb_codes_input {
    const unsigned char *codes; /* (count, cols) one per byte */
    const float *scales;        /* (count, cols / group rounded up); NaN: the group is not finite */
    size_t group;
    sb_format format;
    const double *values; /* (count, cols) code times scale, the operands for exact.h */
} sb_codes_input;

/* True if sb_int_dot_matrix can compute the layer with this matrix and this input. */
int sb_int_dot_read(const sb_matrix *w, const sb_codes_input *x);

/* out[t rows + i] = RN32( sum_k w[i, k] values[t, k] * factor ), as sb_dot_matrix. */
sb_status sb_int_dot_matrix(const sb_matrix *w, const sb_codes_input *x, size_t count,
                            const sb_scalar *factor, float *out);

/* RN32( sum 2^-20 * factor ). Public for tests. */
float sb_int_dot_round(int64_t sum, const sb_scalar *factor);

#endif
