/* diff_side.h - the side compared with the reference: an engine of this program, a trace or a dump
 * of another engine, or a list of its tokens. */
#ifndef SB_CLI_DIFF_SIDE_H
#define SB_CLI_DIFF_SIDE_H

#include "tools/cli/dumped.h"
#include "tools/cli/runner.h"
#include "tools/cli/live.h"
#include "tools/judge/bound/ball.h"
#include "tools/judge/fault/op_faults.h"
#include "tools/judge/trace/read.h"

typedef enum sb_side_kind {
    SB_SIDE_live, /* an engine of this program, or with a planted mistake: "emu+MISTAKE" */
    SB_SIDE_trace,
    SB_SIDE_dump, /* written by another program: docs/dumps.md */
    SB_SIDE_ids
} sb_side_kind;

/* A mistake of tools/judge/fault by its name ("head_map_mod", "linear.dropped"), in every layer,
 * for sb_plant_hook. Returns 0 if there is none of that name. */
int sb_plant_find(const char *name, sb_plant *plant);

typedef struct sb_side {
    sb_side_kind kind;
    const char *spec;
    sb_runner runner; /* if live */
    sb_plant plant;   /* if has_fault */
    int has_fault;
    sb_trace *trace;
    sb_dump *dump;
} sb_side;

/* True if spec names an engine of this program, with or without +MISTAKE. */
int sb_side_is_live(const char *spec);

/* Determines the kind of `spec`; opens a trace. The message of SB_ERR_USAGE lists the kinds. */
sb_status sb_side_open(const char *spec, const sb_dumped *dumped, sb_side *side, sb_error *err);

/* Opens the dump after the checkpoint is known; does nothing for other kinds. */
sb_status sb_side_open_dump(sb_side *side, sb_dumped *dumped, const sb_model *model,
                            const char *folder, sb_error *err);
void sb_side_close(sb_side *side);

/* True if the values come from the reference itself. */
int sb_side_is_reference(const sb_side *side);

/* True if its steps are recorded: a trace or a dump. */
int sb_side_recorded(const sb_side *side);

/* True if the two can be compared with each other. */
int sb_side_alike(const sb_side *a, const sb_side *b);

/* Passes the steps of a recorded side to `take`; before a sequence that continues another one, also
 * the steps that fed its prefix (sb_trace_play_again). */
sb_status sb_side_play(const sb_side *side, sb_step_fn take, void *ctx, sb_error *err);

/* The arithmetic of its computation, as far as the side declares one. */
const sb_arithmetic *sb_side_arithmetic(const sb_side *side);

/* True if both are the same folder or file, traces with the same content in every step, or the same
 * engine of this program. */
int sb_side_same(const sb_side *a, const sb_side *b);

/* SB_ERR_INPUT for a trace of another checkpoint. *unknown: the trace does not name its
 * checkpoint. */
sb_status sb_side_check(const sb_side *side, const sb_model *model, int *unknown, sb_error *err);

#endif
