/* int_dot.h - layers whose weights and whose input are both codes: their sums are integers.
 *
 * NVFP4 with an NVFP4 input. A code of E2M1 is a whole number of halves, at most 12 in size, and a
 * scale of E4M3 a whole number of 2^-9, at most 448 * 2^9: a product of four of them is a whole
 * number of 2^-20, and the 16 of a group sum up to at most 2304 times two scales, below 2^47. 64
 * bits hold the groups of 2^20 columns; nothing rounds before the one rounding at the end. */
#ifndef SB_DOT_INT_DOT_H
#define SB_DOT_INT_DOT_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/formats/matrix.h"
#include "ref/math/exact.h"

/* Rows of an input as they were quantized. */
typedef struct sb_codes_input {
    const unsigned char *codes; /* (count, cols) one to a byte */
    const float *scales;        /* (count, cols / group rounded up), NaN: poisoned */
    size_t group;
    sb_format format;
    const double *values; /* (count, cols) code times scale: what exact.h would take */
} sb_codes_input;

/* Whether the layer of this matrix with such an input is computed in integers. */
int sb_int_dot_read(const sb_matrix *w, const sb_codes_input *x);

/* out[t rows + i] = RN32( sum_k w[i, k] values[t, k] * factor ), as sb_dot_matrix. */
sb_status sb_int_dot_matrix(const sb_matrix *w, const sb_codes_input *x, size_t count,
                            const sb_scalar *factor, float *out);

/* RN32( sum 2^-20 * factor ). Public for tests. */
float sb_int_dot_round(int64_t sum, const sb_scalar *factor);

#endif
