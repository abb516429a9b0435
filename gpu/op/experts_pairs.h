/* experts_pairs.h - the part of expert layers that quantized and bfloat16 inputs share: the pairs
 * sorted by expert, and the product of all pairs. */
#ifndef SB_GPU_OP_EXPERTS_PAIRS_H
#define SB_GPU_OP_EXPERTS_PAIRS_H

#include "gpu/kernel/experts_rows.cuh"
#include "gpu/kernel/wide_launch.cuh"
#include "gpu/op/experts.h"
#include "gpu/op/fused.h"
#include "ref/ops/act_quant.h"

#ifdef __CUDACC__
namespace sb_on_device
#else
namespace sb_on_host
#endif
{
/* The pairs of a call, sorted by expert. */
struct sb_gpu_pairs {
    sb_routed_rows rows;
    uint32_t most, sets; /* the most pairs of a set; the most sets */
};
}

/* Y-61: "A set has at most 8 pairs, or 64 where an expert has more than 8 on average" - "Where an
 * expert has more than 32 on average, sets of 128" only if `many`, which says that a kernel for
 * such sets exists. */
static inline uint32_t sb_gpu_set_of(uint32_t pairs, uint32_t experts, bool many)
{
    if (many && sb_wide_takes_experts(pairs, experts))
        return SB_WIDE_ROWS;
    return (pairs / SB_TILE_INPUTS > experts ? 8 : 1) * SB_TILE_INPUTS;
}

/* The sorted pairs and the staged input, if the caller already has them. Either may be NULL. */
struct sb_gpu_given {
    const sb_gpu_choice *choice;
    const uint32_t *staged;
};
sb_gpu_pairs sb_gpu_route(sb_gpu_work &work, const sb_expert_linear_args *a,
                          const sb_gpu_given &given, bool many);

static inline sb_gpu_matrices sb_gpu_matrices_of(const sb_expert_linear_args *a)
{
    return {a->weight, a->stride, a->experts};
}

/* Multiplies all pairs. One weight has `tiles` tiles; `count` is the number of layers, 1 or 2. */
template <class LAYER>
static void sb_gpu_multiply_pairs(sb_gpu_work &work, const sb_tile_layers<LAYER, float> &layers,
                                  unsigned count, const sb_gpu_pairs &pairs, size_t tiles,
                                  uint32_t wide)
{
    const dim3 grid(static_cast<unsigned>(tiles), pairs.sets, count);
    if (pairs.most == SB_TILE_INPUTS)
        SB_GPU_RUN(work, (sb_tile_kernel<LAYER, 1, sb_routed_rows, float>), grid, SB_TILE_THREADS,
                   sb_tile_bytes(1), layers, pairs.rows, wide);
    else
        SB_GPU_RUN(work, (sb_tile_kernel<LAYER, 8, sb_routed_rows, float>), grid, SB_TILE_THREADS,
                   sb_tile_bytes(8), layers, pairs.rows, wide);
}

/* sb_gpu_experts for quantized inputs. All experts have the same `scheme`, which is not
 * SB_SCHEME_none. */
sb_status sb_gpu_experts_lowbit(sb_gpu_work &work, const sb_knobs *knobs,
                                const sb_expert_linear_args *a, sb_act_scheme scheme,
                                const sb_gpu_given &given);

#endif
