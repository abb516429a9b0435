/* check_op.h - checks for the tests of all ops that have vectors: the expectation of a case lies
 * within its own bounds, outputs pass or fail as they should, and the weights of a case are decoded
 * by independent code. */
#ifndef TESTS_GATE_CHECK_OP_H
#define TESTS_GATE_CHECK_OP_H

#include "tools/judge/gate/gate.h"

/* Fails the test with the error message if the case cannot be made. input: BF16, F32 or F16. */
sb_gate_case *check_case(const char *op, const char *format, const char *shape,
                         sb_gate_regime regime, sb_dtype input);

sb_gate_arith check_arith(const char *name);

/* Counts the elements of output 0 for which got is outside the bound. *worst gets the largest
 * quotient of error and bound. */
size_t check_outside(const sb_gate_case *c, const char *arith, const float *got, double *worst);

/* Like check_outside, for got rounded to a narrower type. As in V-4, the ends of the interval are
 * rounded, too. */
size_t check_outside_rounded(const sb_gate_case *c, const char *arith, sb_format format,
                             const float *got);

/* exact lies within every bound, and real is a number. If most elements are not 0, most have a
 * bound below a quarter of their value. */
void check_contract(const sb_gate_case *c);

/* Every planted mistake in an op that the case uses is detected, and every other order of summation
 * passes. */
void check_mistakes(const sb_gate_case *c);

/* Runs the metamorphic gate on the reference itself, for every format: no row depends on
 * another. */
void check_batches(const char *op, const char *shape);

/* With four bytes of an input replaced by these, the case is refused. The message contains
 * `words`. */
void check_refused(const char *op, const char *format, const char *array, size_t at, uint32_t bytes,
                   const char *words);

/* Element (row, column) of a matrix of the case, computed from its bytes by the published formulas,
 * factor included. `factor` is the index into the tensor of factors. prefix: see sb_gate_stored. */
typedef struct check_weight {
    const sb_gate_case *c;
    const char *prefix;
    uint32_t rows, cols; /* of the tensors of one expert */
    uint32_t expert, factor;
    int fault; /* one of enum check_fault */
} check_weight;

enum check_fault {
    CHECK_NO_FAULT,
    CHECK_NIBBLES,    /* high nibble first */
    CHECK_SWIZZLED,   /* scales in 128 x 4 blocks are read as rows */
    CHECK_PADS,       /* groups are read up to the end of a block of 4, with codes of 0 */
    CHECK_INVERTED,   /* divides by a factor that multiplies, and vice versa */
    CHECK_NEIGHBOUR,  /* the scale of the next group */
    CHECK_HALF_SCALE, /* the product of scale and factor is rounded to binary16 */
    CHECK_SUBNORMAL,  /* scales below 2^-6 are 0 */
    CHECK_CLAMP,      /* the largest E4M3 value is 240 */
    CHECK_BLOCK,      /* blocks of 125 columns */
    CHECK_ZERO_POINT, /* zero points as stored, without the 1 to add */
    CHECK_WORDS,      /* AWQ words in the order of GPTQ words */
    CHECK_OTHER_HALF, /* the scales of the other half of the rows */
    CHECK_OTHER_STACK /* the scales and factors of the next expert */
};
double check_value(const check_weight *w, uint32_t row, uint32_t column);

#endif
