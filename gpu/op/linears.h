/* linears.h - several linear layers of one input: in_proj of linear attention, q, k and v, gate and
 * up. */
#ifndef SB_GPU_OP_LINEARS_H
#define SB_GPU_OP_LINEARS_H

#include "gpu/op/gpu.h"

/* The results of sb_gpu_linear for each layer, in order. Neighbours with the same input and rows
 * become one launch where Y-65 allows it, and share one staged input. `staged` is NULL, or the
 * input in the fragments of sb_linear_stage; `in` is then read only by layers that cannot take
 * fragments (quantized inputs, columns with an index). */
sb_status sb_gpu_linears(sb_gpu *gpu, const sb_knobs *knobs, const sb_linear_args *args,
                         size_t count, const void *staged);

#endif
