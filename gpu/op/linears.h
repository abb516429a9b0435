/* linears.h - several linear layers of one input: in_proj of linear attention, q, k and v, gate and
 * up. */
#ifndef SB_GPU_OP_LINEARS_H
#define SB_GPU_OP_LINEARS_H

#include "gpu/op/gpu.h"

/* What sb_gpu_linear gives for each, in their order. Neighbours that have the input and the rows of
 * the one before are one launch where Y-65 lets them; its input is staged once for them. `staged`:
 * NULL, or that input in the fragments of sb_linear_stage, where `in` is not read but by layers
 * that do not take it so (quantized inputs, columns with an index). */
sb_status sb_gpu_linears(sb_gpu *gpu, const sb_knobs *knobs, const sb_linear_args *args,
                         size_t count, const void *staged);

#endif
