/* prefix.h - the steps that fed the prefix of a sequence which continues another one (U-11): which
 * rows of which steps, and a step that has only these rows. */
#ifndef SB_TRACE_PREFIX_H
#define SB_TRACE_PREFIX_H

#include "tools/judge/trace/step.h"

/* Rows [first, first + rows) of a step: one call of one sequence, or its beginning. */
typedef struct sb_prefix_part {
    size_t step, first, rows;
    int undone; /* the call had more rows, which its round rejected */
} sb_prefix_part;

/* Finds the rows that fed the tokens before prefix->position to its parent, and to the parent of
 * that, in the order of the steps. Only the first `count` steps count; arrays are not read. Rows
 * that a round rejected are left out. The caller frees *out. Where the steps have fed fewer tokens,
 * the list ends there. */
sb_status sb_prefix_plan(const sb_step *steps, size_t count, const sb_step_prefix *prefix,
                         sb_prefix_part **out, size_t *parts, sb_error *err);

/* A step of kind prompt with these rows as rows of `sequence`, their taps, and the state that the
 * call read. *out borrows the data of `whole`; sb_prefix_step_free frees its lists. */
sb_status sb_prefix_step(const sb_step *whole, const sb_prefix_part *part, uint32_t sequence,
                         sb_step *out, sb_error *err);
void sb_prefix_step_free(sb_step *step);

#endif
