/* kernels.h - faults of kernels (gpu/kernel/plants.def) in a run of a whole model on the emulator.
 */
#ifndef SB_FAULT_KERNELS_H
#define SB_FAULT_KERNELS_H

#include "tools/judge/fault/faults.h"
#include "tools/judge/fault/trial.h"
#include "tools/make/choices.h"

/* All faults of kernels, then the same runs without a fault under other schedules. */
size_t sb_kernel_fault_count(void);
void sb_kernel_fault_at(size_t i, sb_fault *out);

/* Makes the emulator the engine of the trial, with the fault planted until sb_kernel_unplant. Only
 * ops are compared, each alone, because a kernel is one op. */
sb_status sb_kernel_plant(const sb_fault *fault, sb_trial *trial, sb_error *err);
void sb_kernel_unplant(void);

/* Call before a model is closed that may have run on the emulator. */
void sb_kernel_forget(void);

/* A shape that is no preset; NULL for an unknown name. */
const sb_make_preset *sb_kernel_shape(const char *name);

#endif
