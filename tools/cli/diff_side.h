/* diff_side.h - what is held against the reference: an engine of this program, a trace or a
 * dump of another, or a list of its tokens. */
#ifndef SB_CLI_DIFF_SIDE_H
#define SB_CLI_DIFF_SIDE_H

#include "tools/cli/dumped.h"
#include "tools/cli/runner.h"
#include "tools/cli/live.h"
#include "tools/compare/ball.h"
#include "tools/fault/op_faults.h"
#include "tools/trace/read.h"

typedef enum sb_side_kind {
    SB_SIDE_live, /* an engine of this program, and with a mistake planted: "emu+MISTAKE" */
    SB_SIDE_trace,
    SB_SIDE_dump, /* what another program wrote: docs/dumps.md */
    SB_SIDE_ids
} sb_side_kind;

/* A mistake of tools/fault by its name ("head_map_mod", "linear.dropped"), in every layer: a hook
 * of its own (sb_plant_hook). 0 if there is none of that name. */
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

/* Whether it names an engine of this program, which may have +MISTAKE behind it. */
int sb_side_is_live(const char *spec);

/* Finds out what `spec` is; opens a trace. SB_ERR_USAGE says what there could be. */
sb_status sb_side_open(const char *spec, const sb_dumped *dumped, sb_side *side, sb_error *err);

/* Opens a dump, now that the checkpoint is known; nothing else. */
sb_status sb_side_open_dump(sb_side *side, sb_dumped *dumped, const sb_model *model,
                            const char *folder, sb_error *err);
void sb_side_close(sb_side *side);

/* Whether the values come from the reference itself. */
int sb_side_is_reference(const sb_side *side);

/* Whether its steps were recorded: a trace, or a dump. */
int sb_side_recorded(const sb_side *side);

/* Whether two can be held against each other. */
int sb_side_alike(const sb_side *a, const sb_side *b);

/* Hands on the steps of a side that was recorded. */
sb_status sb_side_play(const sb_side *side, sb_step_fn take, void *ctx, sb_error *err);

/* The arithmetic that it computes in, as far as it says. */
const sb_arithmetic *sb_side_arithmetic(const sb_side *side);

/* Whether both are one and the same folder or file, traces that say the same of every step, or the
 * same engine of this program. */
int sb_side_same(const sb_side *a, const sb_side *b);

/* A trace of another checkpoint is refused: SB_ERR_INPUT. *unknown: it does not say which. */
sb_status sb_side_check(const sb_side *side, const sb_model *model, int *unknown, sb_error *err);

#endif
