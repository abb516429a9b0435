/* free.h - the reference alone beside the engine alone: logits, choices and states, judged against
 * the noise that rounding makes.
 *
 * N further sessions of the reference, in which every rounding point of the profile is rounded up
 * or down at random, run in lockstep: how far they move is the envelope (T-15). Their discrete
 * choices are held to the reference's. Each choice of the engine is judged by its own margin, and
 * one that the envelope leaves open is adopted on both sides. */
#ifndef SB_COMPARE_FREE_H
#define SB_COMPARE_FREE_H

#include "ref/run/session.h"
#include "tools/compare/ball.h"
#include "tools/compare/verdict.h"
#include "tools/trace/head.h"
#include "tools/trace/step.h"

typedef struct sb_free sb_free;

typedef struct sb_free_options {
    const sb_knobs *knobs;
    const sb_arithmetic *arithmetic; /* of the engine; NULL: library */
    size_t perturbed;                /* N */
    uint64_t seed;
    sb_verdicts *verdicts; /* gets tokens, rounds, states, first failure */
    int mtp;               /* drafts are compared, too: they are the head's largest logits */
    int external;          /* the drafts are not the head's: they are taken as they are (U-10) */
    int sampled;           /* the drafts are drawn: any token may be one */
    sb_trace_rollback rollback; /* how the engine goes back, as far as it says: T-85 */
    int greedy;                 /* the engine emits its largest logits: its tokens are judged */
    int same_arithmetic;        /* the engine says that its is the reference's */
    int explain;                /* try the rollback hypotheses where a round fails (rollback.h) */
    sb_op_hook twin; /* runs the ops of the reference's side, so that it is another model: what
                      * an explanation tries. NULL: sb_op_run */
    void *twin_ctx;
} sb_free_options;

/* T-46: a larger share of tokens that are NEAR_TIE is MISTRUSTED. */
#define SB_NEAR_TIE_LIMIT 0.1

sb_status sb_free_new(const sb_model *model, const sb_free_options *options, sb_free **out,
                      sb_error *err);
void sb_free_free(sb_free *free);

/* One step: a token verdict per row of kind prompt, decode or verify (kept or rejected), a round
 * verdict per round; states against the reference's own. */
sb_status sb_free_step(sb_free *free, const sb_step *step, sb_error *err);
sb_status sb_free_finish(sb_free *free, sb_error *err);

#endif
