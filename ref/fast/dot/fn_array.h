/* fn_array.h - functions of fn.h and sums over arrays: the same bits as element by element. */
#ifndef SB_DOT_FN_ARRAY_H
#define SB_DOT_FN_ARRAY_H

#include <stddef.h>

/* out[i] = sb_exp(x[i]), ...; out may be x. */
void sb_exp_array(const float *x, size_t n, float *out);
void sb_sigmoid_array(const float *x, size_t n, float *out);
void sb_silu_array(const float *x, size_t n, float *out);

/* The largest of n > 0 values, NaN left out; NaN or any value if x[0] is NaN. Of zeros of both
 * signs, it is open which is returned. */
float sb_largest_of(const float *x, size_t n);

#endif
