/* ops_delta.h - operands for the tests of both forms of the delta rule. */
#ifndef SB_TESTS_UNIT_OPS_DELTA_H
#define SB_TESTS_UNIT_OPS_DELTA_H

#include "tests/unit/ops.h"

/* Random operands: T rows, nK key heads of width dk, r value heads each of width dv. */
typedef struct delta_operands {
    sb_delta_rule_args a;
    const float *initial; /* the state before the call */
    size_t state_size, out_size;
} delta_operands;

/* Keys of norm 1, queries of norm dk^-1/2, as l2norm makes them; g is negative, of magnitude
 * `decay`. */
delta_operands delta_draw(size_t T, size_t nK, size_t r, size_t dk, size_t dv, float decay);

/* K-16 and K-35: an output before R, and a stored state. */
float delta_scaled(const sb_knobs *knobs, float o, size_t dk);
void delta_kept(const sb_knobs *knobs, float *S, size_t n);

/* R-9 in long double without any rounding. *scale becomes the largest |S| + |v| of all steps. */
void exact_delta(const delta_operands *o, long double *S, long double *out, long double *scale);

#endif
