/* differ.h - the steps of an engine held against the reference, in both ways at once: each op alone
 * on recorded inputs (forced.h), and both sides on their own (free.h). One step at a time is in
 * memory. */
#ifndef SB_COMPARE_DIFFER_H
#define SB_COMPARE_DIFFER_H

#include "tools/compare/forced.h"
#include "tools/compare/free.h"

typedef struct sb_differ sb_differ;

typedef struct sb_differ_options {
    sb_forced_options forced;   /* without verdicts */
    sb_free_options free;       /* without verdicts */
    int with_forced, with_free; /* 1: required, 0: not wanted, -1: where the steps allow it */
    unsigned char inherited[SB_OP_COUNT]; /* ops that the engine handed to the reference */
    double tie_limit;                     /* a larger share of NEAR_TIE tokens is mistrusted */
    sb_verdicts *verdicts;
} sb_differ_options;

/* Of the options what most callers want: both ways as the data allows. */
void sb_differ_defaults(sb_differ_options *options, const sb_knobs *knobs,
                        const sb_arithmetic *arithmetic, sb_verdicts *verdicts);

sb_status sb_differ_new(const sb_model *model, const sb_differ_options *options, sb_differ **out,
                        sb_error *err);
void sb_differ_free(sb_differ *differ);

/* A sb_step_fn. */
sb_status sb_differ_step(void *differ, const sb_step *step, sb_error *err);

/* In the place of sb_differ_finish where the engine has refused to go on: the failures so far. */
void sb_differ_stop(sb_differ *differ);

/* Ends the statistics and says the verdict of the whole: verdicts->verdict and ->reason. */
sb_status sb_differ_finish(sb_differ *differ, sb_error *err);

size_t sb_differ_steps(const sb_differ *differ);     /* calls that had rows */
size_t sb_differ_sequences(const sb_differ *differ); /* the highest number, and one */

/* Whether something has failed so far, in either way. */
int sb_differ_failed(const sb_differ *differ);

/* Whether ops were judged. */
int sb_differ_forced(const sb_differ *differ);

/* The verdict of a whole from its parts: of the ops, tokens, rounds and states that were compared
 * the heaviest; if none was, why. What was SKIPPED or INHERITED does not pass for anything. */
void sb_differ_judge(sb_verdicts *verdicts, int forced_required, double tie_limit);

#endif
