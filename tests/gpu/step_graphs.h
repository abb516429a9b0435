/* step_graphs.h - a step whose parts are graphs, of the same kernels or of fused ones, beside one
 * that launches every kernel op by op (Y-19). */
#ifndef SB_TESTS_GPU_STEP_GRAPHS_H
#define SB_TESTS_GPU_STEP_GRAPHS_H

#include "gpu/gpu.h"
#include "ref/run/model.h"

typedef struct step_graphs {
    size_t calls;   /* of both */
    size_t values;  /* that were compared */
    char first[64]; /* the call of the first that differs, or "" */
} step_graphs;

/* Both take the same calls, each width often enough to be launched, recorded and replayed at
 * several positions: a prompt, decode steps, verifies of 2 to 9 rows of which some are kept, drafts
 * of a head. Of every call the tokens, logits, hidden vectors and the state. */
sb_status step_graphs_compare(const sb_backend *backend, const sb_model *model,
                              const sb_knobs *knobs, int fused, step_graphs *found, sb_error *err);

#endif
