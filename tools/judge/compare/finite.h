/* finite.h - the recorded values of a step that are NaN or infinite. A session of the reference
 * stops at the first such value (S-6). So each such value of an engine is a failure, whether or not
 * the inputs of its op are recorded (T-82). */
#ifndef SB_COMPARE_FINITE_H
#define SB_COMPARE_FINITE_H

#include "ref/ops/knobs.h"
#include "tools/judge/compare/verdict.h"
#include "tools/judge/trace/step.h"

/* The step to search. mtp: the values of the head count, too. */
typedef struct sb_finite {
    const sb_config *config;
    const sb_knobs *knobs;
    const sb_step *step;
    int mtp;
} sb_finite;

/* True if any value of the step is NaN or infinite. */
int sb_finite_any(const sb_finite *f);

/* Row `row` of the step, of the trunk or of a draft: 1 if a value of it is NaN or infinite. *place
 * then is the first such value in the order of the flow, with words. The entries that the head
 * makes in a call of the trunk belong to that call's last rows. */
int sb_finite_row(const sb_finite *f, size_t row, sb_place *place);

/* The same of a recorded state. */
int sb_finite_state(const sb_finite *f, const sb_step_state *state, sb_place *place);

/* The rank of a tap in the order of the flow of one row; UINT64_MAX (last) if the name is no tap.
 */
uint64_t sb_finite_order(const sb_config *config, const char *name);

#endif
