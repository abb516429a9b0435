/* held.h - compares the outputs of kernels written in tests with the expectation of a case. */
#ifndef TESTS_GATE_HELD_H
#define TESTS_GATE_HELD_H

#include "tools/judge/gate/case.h"

/* Makes a case, which the caller frees. The test fails if the case cannot be made. */
sb_gate_case *held_case(const char *op, const char *shape, const char *regime, sb_dtype input);

/* The largest |got - real| / bound of all elements. Infinite if an element of got is no number, or
 * differs where the bound is 0. */
double held_worst(const sb_gate_case *c, const char *arith, size_t output, const float *got);

/* held_bounds returns the bounds of an output, to be freed; held_worst_in is held_worst with given
 * bounds. */
double *held_bounds(const sb_gate_case *c, const char *arith, size_t output);
double held_worst_in(const sb_gate_output *y, const double *bound, const float *got);

/* The check for a bfloat16 kernel: got rounded to bfloat16 is within real +- bound, whose ends are
 * also rounded to bfloat16 (T-4). Returns the number of elements outside. */
size_t held_outside_bf16(const sb_gate_case *c, const char *arith, size_t output, const float *got);

/* For an output of choices: the number of wrong ones, and of those that differ from the exact ones
 * but are open. */
typedef struct held_choices {
    size_t wrong, open;
} held_choices;
held_choices held_choose(const sb_gate_case *c, const char *arith, size_t output, const float *got);

/* held_worst of the first output when a mistake of mistakes.def is planted in the op. */
double held_mistake(const sb_gate_case *c, const char *arith, const char *mistake);
double held_mistake_in(const sb_gate_case *c, const char *arith, size_t output,
                       const char *mistake); /* the same, for that output */

/* Checks cases of this op in every regime of its contract, with every shape and every input type.
 * exact lies within the bound of fp32, bounds are numbers, and not all real values are 0. The bound
 * is below the value for `share` of the elements that are not 0. The default shape detects at least
 * one of the planted mistakes. */
void held_everywhere(const char *op, double share);

/* The same for one case. */
void held_at(const char *op, const char *shape, const char *regime, sb_dtype input, double share);

#endif
