/* trial_hit.h - a sequence of a trial that continues the first one: the states that it may begin
 * with, and the steps of its prefix. */
#ifndef SB_FAULT_TRIAL_HIT_H
#define SB_FAULT_TRIAL_HIT_H

#include "tools/judge/fault/hits.h"
#include "tools/judge/fault/trial.h"

/* The steps of a sequence so far, copied. */
typedef struct sb_kept_steps {
    sb_step *items;
    size_t count, room;
} sb_kept_steps;

sb_status sb_kept_add(sb_kept_steps *kept, const sb_step *step, sb_error *err);
void sb_kept_free(sb_kept_steps *kept);

/* Passes on the steps that fed the prefix of a sequence (prefix.h). */
sb_status sb_kept_again(const sb_kept_steps *kept, const sb_step_prefix *prefix, sb_step_fn take,
                        void *ctx, sb_error *err);

/* Sets the session to the state after the first `script.hit` tokens of the first sequence's prompt,
 * or to what the planted mistake makes of it. prompts: of the first two sequences. The calls of a
 * prompt begin at ends[0], ends[1], ...; the last element is the length of the prompt. */
sb_status sb_trial_begin_hit(const sb_trial *trial, const sb_session_options *options,
                             const uint32_t *const prompts[2], const size_t *ends,
                             sb_session *session, sb_error *err);

#endif
