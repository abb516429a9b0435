/* experts.h - the linear layers of all experts in one call: the member `experts` of a backend. */
#ifndef SB_GPU_OP_EXPERTS_H
#define SB_GPU_OP_EXPERTS_H

#include "gpu/op/gpu.h"
#include "ref/run/backend.h"

/* SB_ERR_UNSUPPORTED: the layers have no common form, or no kernel computes it. SB_ERR_USAGE: a row
 * has chosen an expert that does not exist. */
sb_status sb_gpu_experts(sb_gpu *gpu, const sb_knobs *knobs, const sb_expert_linear_args *args);

#endif
