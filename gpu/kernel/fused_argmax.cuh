/* fused_argmax.cuh - the greedy token of each row in one kernel: the block of the row that finishes
 * last writes the token. Y-84: "It does not matter which block comes last, since the largest key is
 * the same in any order" */
#ifndef SB_GPU_KERNEL_FUSED_ARGMAX_CUH
#define SB_GPU_KERNEL_FUSED_ARGMAX_CUH

#include "gpu/kernel/argmax.cuh"

/* best and done (rows) are zero before the kernel, and zero again after it. Every access to them is
 * atomic. grid (parts, rows) */
static __global__ void __launch_bounds__(SB_ARGMAX_THREADS)
    sb_argmax_kernel(sb_global<const float> logits, sb_global<uint64_t> best,
                     sb_global<uint32_t> done, sb_global<uint32_t> tokens, uint32_t n)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(uint64_t, room, SB_ARGMAX_WARPS);
    const uint64_t mine = sb_argmax_of_part(logits, room, n);
    if (threadIdx.x != 0)
        return;
    const sb_global<unsigned long long> largest = sb_cast<unsigned long long>(best + blockIdx.y);
    atomicMax(largest, mine);
    __threadfence();
    const uint32_t before = atomicAdd(done + blockIdx.y, 1u);
    if (before + 1 < gridDim.x - SB_PLANT(fused_argmax_early))
        return;
    __threadfence();
    tokens[blockIdx.y] = sb_argmax_id(atomicExch(largest, 0));
    atomicExch(done + blockIdx.y, 0u);
}

static inline sb_status sb_argmax_launch(const sb_queue *queue, sb_global<const float> logits,
                                         sb_global<uint64_t> best, sb_global<uint32_t> done,
                                         sb_global<uint32_t> tokens, uint32_t n, uint32_t rows,
                                         uint32_t parts)
{
    return SB_LAUNCH(queue, sb_argmax_kernel, dim3(parts, rows), SB_ARGMAX_THREADS, 0, logits, best,
                     done, tokens, n);
}

#endif
