/* forced.h - feeds each op of the reference the engine's recorded inputs. So each op is judged
 * alone: an earlier fault does not count against it.
 *
 * One pass of a reference session over the rows of a step: its hook computes the bounds of an op
 * from its arguments before it runs. Its tap compares the recorded output with the result, and then
 * replaces the result by the recorded values, so that the next op has the engine's inputs. */
#ifndef SB_COMPARE_FORCED_H
#define SB_COMPARE_FORCED_H

#include "ref/run/eagle3.h"
#include "ref/run/session.h"
#include "tools/judge/bound/ball.h"
#include "tools/judge/compare/verdict.h"
#include "tools/judge/fault/site.h"
#include "tools/judge/trace/head.h"
#include "tools/judge/trace/step.h"

typedef struct sb_forced sb_forced;

/* The ops of one layer, to judge a change there before everywhere. */
typedef struct sb_forced_site {
    sb_op op; /* SB_OP_COUNT: every op of the layer */
    uint32_t layer;
} sb_forced_site;

/* The distance of one recorded element from the reference. */
typedef struct sb_forced_watch {
    const sb_place *at;
    int seen;
    double apart;
} sb_forced_watch;

typedef struct sb_forced_options {
    const sb_knobs *knobs;           /* knobs of both sides */
    const sb_arithmetic *arithmetic; /* arithmetic of the engine */
    sb_verdicts *verdicts;           /* receives ops, first failure, near ties */
    const char *bundle;              /* file for the first failing op (bundle.h), or NULL */
    sb_cells *cells;                 /* receives the ratios of each row of a step, or NULL */
    sb_coverage *coverage;           /* receives the regimes of the values, or NULL */
    int mtp;                         /* the steps have the head's taps */
    const sb_eagle3 *drafter;   /* the drafts are its own, and its values are judged; or NULL */
    int any_form;               /* the engine's form of the delta rule is not known: T-67 */
    sb_trace_rollback rollback; /* how the engine undoes rows, if known: T-85 */
    int has_need; /* T-91: this share of the values of ops has to be judged, whichever they are */
    double need;
    const sb_forced_site *site; /* judges these ops only, on recorded inputs; NULL: all */
    sb_forced_watch *watch;     /* receives the distance of one element, or NULL */
    int declared; /* the arithmetic and the functions are those of the engine: a bias fails, T-98 */
    int external; /* the drafts do not come from the head, which has no entries for them: T-86 */
    sb_sited *twin; /* a mistake in the ops of the reference, as an explanation; or NULL */
} sb_forced_options;

sb_status sb_forced_new(const sb_model *model, const sb_forced_options *options, sb_forced **out,
                        sb_error *err);
void sb_forced_free(sb_forced *forced);

/* One step: all its rows, sequence by sequence. worst[row] receives the largest error / bound of
 * the row. A step continues from its recorded states if it has any, else from the states that the
 * earlier recorded values gave. */
sb_status sb_forced_step(sb_forced *forced, const sb_step *step, double *worst, sb_error *err);

/* T-90: "these calls are computed again for it". Their values become known; nothing is judged.
 * *lost: the sequence cannot be followed. */
sb_status sb_forced_again(sb_forced *forced, const sb_step *step, int *lost, sb_error *err);

/* True if a sequence is lost because the reference itself reached a value that is not finite. */
int sb_forced_overflowed(const sb_forced *forced, uint32_t sequence);

/* Ends the statistics: computes tightness and verdict of each op. */
sb_status sb_forced_finish(sb_forced *forced, sb_error *err);

#endif
