/* differ.h - compares the steps of an engine with the reference in two ways: each op alone on
 * recorded inputs (forced.h), and both sides on their own (free.h). Only one step at a time is in
 * memory. */
#ifndef SB_COMPARE_DIFFER_H
#define SB_COMPARE_DIFFER_H

#include "tools/judge/compare/forced.h"
#include "tools/judge/compare/free.h"

typedef struct sb_differ sb_differ;

typedef struct sb_differ_options {
    sb_forced_options forced;   /* `verdicts` is not used */
    sb_free_options free;       /* `verdicts` is not used */
    int with_forced, with_free; /* 1: required, 0: not wanted, -1: if the steps allow it */
    unsigned char inherited[SB_OP_COUNT]; /* ops that the engine handed to the reference */
    double tie_limit;                     /* a larger share of NEAR_TIE tokens is mistrusted */
    sb_verdicts *verdicts;
} sb_differ_options;

/* Fills in the usual options: both ways, as far as the data allows. */
void sb_differ_defaults(sb_differ_options *options, const sb_knobs *knobs,
                        const sb_arithmetic *arithmetic, sb_verdicts *verdicts);

sb_status sb_differ_new(const sb_model *model, const sb_differ_options *options, sb_differ **out,
                        sb_error *err);
void sb_differ_free(sb_differ *differ);

/* An sb_step_fn. */
sb_status sb_differ_step(void *differ, const sb_step *step, sb_error *err);

/* Replaces sb_differ_finish if the engine refused to go on: reports the failures so far. */
void sb_differ_stop(sb_differ *differ);

/* Ends the statistics and sets the overall verdict: verdicts->verdict and ->reason. */
sb_status sb_differ_finish(sb_differ *differ, sb_error *err);

size_t sb_differ_steps(const sb_differ *differ);     /* calls that had rows */
size_t sb_differ_sequences(const sb_differ *differ); /* the highest sequence number plus 1 */

/* True if anything has failed so far, in either way. */
int sb_differ_failed(const sb_differ *differ);

/* True if ops are judged. */
int sb_differ_forced(const sb_differ *differ);

/* Makes the overall verdict: the worst of the ops, tokens, rounds and states that were compared. If
 * nothing was compared, the reason says why. SKIPPED or INHERITED parts never count as passed. */
void sb_differ_judge(sb_verdicts *verdicts, int forced_required, double tie_limit);

#endif
