/* memory.cuh - timed kernels for memory. They store a result that depends on all their work, so
 * that the compiler cannot remove any work, and the host checks this result. */
#ifndef SB_METER_MEMORY_CUH
#define SB_METER_MEMORY_CUH

#include "gpu/cuda.h"
#include "gpu/kernel/kernel.h"
#include "gpu/meter/counter.h"

enum : uint32_t {
    SB_METER_THREADS = 256,
    SB_METER_LOADS = 8 /* loads of 16 bytes that a thread has in flight */
};

/* The 16-byte word i becomes numbers 2 i and 2 i + 1 of the stream. */
static __global__ void __launch_bounds__(SB_METER_THREADS)
    sb_meter_fill(sb_global<uint4> to, size_t words, uint64_t key)
{
    sb_launch_ready();
    sb_launch_wait();
    const size_t threads = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words;
         i += threads) {
        const uint64_t low = sb_counter_bits(key, 2 * i), high = sb_counter_bits(key, 2 * i + 1);
        to[i] = make_uint4(static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
                           static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32));
    }
}

/* Returns, in thread 0, the sum over the threads of a block. */
SB_KERNEL_FN uint32_t sb_meter_sum(uint32_t sum, sb_shared<uint32_t> part)
{
    for (uint32_t lanes = 16; lanes > 0; lanes /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, static_cast<int>(lanes));
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (uint32_t i = 0; i < SB_METER_THREADS / 32; i++) {
        const uint32_t other = part[i];
        sum += other;
    }
    return sum;
}

SB_KERNEL_FN uint32_t sb_meter_fold(const uint4 &word)
{
    return word.x + word.y + word.z + word.w;
}

/* sums[block] becomes the sum of all 32-bit words that the block reads. Each word is read once, 16
 * bytes at a time; neighbouring threads read neighbouring words. */
static __global__ void __launch_bounds__(SB_METER_THREADS)
    sb_meter_read(sb_global<const uint4> from, size_t words, sb_global<uint32_t> sums)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(uint32_t, part, SB_METER_THREADS / 32);
    const size_t threads = static_cast<size_t>(gridDim.x) * blockDim.x;
    size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    uint32_t sum = 0;
    for (; i + (SB_METER_LOADS - 1) * threads < words; i += SB_METER_LOADS * threads) {
        uint4 word[SB_METER_LOADS];
        SB_UNROLL
        for (uint32_t j = 0; j < SB_METER_LOADS; j++)
            word[j] = from[i + j * threads];
        SB_UNROLL
        for (uint32_t j = 0; j < SB_METER_LOADS; j++)
            sum += sb_meter_fold(word[j]);
    }
    for (; i < words; i += threads) {
        const uint4 word = from[i];
        sum += sb_meter_fold(word);
    }
    sum = sb_meter_sum(sum, part);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

static __global__ void __launch_bounds__(SB_METER_THREADS)
    sb_meter_copy(sb_global<const uint4> from, sb_global<uint4> to, size_t words)
{
    sb_launch_ready();
    sb_launch_wait();
    const size_t threads = static_cast<size_t>(gridDim.x) * blockDim.x;
    size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; i + (SB_METER_LOADS - 1) * threads < words; i += SB_METER_LOADS * threads) {
        uint4 word[SB_METER_LOADS];
        SB_UNROLL
        for (uint32_t j = 0; j < SB_METER_LOADS; j++)
            word[j] = from[i + j * threads];
        SB_UNROLL
        for (uint32_t j = 0; j < SB_METER_LOADS; j++)
            to[i + j * threads] = word[j];
    }
    for (; i < words; i += threads)
        to[i] = from[i];
}

#endif
