/* draw.h - the draws of sb_backend, computed by kernels: draw.cc. */
#ifndef SB_GPU_OP_DRAW_H
#define SB_GPU_OP_DRAW_H

#include "gpu/op/gpu.h"
#include "ref/run/backend.h"

/* The number of tokens in a part of a row. Rows are cut into parts so that even few rows make many
 * blocks. */
enum : size_t { SB_GREEDY_PART = 4096 };

sb_status sb_gpu_greedy(sb_gpu *gpu, const float *logits, size_t rows, uint32_t n,
                        uint32_t *tokens);
sb_status sb_gpu_draw(sb_gpu *gpu, const sb_draw_args *args);
sb_status sb_gpu_judge(sb_gpu *gpu, const sb_judge_args *args);

#endif
