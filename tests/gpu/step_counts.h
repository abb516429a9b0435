/* step_counts.h - what the kernels of a session move, counted on the emulator, for tests in C. */
#ifndef SB_TESTS_GPU_STEP_COUNTS_H
#define SB_TESTS_GPU_STEP_COUNTS_H

#ifdef __cplusplus
extern "C" {
#endif

#include "gpu/kernel/cost.h"
#include "ref/run/backend.h"
#include "ref/run/model.h"

/* The kernels on an emulator of its own that counts. */
const sb_backend *counting_backend(void);
void counting_forgets_weights(void);
void counting_begins(void); /* anew */

/* Of all launches of a kernel since then: different bytes of each, read and written; and what its
 * blocks read of them beyond the first time, where cost.def has a number for it. */
typedef struct step_counts {
    double launches, weights, kept, activations, again;
} step_counts;
step_counts counted_of(sb_cost_kernel kernel);

/* Of layers that a kernel is compiled for nobody sees which it has: those are counted together. */
int counted_together(sb_cost_kernel a, sb_cost_kernel b);

/* A kernel, or a buffer of one, that cost.def does not have; NULL: there is none. */
const char *counted_unknown(void);

/* The same of one call of a step by fused kernels, every one of them launched by itself, behind so
 * many tokens: of one row, or a verify of several. `stays`: bytes of all matrices that it has
 * brought. */
typedef struct step_passes {
    double launches, read, by_blocks; /* of matrices and their scales */
    double stays, experts;            /* experts whose weights are read, in all layers */
} step_passes;
sb_status counting_step(const sb_model *model, const sb_knobs *knobs, size_t context, size_t rows,
                        step_passes *passes, sb_error *err);
step_counts counted_of_step(sb_cost_kernel kernel);

#ifdef __cplusplus
}
#endif

#endif
