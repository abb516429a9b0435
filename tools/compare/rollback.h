/* rollback.h - what a sequence would be if its rounds were undone wrongly: one session of the
 * reference for each mistake, fed what the engine was fed.
 *
 * Each makes its mistake in every round. The one that keeps agreeing with the engine where the
 * reference does not is what the engine behaves like (T-47). */
#ifndef SB_COMPARE_ROLLBACK_H
#define SB_COMPARE_ROLLBACK_H

#include "ref/run/session.h"
#include "tools/compare/verdict.h"

typedef struct sb_trials sb_trials;

/* options: of the sessions; without a head. */
sb_status sb_trials_new(const sb_model *model, const sb_session_options *options, sb_trials **out,
                        sb_error *err);
void sb_trials_free(sb_trials *trials);
void sb_trials_reset(sb_trials *trials);

size_t sb_trials_count(const sb_trials *trials);
const char *sb_trial_words(size_t i); /* "the recurrent state is read from the first slot" */

/* Before a call of n rows, and before its state is looked at. */
sb_status sb_trials_begin(sb_trials *trials, size_t n, sb_error *err);

/* What the engine was fed: as sb_session_feed and sb_session_verify. */
sb_status sb_trials_feed(sb_trials *trials, const uint32_t *tokens, size_t n, sb_error *err);
sb_status sb_trials_verify(sb_trials *trials, const uint32_t *tokens, size_t n, sb_error *err);

/* The counts of a round. */
typedef struct sb_trial_round {
    size_t kept;   /* rows */
    size_t before; /* drafts accepted in the round before */
    int has_other; /* another sequence had a round in the same call */
    size_t other;  /* of which so many drafts were accepted */
} sb_trial_round;
sb_status sb_trials_keep(sb_trials *trials, const sb_trial_round *round, sb_error *err);

const sb_state *sb_trial_state(const sb_trials *trials, size_t i);
sb_status sb_trial_logits(sb_trials *trials, size_t i, size_t row, float *logits, sb_error *err);

/* Evidence: trial i is `ratio` bounds away from what the engine has. */
void sb_trial_see(sb_trials *trials, size_t i, double ratio);

/* The reference itself is: what is explained. */
void sb_trials_see_reference(sb_trials *trials, double ratio);

/* "behaves as if ..." in words, or that nothing known fits; 0, and no words, if there is nothing to
 * explain. */
int sb_trials_say(const sb_trials *trials, char *words, size_t size);

#endif
