/* forced_run.h - for tests of the forced comparison: an engine made of a table of ops. Its steps
 * are recorded in memory and judged at once. */
#ifndef SB_TESTS_LIB_FORCED_RUN_H
#define SB_TESTS_LIB_FORCED_RUN_H

#include "tools/judge/compare/forced.h"
#include "tools/judge/trace/capture.h"

typedef struct forced_run {
    const sb_model *model;
    const sb_op_table *ops;          /* of the engine; NULL: those of the reference */
    const sb_knobs *knobs;           /* of the engine; NULL: profile exact */
    const sb_knobs *judge;           /* of the comparison; NULL: the engine's */
    const sb_arithmetic *arithmetic; /* NULL: library */
    int declared;                    /* a bias fails: T-98 */
    const char *taps;                /* NULL: all */
    sb_capture_states states;
    const char *bundle;
    int mtp, any_form; /* any_form: as in sb_forced_options */
    size_t prompt, decoded,
        rounds;      /* calls of one row after the prompt; then rounds of two drafts */
    sb_op_hook hook; /* of the engine; NULL: none */
    void (*spoil)(void *ctx, sb_step *step); /* may change a step before the judgement */
    void *ctx;                               /* for both functions */
    sb_sited *twin;       /* a mistake in the ops of the comparison; NULL: none */
    sb_verdicts verdicts; /* out; sb_verdicts_free */
    double worst;         /* of all rows */
} forced_run;

/* Runs the engine over fixed tokens; asserts that nothing but comparisons fails. */
void forced_run_all(forced_run *run);

/* "linear WITHIN 0.02 (median 0.01), ..." on stdout. */
void forced_run_print(const forced_run *run);

#endif
