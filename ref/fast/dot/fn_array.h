/* fn_array.h - functions of fn.h and sums over arrays, with the bits of one element at a time. */
#ifndef SB_DOT_FN_ARRAY_H
#define SB_DOT_FN_ARRAY_H

#include <stddef.h>

/* out[i] = sb_exp(x[i]), ...; out may be x. */
void sb_exp_array(const float *x, size_t n, float *out);
void sb_sigmoid_array(const float *x, size_t n, float *out);
void sb_silu_array(const float *x, size_t n, float *out);

/* The largest of n > 0 values, ignoring NaN; if x[0] is NaN, NaN or any value. If the largest are
 * zeros of both signs, either may be returned. */
float sb_largest_of(const float *x, size_t n);

#endif
