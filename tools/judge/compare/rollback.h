/* rollback.h - how a sequence would look if its rounds were undone wrongly, or if it had begun with
 * another state: one session of the reference for each mistake, fed the engine's tokens.
 *
 * A session makes its mistake in every round, or begins with the other state. If a session agrees
 * with the engine everywhere and the reference does not, its mistake explains the failure (T-47).
 */
#ifndef SB_COMPARE_ROLLBACK_H
#define SB_COMPARE_ROLLBACK_H

#include "ref/run/session.h"
#include "tools/judge/compare/verdict.h"

typedef struct sb_trials sb_trials;

/* options: for the sessions, without a head. */
sb_status sb_trials_new(const sb_model *model, const sb_session_options *options, sb_trials **out,
                        sb_error *err);
void sb_trials_free(sb_trials *trials);
void sb_trials_reset(sb_trials *trials);

/* Adds a session without mistakes in rounds that begins with this state. words: "the conv states
 * are those of ...", copied. */
sb_status sb_trials_add(sb_trials *trials, const sb_state *state, const char *words, sb_error *err);

/* Sets the sessions of the rollback mistakes to this state. */
sb_status sb_trials_begin_with(sb_trials *trials, const sb_state *state, sb_error *err);

size_t sb_trials_count(const sb_trials *trials);

/* Call before a call of n rows, and before its state is read. */
sb_status sb_trials_begin(sb_trials *trials, size_t n, sb_error *err);

/* Feed the engine's tokens, as sb_session_feed and sb_session_verify do. */
sb_status sb_trials_feed(sb_trials *trials, const uint32_t *tokens, size_t n, sb_error *err);
sb_status sb_trials_verify(sb_trials *trials, const uint32_t *tokens, size_t n, sb_error *err);

/* The counts of a round. */
typedef struct sb_trial_round {
    size_t kept;   /* rows */
    size_t before; /* drafts accepted in the round before */
    int has_other; /* another sequence had a round in the same call */
    size_t other;  /* accepted drafts of that sequence */
} sb_trial_round;
sb_status sb_trials_keep(sb_trials *trials, const sb_trial_round *round, sb_error *err);

const sb_state *sb_trial_state(const sb_trials *trials, size_t i);
sb_status sb_trial_logits(sb_trials *trials, size_t i, size_t row, float *logits, sb_error *err);

/* Notes that the distance of trial i from the engine is `ratio` bounds. */
void sb_trial_see(sb_trials *trials, size_t i, double ratio);

/* Notes the distance of the reference itself: the failure to be explained. */
void sb_trials_see_reference(sb_trials *trials, double ratio);

/* Writes "behaves as if ...", or that no known mistake fits. 0, and no words, if there is nothing
 * to explain. */
int sb_trials_say(const sb_trials *trials, char *words, size_t size);

#endif
