/* runner.h - the engines of this program by their names: ref, sim:NAME, emu, gpu. */
#ifndef SB_CLI_RUNNER_H
#define SB_CLI_RUNNER_H

#include "ref/run/model.h"
#include "tools/cli/stage.h"
#include "tools/judge/bound/ball.h"
#include "tools/judge/sim/sim.h"

typedef struct sb_runner {
    const sb_backend *backend;
    const char *const *settings; /* required knobs, NULL-terminated */
    const sb_sim *sim;           /* or NULL */
    int kernels;                 /* emu or gpu */
} sb_runner;

/* True if `name` has the form of an engine's name; sim: may be followed by anything. */
int sb_runner_is(const char *name);

/* The message of SB_ERR_USAGE lists the engines. SB_ERR_SKIPPED: this machine or this program lacks
 * the engine. */
sb_status sb_runner_find(const char *name, sb_runner *out, sb_error *err);

/* Before a model is run: sb_runner_check_memory checks the room for its weights; sb_runner_load
 * copies them to a device in the form that the knobs require. */
sb_status sb_runner_check_memory(const sb_backend *backend, const sb_model *model, sb_error *err);
sb_status sb_runner_load(const sb_backend *backend, const sb_knobs *knobs, const sb_model *model,
                         sb_stage_progress progress, sb_error *err);

/* True if the reference computes an op under these knobs, so its result proves nothing
 * (INHERITED). */
int sb_runner_inherits(const sb_runner *runner, sb_op op, const sb_knobs *knobs);

/* The arithmetic of the engine. */
const sb_arithmetic *sb_runner_arithmetic(const sb_runner *runner);

#endif
