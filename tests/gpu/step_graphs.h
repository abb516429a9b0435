/* step_graphs.h - compares a step whose parts are graphs, of the same kernels or of fused ones,
 * with a step that launches every kernel op by op (Y-19). */
#ifndef SB_TESTS_GPU_STEP_GRAPHS_H
#define SB_TESTS_GPU_STEP_GRAPHS_H

#include "gpu/gpu.h"
#include "ref/run/model.h"

typedef struct step_graphs {
    size_t calls;   /* by each step */
    size_t values;  /* the number of values compared */
    char first[64]; /* the call of the first difference, or "" */
} step_graphs;

/* Both steps take the same calls. Each width is used often enough to be launched, recorded and
 * replayed at several positions: a prompt, decode steps, verifies of 2 to 9 rows with some rows
 * kept, and drafts of the MTP head. The tokens, logits, hidden vectors and the state of every call
 * are compared. */
sb_status step_graphs_compare(const sb_backend *backend, const sb_model *model,
                              const sb_knobs *knobs, int fused, step_graphs *found, sb_error *err);

#endif
