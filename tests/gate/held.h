/* held.h - outputs of kernels that are written in tests, held against what a case expects. */
#ifndef TESTS_GATE_HELD_H
#define TESTS_GATE_HELD_H

#include "tools/gate/case.h"

/* A case that is freed by the caller; the test fails where it cannot be made. */
sb_gate_case *held_case(const char *op, const char *shape, const char *regime, sb_dtype input);

/* Element by element |got - real| / bound, the largest; infinite where got is no number, or differs
 * where the bound is 0. */
double held_worst(const sb_gate_case *c, const char *arith, size_t output, const float *got);

/* The same of bounds that are at hand; those of an output, to be freed. */
double *held_bounds(const sb_gate_case *c, const char *arith, size_t output);
double held_worst_in(const sb_gate_output *y, const double *bound, const float *got);

/* The share of elements that a bfloat16 kernel may have: got rounded to bfloat16 is within real +-
 * bound, both ends rounded to it (T-4). Returns the number that are outside. */
size_t held_outside_bf16(const sb_gate_case *c, const char *arith, size_t output, const float *got);

/* Of an output of choices: how many are wrong, and how many are not the exact ones, but open. */
typedef struct held_choices {
    size_t wrong, open;
} held_choices;
held_choices held_choose(const sb_gate_case *c, const char *arith, size_t output, const float *got);

/* What the op gives with a mistake of mistakes.def planted, as held_worst of its first output. */
double held_mistake(const sb_gate_case *c, const char *arith, const char *mistake);
double held_mistake_in(const sb_gate_case *c, const char *arith, size_t output,
                       const char *mistake); /* of that output */

/* All that must hold of a case of this op in every regime of its contract and every shape, types of
 * inputs included: exact lies in the bound of fp32, bounds are numbers, real values are not all 0,
 * of `share` elements that are not 0 the bound is below the value, and the default shape shows one
 * of the planted mistakes at least. */
void held_everywhere(const char *op, double share);

/* The same of one case. */
void held_at(const char *op, const char *shape, const char *regime, sb_dtype input, double share);

#endif
