/* diff_run.h - the comparison of one engine with the reference: from its steps to verdicts. */
#ifndef SB_CLI_DIFF_RUN_H
#define SB_CLI_DIFF_RUN_H

#include "tools/cli/diff_side.h"
#include "tools/judge/compare/explain.h"
#include "tools/judge/compare/ids.h"

enum { SB_NOTES = 1200 };

typedef struct sb_diff_run {
    /* in */
    const sb_model *model;
    sb_side *side;
    const sb_request *request; /* of a live engine; request->knobs are the reference's knobs */
    sb_knobs engine_knobs;     /* of a live engine */
    sb_arithmetic arithmetic;
    const char *taps, *bundle;
    uint64_t rows, perturbed, seed;
    int forced, free; /* as with_forced and with_free of differ.h */
    double need_ops;  /* T-91; below 0: not given */
    int declared;     /* the arithmetic and the functions are those of the engine */
    int explain, allow_self;
    const sb_eagle3 *eagle3;  /* the drafter whose folder was given, or NULL */
    sb_trace_drafter drafter; /* unknown: assumed to be the checkpoint's head */
    int sampled;              /* the engine samples its tokens, so they are not judged */
    /* out */
    sb_verdicts verdicts;
    size_t steps, sequences;
    int has_forced;
    sb_ids_verdict *pairs; /* (pair_count) verdicts of files of token ids */
    size_t pair_count;
    char notes[SB_NOTES]; /* lines */
} sb_diff_run;

/* Fills in the members after "out". A difference is a verdict, not an error. */
sb_status sb_diff_run_side(sb_diff_run *run, sb_error *err);
void sb_diff_run_free(sb_diff_run *run);

/* Adds a line to the notes. */
void sb_diff_note(sb_diff_run *run, const char *format, ...) SB_PRINTF(2, 3);

#endif
