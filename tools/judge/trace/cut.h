/* cut.h - cuts a step to the arrays that a trace of a lower level has. */
#ifndef SB_TRACE_CUT_H
#define SB_TRACE_CUT_H

#include "tools/judge/trace/head.h"
#include "tools/judge/trace/step.h"

/* What a trace may have: its levels, two other selections that have a column in the score by level,
 * and those of engines with fused kernels, from which correct engines are judged as well. */
enum {
    SB_VIEW_HIDDEN = SB_TRACE_LEVELS,
    SB_VIEW_FUSED,
    SB_TRACE_VIEWS,
    SB_VIEW_NO_NORMS = SB_TRACE_VIEWS,
    SB_VIEW_NO_CONV,
    SB_VIEW_NO_STATES,
    SB_VIEW_SOME
};
const char *sb_view_name(unsigned view);

/* 1 if a trace of this view has the tap. seed: of SB_VIEW_SOME, which lacks each tap of each layer
 * with odds of one in four. */
int sb_view_has(unsigned view, uint64_t seed, const char *name);

/* 1 if ops can be judged in this view. */
int sb_view_has_ops(unsigned view);

/* U-2, in its simplest form: level 0 keeps rows and rounds; 1 adds logits and log-probabilities; 2
 * the logits of drafts and the chosen experts; 3 the states; 4 everything. SB_VIEW_HIDDEN has rows,
 * rounds and hidden states (T-92); SB_VIEW_FUSED has no states, and lacks the values that stay
 * inside kernels which compute several ops. SB_VIEW_SOME has no states if its seed is odd. *view
 * borrows from the step; it owns only its list of taps, which sb_step_cut_free frees. SB_OK or
 * SB_ERR_MEMORY. */
sb_status sb_step_cut(const sb_step *step, unsigned what, uint64_t seed, sb_step *view,
                      sb_error *err);
void sb_step_cut_free(sb_step *view);

#endif
