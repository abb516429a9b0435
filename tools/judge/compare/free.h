/* free.h - reference and engine each run on their own. Logits, choices and states are judged
 * against the noise of rounding.
 *
 * N further sessions of the reference run in lockstep, with random roundings. Their distance from
 * the reference is the envelope (T-40). Each choice of the engine is judged by its margin. A choice
 * that the envelope leaves open is adopted on both sides. */
#ifndef SB_COMPARE_FREE_H
#define SB_COMPARE_FREE_H

#include "ref/run/eagle3.h"
#include "ref/run/session.h"
#include "tools/judge/bound/ball.h"
#include "tools/judge/compare/verdict.h"
#include "tools/judge/trace/head.h"
#include "tools/judge/trace/step.h"

typedef struct sb_free sb_free;

typedef struct sb_free_options {
    const sb_knobs *knobs;
    const sb_arithmetic *arithmetic; /* arithmetic of the engine; NULL: library */
    size_t perturbed;                /* N */
    uint64_t seed;
    sb_verdicts *verdicts;      /* receives tokens, rounds, states, first failure */
    int mtp;                    /* the head makes the drafts, and they are compared, too */
    const sb_eagle3 *drafter;   /* makes the drafts, which are judged; or NULL */
    int external;               /* the drafts are not the head's and not judged (U-10) */
    int sampled;                /* the drafts are sampled: any token may be a draft */
    sb_trace_rollback rollback; /* how the engine undoes rows, if known: T-85 */
    int greedy;            /* the engine emits the token of the largest logit: tokens are judged */
    int same_arithmetic;   /* the engine claims to use the reference's arithmetic */
    int hidden;            /* judge hidden states alone, and go on from the engine's: T-92 */
    int explain;           /* try the mistakes of rollback.h if a round or a hit fails */
    uint32_t prefix_block; /* U-11: block length of the prefix cache, 0: not known */
    sb_coverage *coverage; /* receives the regimes of the reference's values, or NULL */
    sb_op_hook twin;       /* runs the ops of the reference, changed by an explanation; or NULL */
    void *twin_ctx;
} sb_free_options;

/* T-46: with a larger share of NEAR_TIE tokens the comparison is MISTRUSTED. */
#define SB_NEAR_TIE_LIMIT 0.1

sb_status sb_free_new(const sb_model *model, const sb_free_options *options, sb_free **out,
                      sb_error *err);
void sb_free_free(sb_free *free);

/* Judges one step: makes a token verdict per row of kind prompt, decode or verify (kept or
 * rejected), and a round verdict per round. Compares states with the reference's own. Sequences
 * that continue another one in this step must have a hit in `verdicts`. */
sb_status sb_free_step(sb_free *free, const sb_step *step, sb_error *err);

/* T-90: "these calls are computed again for it"; nothing is judged. */
sb_status sb_free_again(sb_free *free, const sb_step *step, sb_error *err);

sb_status sb_free_finish(sb_free *free, sb_error *err);

#endif
