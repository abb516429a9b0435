/* bias.h - do the errors of an op have the mean of round to nearest (T-98)? Bounds let a constant
 * error of many roundings pass, because they add up the worst case of each. */
#ifndef SB_COMPARE_BIAS_H
#define SB_COMPARE_BIAS_H

#include "tools/judge/bound/ball.h"
#include "tools/judge/compare/verdict.h"

/* What a correct program's results may be off by on average. Zeroed: nothing is tested. */
typedef struct sb_bias_rule {
    double relative; /* in u of the result */
    unsigned tested; /* bit d: direction d */
} sb_bias_rule;

/* Under this arithmetic; undeclared arithmetics may have any unit of atoms.def. */
sb_bias_rule sb_bias_rule_of(const sb_arithmetic *ar, const sb_op_call *call);

typedef struct sb_bias sb_bias;
sb_status sb_bias_new(sb_bias **out);
void sb_bias_free(sb_bias *bias);

/* A row of values: what shares a scalar. */
typedef struct sb_bias_row {
    sb_op op;
    sb_bias_rule rule;
    const char *name; /* full name of the tap */
    size_t column;    /* its first column in that tap */
    uint32_t token;   /* the token of the row */
    const float *found, *expected;
    size_t count;
    sb_place place; /* for a report */
} sb_bias_row;

/* Counts a row, unless the same tap had a row of the same token before; then *repeats is set. SB_OK
 * or SB_ERR_MEMORY. */
sb_status sb_bias_see(sb_bias *bias, const sb_bias_row *row, int *repeats);

/* The first direction that was rejected. */
sb_bias_direction sb_bias_found(const sb_bias *bias, sb_op op);

/* Fills in what the rows showed of each op. */
void sb_bias_finish(const sb_bias *bias, sb_verdicts *verdicts);

#endif
