/* reduce.cuh - sums over the threads of a block, in an order that depends only on the number of
 * threads. */
#ifndef SB_GPU_KERNEL_REDUCE_CUH
#define SB_GPU_KERNEL_REDUCE_CUH

#include "gpu/kernel/kernel.h"
#include "gpu/cuda.h"

enum { SB_WARP = 32, SB_SUM_WARPS = 8 }; /* the most warps in a sum */
static const unsigned sb_all_lanes = 0xffffffffu;

/* A butterfly: all lanes get the same bits, since a + b is b + a. */
SB_KERNEL_FN float sb_warp_sum(float x)
{
    for (int with = SB_WARP / 2; with > (SB_PLANT(reduce_half_warp) ? 1 : 0); with /= 2)
        x = __fadd_rn(x, __shfl_xor_sync(sb_all_lanes, x, with));
    return x;
}

SB_KERNEL_FN float sb_warp_max(float x)
{
    for (int with = SB_WARP / 2; with > 0; with /= 2) {
        const float other = __shfl_xor_sync(sb_all_lanes, x, with);
        x = other > x ? other : x;
    }
    return x;
}

/* Call this once per block, with all threads; all warps must be whole. Adds the values of the first
 * `threads` threads: first within each warp, then the warps in order. */
SB_KERNEL_FN float sb_block_sum(float x, sb_shared<float> part, unsigned threads)
{
    x = sb_warp_sum(x);
    if (blockDim.x == SB_WARP)
        return x;
    if (threadIdx.x < threads && threadIdx.x % SB_WARP == 0)
        part[threadIdx.x / SB_WARP] = x;
    if (!SB_PLANT(reduce_barrier))
        __syncthreads();
    float sum = part[0];
    for (unsigned warp = 1; warp < threads / SB_WARP; warp++)
        sum = __fadd_rn(sum, part[warp]);
    return sum;
}

/* The number of threads that add n terms. It depends only on n, so the order of the sum depends
 * only on n, too. */
__host__ __device__ inline unsigned sb_sum_threads(size_t n)
{
    const size_t warps = (n + 127) / 128, most = SB_SUM_WARPS;
    return static_cast<unsigned>(warps < most ? warps : most) * SB_WARP;
}

#endif
