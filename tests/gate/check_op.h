/* check_op.h - what the tests of every op with vectors ask: that what the case expects lies within
 * its own bounds, that outputs do or do not pass, and the weights of a case decoded anew. */
#ifndef TESTS_GATE_CHECK_OP_H
#define TESTS_GATE_CHECK_OP_H

#include "tools/gate/gate.h"

/* Fails the test with the message if the case cannot be made. input: BF16, F32, F16. */
sb_gate_case *check_case(const char *op, const char *format, const char *shape,
                         sb_gate_regime regime, sb_dtype input);

sb_gate_arith check_arith(const char *name);

/* Elements of output 0 in which got is outside the bound; *worst gets the largest quotient. */
size_t check_outside(const sb_gate_case *c, const char *arith, const float *got, double *worst);

/* The same of got rounded to a narrower type, compared as V-4 does: the rounded bounds. */
size_t check_outside_rounded(const sb_gate_case *c, const char *arith, sb_format format,
                             const float *got);

/* exact lies within every bound; real is a number; where most elements are not 0, most have a bound
 * below a quarter of their value. */
void check_contract(const sb_gate_case *c);

/* Every mistake of the ops that are used shows, and every other order of summation passes. */
void check_mistakes(const sb_gate_case *c);

/* The metamorphic gate on the reference itself, for every format: no row depends on another. */
void check_batches(const char *op, const char *shape);

/* With these four bytes in place of others a case's inputs are refused, in words like these. */
void check_refused(const char *op, const char *format, const char *array, size_t at, uint32_t bytes,
                   const char *words);

/* Element (row, column) of a matrix of the case, from its bytes by the published formulas, factor
 * included; `factor` is its place in the tensor of factors. prefix as in sb_gate_stored. */
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
    CHECK_SWIZZLED,   /* the scales of 128 x 4 blocks read as rows */
    CHECK_PADS,       /* groups are read to the end of a block of 4, with codes of 0 */
    CHECK_INVERTED,   /* the factor is a divisor where it is a multiplier, and the other way */
    CHECK_NEIGHBOUR,  /* the scale of the next group */
    CHECK_HALF_SCALE, /* scale and factor are multiplied in binary16 */
    CHECK_SUBNORMAL,  /* scales below 2^-6 are 0 */
    CHECK_CLAMP,      /* E4M3 ends at 240 */
    CHECK_BLOCK,      /* blocks of 125 columns */
    CHECK_ZERO_POINT, /* zero points as they are stored, without the 1 */
    CHECK_WORDS,      /* AWQ words in the order of GPTQ */
    CHECK_OTHER_HALF, /* the scales of the other half of the rows */
    CHECK_OTHER_STACK /* the scales and factors of the next expert */
};
double check_value(const check_weight *w, uint32_t row, uint32_t column);

#endif
