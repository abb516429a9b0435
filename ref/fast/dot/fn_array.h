/* fn_array.h - the functions of fn.h on arrays, and sums over arrays. The bits are the same as for
 * one element at a time. */
#ifndef SB_DOT_FN_ARRAY_H
#define SB_DOT_FN_ARRAY_H

#include <stddef.h>

/* out[i] = sb_exp(x[i]), ...; out may be x. */
void sb_exp_array(const float *x, size_t n, float *out);
void sb_sigmoid_array(const float *x, size_t n, float *out);
void sb_silu_array(const float *x, size_t n, float *out);

/* The largest of n > 0 values, ignoring NaN. If x[0] is NaN, the result is NaN or any of the
 * values. If the largest values are zeros of both signs, the result is one of them. */
float sb_largest_of(const float *x, size_t n);

#endif
