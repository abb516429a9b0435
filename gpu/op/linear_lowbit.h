/* linear_lowbit.h - linear layers whose inputs are quantized, a part of the op `linear`. */
#ifndef SB_GPU_OP_LINEAR_LOWBIT_H
#define SB_GPU_OP_LINEAR_LOWBIT_H

#include "gpu/op/gpu.h"
#include "ref/ops/act_quant.h"

/* Y-50: "A layer whose input the knobs quantize (K-18 to K-22) multiplies codes with codes".
 * `scheme` is the result of sb_input_scheme, and is not SB_SCHEME_none. Fails with a message and
 * SB_ERR_UNSUPPORTED if no kernel computes the layer under these knobs. */
sb_status sb_gpu_linear_lowbit(sb_gpu *gpu, const sb_knobs *knobs, const sb_linear_args *a,
                               sb_act_scheme scheme);

#endif
