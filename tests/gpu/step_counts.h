/* step_counts.h - what the kernels of a session move, counted on the emulator, for tests in C. */
#ifndef SB_TESTS_GPU_STEP_COUNTS_H
#define SB_TESTS_GPU_STEP_COUNTS_H

#ifdef __cplusplus
extern "C" {
#endif

#include "gpu/kernel/cost.h"
#include "ref/run/backend.h"

/* The kernels on an emulator of its own that counts. */
const sb_backend *counting_backend(void);
void counting_forgets_weights(void);
void counting_begins(void); /* anew */

/* Of all launches of a kernel since then: different bytes of each, read and written. */
typedef struct step_counts {
    double launches, weights, kept, activations;
} step_counts;
step_counts counted_of(sb_cost_kernel kernel);

/* A kernel, or a buffer of one, that cost.def does not have; NULL: there is none. */
const char *counted_unknown(void);

#ifdef __cplusplus
}
#endif

#endif
