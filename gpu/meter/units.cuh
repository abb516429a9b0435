/* units.cuh - timed kernels for the bf16 matrix unit and for a launch. */
#ifndef SB_METER_UNITS_CUH
#define SB_METER_UNITS_CUH

#include "gpu/atom/mma_half.h"
#include "gpu/meter/memory.cuh"

enum : uint32_t {
    SB_METER_CHAINS = 8, /* independent chains of products */
    SB_METER_BLOCKS = 4  /* blocks for each multiprocessor, as many as registers allow */
};

/* out (warps, CHAINS, 32, 4). Each chain adds `rounds` products of a and its own b; all chains
 * share a. H-8 defines the values of each lane. */
static __global__ void __launch_bounds__(SB_METER_THREADS)
    sb_meter_matrix(sb_global<const uint4> a, sb_global<const uint2> b, sb_global<float> out,
                    uint32_t rounds)
{
    sb_launch_ready();
    sb_launch_wait();
    const uint32_t lane = threadIdx.x % 32;
    const size_t warp = (static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
    const uint4 words = a[lane];
    const uint32_t left[4] = {words.x, words.y, words.z, words.w};
    uint32_t right[SB_METER_CHAINS][2];
    float sum[SB_METER_CHAINS][4] = {};
    SB_UNROLL
    for (uint32_t c = 0; c < SB_METER_CHAINS; c++) {
        const uint2 two = b[c * 32 + lane];
        right[c][0] = two.x;
        right[c][1] = two.y;
    }
    for (uint32_t i = 0; i < rounds; i++)
        SB_UNROLL
    for (uint32_t c = 0; c < SB_METER_CHAINS; c++)
        sb_mma_bf16(sum[c], left, right[c]);
    SB_UNROLL
    for (uint32_t c = 0; c < SB_METER_CHAINS; c++)
        SB_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        out[((warp * SB_METER_CHAINS + c) * 32 + lane) * 4 + i] = sum[c][i];
}

/* The shortest kernel that depends on its predecessor: one thread counts. */
static __global__ void sb_meter_tick(sb_global<uint32_t> count)
{
    sb_launch_ready();
    sb_launch_wait();
    const uint32_t before = count[0];
    count[0] = before + 1;
}

#endif
