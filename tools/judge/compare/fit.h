/* fit.h - which rows of docs/atoms.md the results of linear layers fit (T-100). An engine that does
 * not declare its arithmetic may add on any of these units, which cut toward zero. */
#ifndef SB_COMPARE_FIT_H
#define SB_COMPARE_FIT_H

#include "ref/run/hook.h"
#include "tools/judge/compare/verdict.h"

typedef struct sb_fit sb_fit;
sb_status sb_fit_new(sb_fit **out);
void sb_fit_free(sb_fit *fit);

/* Before a linear op with recorded inputs: computes some of its results on every unit. SB_OK or
 * SB_ERR_MEMORY. */
sb_status sb_fit_linear(sb_fit *fit, const sb_op_call *call);

/* When results are judged: found and expected are `count` values of a row, expected where the op
 * wrote them. counts: they are the first of their token. */
void sb_fit_see(sb_fit *fit, const float *found, const float *expected, size_t count, int counts);

/* Fills in verdicts->fit. bias: what T-98 finds in linear layers. */
void sb_fit_finish(const sb_fit *fit, sb_bias_direction bias, sb_verdicts *verdicts);

#endif
