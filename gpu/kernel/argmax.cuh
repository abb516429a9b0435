/* argmax.cuh - the greedy token of each row of logits. R-20: "the one with the largest logit, the
 * lowest id among equals" */
#ifndef SB_KERNEL_ARGMAX_CUH
#define SB_KERNEL_ARGMAX_CUH

#include "gpu/cuda.h"
#include "gpu/kernel/kernel.h"
#include "gpu/math/word.h"

enum : uint32_t { SB_ARGMAX_THREADS = 256, SB_ARGMAX_WARPS = SB_ARGMAX_THREADS / 32 };

/* Maps x to an integer in the same order. Both zeros have the same integer; a NaN has 0. */
SB_KERNEL_FN uint32_t sb_rising(float x)
{
    const uint32_t bits = x == 0 ? 0 : sb_gpu_bits(x);
    if (x != x)
        return 0;
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* The key of a logit: a larger key means a larger logit, or a lower id among equal logits. Y-70:
 * "A NaN that stands first counts as the largest, and no other NaN does" */
SB_KERNEL_FN uint64_t sb_argmax_key(float x, uint32_t id)
{
    const uint32_t rising = x != x && id == 0 ? 0xffffffffu : sb_rising(x);
    return static_cast<uint64_t>(rising) << 32 | (SB_PLANT(argmax_highest_id) ? id : ~id);
}
SB_KERNEL_FN uint32_t sb_argmax_id(uint64_t key)
{
    return SB_PLANT(argmax_highest_id) ? static_cast<uint32_t>(key) : ~static_cast<uint32_t>(key);
}

/* Returns, in every thread, the largest key of a block of SB_ARGMAX_THREADS threads. */
SB_KERNEL_FN uint64_t sb_argmax_block(uint64_t key, sb_shared<uint64_t> room)
{
    for (int with = 16; with > 0; with /= 2) {
        const uint64_t other = __shfl_xor_sync(0xffffffffu, key, with);
        key = other > key ? other : key;
    }
    __syncthreads(); /* an earlier call may still use `room` */
    if (threadIdx.x % 32 == 0)
        room[threadIdx.x / 32] = key;
    if (!SB_PLANT(argmax_barrier))
        __syncthreads();
    for (uint32_t warp = 0; warp < SB_ARGMAX_WARPS; warp++) {
        const uint64_t other = room[warp];
        key = other > key ? other : key;
    }
    return key;
}

/* Returns the largest key of the block's part of a row. grid (parts, rows) */
SB_KERNEL_FN uint64_t sb_argmax_of_part(sb_global<const float> logits, sb_shared<uint64_t> room,
                                        uint32_t n)
{
    const uint32_t each = (n + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each;
    const uint32_t last = first + each < n ? first + each : n;
    uint64_t best = 0;
    for (uint32_t i = first + threadIdx.x; i < last - SB_PLANT(argmax_last);
         i += SB_ARGMAX_THREADS) {
        const float x = logits[static_cast<size_t>(blockIdx.y) * n + i];
        const uint64_t key = sb_argmax_key(x, i);
        best = key > best ? key : best;
    }
    return sb_argmax_block(best, room);
}

/* partial (rows, parts): the largest key of each part of a row. */
static __global__ void __launch_bounds__(SB_ARGMAX_THREADS)
    sb_argmax_part(sb_global<const float> logits, sb_global<uint64_t> partial, uint32_t n)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(uint64_t, room, SB_ARGMAX_WARPS);
    const uint64_t best = sb_argmax_of_part(logits, room, n);
    if (threadIdx.x == 0)
        partial[blockIdx.y * gridDim.x + blockIdx.x] = best;
}

/* tokens (rows). grid: rows */
static __global__ void __launch_bounds__(SB_ARGMAX_THREADS)
    sb_argmax_end(sb_global<const uint64_t> partial, sb_global<uint32_t> tokens, uint32_t parts)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(uint64_t, room, SB_ARGMAX_WARPS);
    uint64_t best = 0;
    for (uint32_t i = threadIdx.x; i < parts; i += SB_ARGMAX_THREADS) {
        const uint64_t key = partial[static_cast<size_t>(blockIdx.x) * parts + i];
        best = key > best ? key : best;
    }
    best = sb_argmax_block(best, room);
    if (threadIdx.x == 0)
        tokens[blockIdx.x] = sb_argmax_id(best);
}

#endif
