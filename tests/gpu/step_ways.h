/* step_ways.h - one sequence of calls, computed in every way that a backend has: op by op, and as a
 * step that is launched or replayed, of single or fused kernels, with dependent launches or without
 * (Y-16, Y-19, Y-71). All ways must give the same bits. */
#ifndef SB_TESTS_GPU_STEP_WAYS_H
#define SB_TESTS_GPU_STEP_WAYS_H

#include <stdio.h>

#include "gpu/gpu.h"
#include "ref/run/model.h"

typedef struct step_ways {
    size_t ways, calls, differ; /* differ: ways with another digest than the first way */
    char first[160];            /* the first difference, or "" */
    char all[33];               /* the digest of the first way */
} step_ways;

/* Plays the calls in every way: a prompt, decode steps, verifies whose rows are kept in part, and
 * drafts. A line of `out` has the digest of each call's logits and states. */
sb_status step_ways_compare(const sb_backend *backend, const sb_model *model, const sb_knobs *knobs,
                            FILE *out, step_ways *found, sb_error *err);

/* Replays the graphs of a step, of fused kernels with dependent launches, at least `replays` times.
 * The host waits only at the end of a sequence of 16 decode steps and 8 rounds of two drafts. Each
 * sequence must have the tokens, logits and states of a sequence that is launched kernel by kernel,
 * without dependent launches. */
typedef struct step_replays {
    size_t replays, sequences, differ;
    char all[33]; /* the digest of the launched sequence */
} step_replays;
sb_status step_replays_compare(const sb_backend *backend, const sb_model *model,
                               const sb_knobs *knobs, size_t replays, step_replays *found,
                               sb_error *err);

#endif
