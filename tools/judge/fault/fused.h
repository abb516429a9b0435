/* fused.h - a correct engine whose fused kernels keep in binary32 what they do not write (T-91). */
#ifndef SB_FAULT_FUSED_H
#define SB_FAULT_FUSED_H

#include "ref/run/hook.h"

typedef struct sb_fused {
    unsigned view; /* what the engine records (cut.h) */
    uint64_t seed; /* of the view */
    uint32_t layers;
    size_t ran; /* ops that were not rounded */
} sb_fused;

/* An sb_op_hook; ctx is an sb_fused. If the view has no output of an op, the op leaves its outputs
 * in binary32. Linear layers, swiglu and the sum of experts round as the knobs say; so do ops that
 * round inside as well, or that read parameters in binary32. */
sb_status sb_fused_hook(void *ctx, const sb_op_call *call);

#endif
