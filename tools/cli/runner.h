/* runner.h - the engines of this program by their names: ref, sim:NAME, emu, gpu. */
#ifndef SB_CLI_RUNNER_H
#define SB_CLI_RUNNER_H

#include "ref/run/model.h"
#include "tools/cli/stage.h"
#include "tools/compare/ball.h"
#include "tools/sim/sim.h"

typedef struct sb_runner {
    const sb_backend *backend;
    const char *const *settings; /* knobs that it wants, NULL at the end */
    const sb_sim *sim;           /* or NULL */
    int kernels;                 /* emu or gpu */
} sb_runner;

/* Whether `name` is that of an engine, as far as it goes: sim:anything is. */
int sb_runner_is(const char *name);

/* SB_ERR_USAGE says what there is; SB_ERR_SKIPPED if this machine, or this program, has it not. */
sb_status sb_runner_find(const char *name, sb_runner *out, sb_error *err);

/* Before a model is run: is there room for its weights? A device has them then, brought as these
 * knobs want them. */
sb_status sb_runner_room(const sb_backend *backend, const sb_model *model, sb_error *err);
sb_status sb_runner_load(const sb_backend *backend, const sb_knobs *knobs, const sb_model *model,
                         sb_stage_progress progress, sb_error *err);

/* True if under these knobs an op is the reference's: its result says nothing (INHERITED). */
int sb_runner_inherits(const sb_runner *runner, sb_op op, const sb_knobs *knobs);

/* How it computes. */
const sb_arithmetic *sb_runner_arithmetic(const sb_runner *runner);

#endif
