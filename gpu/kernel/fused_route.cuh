/* fused_route.cuh - Y-84: "The choice of experts and the order of their pairs are one kernel", of
 * one block, for few rows. "Other blocks of its launch stage the input of the shared expert's
 * down." */
#ifndef SB_GPU_KERNEL_FUSED_ROUTE_CUH
#define SB_GPU_KERNEL_FUSED_ROUTE_CUH

#include "gpu/kernel/experts_sort.cuh"
#include "gpu/kernel/fused_stage.cuh"
#include "gpu/kernel/router.cuh"

enum : uint32_t { SB_CHOICE_ROWS = 9 }; /* at most; all pairs are one chunk of experts.cuh */

struct sb_choice_job {
    sb_global<const float> logits; /* (rows, experts) */
    sb_global<uint32_t> ids;       /* (rows, kept) */
    sb_global<float> weights;      /* (rows, kept) */
    sb_global<uint32_t> order;     /* as in sb_routed_rows, from here on */
    sb_global<uint32_t> begin;
    sb_global<uint2> sets;
    sb_global<uint32_t> count;
    uint32_t rows, experts, kept, most; /* most: the most pairs in a set */
    bool renormalise;
    /* What other blocks stage, as sb_linear_stage does; NULL: nothing. */
    sb_global<uint2> staged;
    sb_swiglu_input<float> beside;
    sb_linear_shape shape;
};

/* Block 0 chooses; a warp computes one row. The other blocks stage. Shared memory: 2 experts + kept
 * floats for each row. */
static __global__ void __launch_bounds__(SB_CHOICE_ROWS *SB_WARP)
    sb_choice_kernel(const sb_choice_job job)
{
    sb_launch_ready();
    sb_launch_wait();
    if (blockIdx.x > 0) {
        const size_t block = blockIdx.x - (SB_PLANT(fused_choice_block) ? 0 : 1);
        sb_linear_stage_at(block * blockDim.x + threadIdx.x, job.beside, nullptr, job.staged,
                           job.shape, job.rows);
        return;
    }
    SB_SHARED_DYNAMIC(float, room);
    SB_SHARED(uint32_t, mine, SB_ROUTE_CHUNK);
    SB_SHARED(uint32_t, begin, SB_ROUTE_EXPERTS + 1);
    SB_SHARED(uint32_t, first_set, SB_ROUTE_EXPERTS);
    const uint32_t row = threadIdx.x / SB_WARP, pairs = job.rows * job.kept;
    if (row < job.rows)
        sb_router_row(job.logits + row * job.experts, job.experts, job.kept, job.renormalise,
                      room + row * (2 * job.experts + job.kept), mine + row * job.kept,
                      job.weights + row * job.kept);
    if (!SB_PLANT(fused_choice_barrier))
        __syncthreads();
    for (uint32_t i = threadIdx.x; i < pairs; i += blockDim.x)
        job.ids[i] = mine[i];
    for (uint32_t e = threadIdx.x; e < job.experts; e += blockDim.x) {
        const uint32_t found = sb_route_found(mine, pairs, e);
        begin[e] = found;
        first_set[e] = (found + job.most - 1) / job.most;
    }
    sb_route_begin(begin, first_set, job.experts, job.count);
    for (uint32_t e = threadIdx.x; e < job.experts; e += blockDim.x) {
        sb_route_sets(begin, first_set, e, job.most, job.begin, job.sets);
        sb_route_put(mine, pairs, e, begin[e], 0, job.order);
    }
    if (threadIdx.x == 0)
        job.begin[job.experts] = pairs;
}

/* SB_ERR_UNSUPPORTED: too many rows, pairs or experts. */
static inline sb_status sb_choice_launch(const sb_queue *queue, const sb_choice_job &job)
{
    const size_t room = sizeof(float) * job.rows * (2 * size_t(job.experts) + job.kept);
    const uint32_t needed = sb_route_threads(job.experts), most = SB_CHOICE_ROWS * SB_WARP;
    const uint32_t rows = job.rows * SB_WARP, threads = rows > needed ? rows : needed;
    if (job.rows > SB_CHOICE_ROWS || job.rows * job.kept > SB_ROUTE_CHUNK || threads > most ||
        job.experts > SB_ROUTE_EXPERTS)
        return SB_ERR_UNSUPPORTED;
    uint32_t blocks = 1;
    if (job.staged)
        blocks +=
            static_cast<uint32_t>((sb_stage_words(job.shape, job.rows) + threads - 1) / threads);
    return SB_LAUNCH(queue, sb_choice_kernel, blocks, threads, room, job);
}

#endif
