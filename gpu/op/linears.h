/* linears.h - several linear layers of one input: the parts of in_proj of linear attention; q, k
 * and v; gate and up. */
#ifndef SB_GPU_OP_LINEARS_H
#define SB_GPU_OP_LINEARS_H

#include "gpu/op/gpu.h"

/* Computes the same as sb_gpu_linear for each layer, in order. Where Y-65 allows it, neighbours
 * with the same input and rows become one launch and share one staged input. `staged` is NULL, or
 * the input in the fragments of sb_linear_stage. Only layers that cannot take fragments (quantized
 * inputs, columns with an index) then read args->in. */
sb_status sb_gpu_linears(sb_gpu *gpu, const sb_knobs *knobs, const sb_linear_args *args,
                         size_t count, const void *staged);

#endif
