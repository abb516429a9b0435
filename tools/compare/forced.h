/* forced.h - each op of the reference, fed the engine's own recorded inputs: an op is judged alone,
 * and nothing that went wrong before it counts against it.
 *
 * One pass of a reference session over the rows of a step: its hook bounds an op from its arguments
 * before it runs, its tap holds the recorded output against the result and then puts the recorded
 * values in its place, so that the next op reads what the engine's read. */
#ifndef SB_COMPARE_FORCED_H
#define SB_COMPARE_FORCED_H

#include "ref/run/session.h"
#include "tools/compare/ball.h"
#include "tools/compare/verdict.h"
#include "tools/trace/head.h"
#include "tools/trace/step.h"

typedef struct sb_forced sb_forced;

typedef struct sb_forced_options {
    const sb_knobs *knobs;           /* of both sides */
    const sb_arithmetic *arithmetic; /* of the engine; the other side is the reference's */
    sb_verdicts *verdicts;           /* gets ops, first failure, near ties */
    const char *bundle;              /* file for the first failing op, or NULL (bundle.h) */
    sb_cells *cells;                 /* gets the ratios of each row of a step, or NULL */
    int mtp;                         /* the steps have the head's taps */
    int any_form; /* nobody says in which form the engine computes the delta rule: T-67 */
    sb_trace_rollback rollback; /* how the engine goes back, as far as it says: T-85 */
    int external;               /* the head made no drafts, and no entry of one: T-86 */
    sb_op_hook twin; /* runs the ops of the reference's side, so that it is another model: what
                      * an explanation tries. NULL: sb_op_run */
    void *twin_ctx;
} sb_forced_options;

sb_status sb_forced_new(const sb_model *model, const sb_forced_options *options, sb_forced **out,
                        sb_error *err);
void sb_forced_free(sb_forced *forced);

/* One step: all its rows, sequence by sequence. worst[row] gets the largest error / bound of the
 * row. A step with states of its own continues from them, else from what the recorded values gave.
 */
sb_status sb_forced_step(sb_forced *forced, const sb_step *step, double *worst, sb_error *err);

/* Whether a sequence is lost because the reference itself came to a value that is not finite. */
int sb_forced_overflowed(const sb_forced *forced, uint32_t sequence);

/* Ends the statistics: tightness, verdict per op. */
sb_status sb_forced_finish(sb_forced *forced, sb_error *err);

#endif
