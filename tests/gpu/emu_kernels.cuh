/* emu_kernels.cuh - small kernels for the tests of the emulator, each with its possible faults.
 *
 * A kernel is compiled with fault F; with NONE it is right. The kernels are plain CUDA. */
#ifndef SB_TESTS_GPU_EMU_KERNELS_CUH
#define SB_TESTS_GPU_EMU_KERNELS_CUH

#include <stdint.h>

#include "gpu/cuda.h"

enum fault {
    NONE,
    NO_BARRIER,  /* no barrier between a write and a read by another thread */
    NO_BARRIER2, /* no barrier between that read and the next write */
    NO_WAIT,     /* no wait for a copy */
    WAIT_EARLY,  /* a wait for fewer groups than needed, or for the phase before */
    OUTSIDE,     /* an index is one too large */
    UNSET,       /* a read of an element that was never written */
    DIVERGENT,   /* a barrier that some threads do not reach */
    TWO_LINES,   /* threads that meet at two different barriers */
    MISSING,     /* a lane missing from a shuffle */
    WRONG_MASK,  /* a mask without the lane that uses it */
    FROM_ABSENT, /* a shuffle from a lane that the mask lacks */
    MISALIGNED,  /* a wide access at a misaligned address */
    LEFT,        /* a copy still in flight when the kernel ends */
    TOO_FEW,     /* a bulk copy with fewer bytes expected than it has */
    TOO_MANY,    /* or with more */
    LATE_INIT    /* threads that use an mbarrier before they know that it is initialized */
};

/* out[b] = the sum of the block's part of x, by shuffles and a shared array. */
template <int F> __global__ void sum_blocks(sb_global<const int> x, sb_global<int> out, int n)
{
    SB_SHARED(int, part, 32);
    const int t = static_cast<int>(threadIdx.x), warps = static_cast<int>(blockDim.x) / 32;
    const int lane = t % 32, first = static_cast<int>(blockIdx.x * blockDim.x);
    const unsigned all = F == WRONG_MASK ? 0xfffffffeu : 0xffffffffu;
    int sum = 0;
    if (F == OUTSIDE ? first + t <= n : first + t < n)
        sum = x[first + t];
    if (F == FROM_ABSENT)
        sum += __shfl_sync(lane < 16 ? 0xffffu : 0xffff0000u, sum, 16);
    if (F != MISSING || t != 37)
        for (int by = 16; by > 0; by /= 2)
            sum += __shfl_xor_sync(all, sum, by);
    if (lane == 0 && (F != UNSET || t != 32))
        part[t / 32] = sum;
    if (F == DIVERGENT && t >= 32)
        return;
    if (F == TWO_LINES && t < 32) {
        __syncthreads();
    } else if (F != NO_BARRIER) {
        __syncthreads();
    }
    if (t == 0) {
        int total = 0;
        for (int w = 0; w < warps; w++)
            total += part[w];
        out[blockIdx.x] = total;
    }
}

/* out[c][r] = x[r][c], through a tile of 32 x 32; blocks of 32 x 8 threads. */
template <int F>
__global__ void transpose(sb_global<const float> x, sb_global<float> out, int rows, int columns)
{
    SB_SHARED(float, tile, 32 * 33);
    const int left = static_cast<int>(blockIdx.x) * 32, top = static_cast<int>(blockIdx.y) * 32;
    const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
    for (int r = ty; r < 32; r += 8)
        if (top + r < rows && left + tx < columns)
            tile[r * 33 + tx] = x[(top + r) * columns + left + tx];
    if (F != NO_BARRIER)
        __syncthreads();
    for (int c = ty; c < 32; c += 8)
        if (left + c < columns && (F == UNSET ? top + tx <= rows : top + tx < rows))
            out[(left + c) * rows + top + tx] = tile[tx * (F == OUTSIDE ? 34 : 33) + c];
}

/* out[i] = x[i] + x[i ^ 1] for n / 64 tiles of 64, with two threads per pair and two stages. */
template <int F> __global__ void pipeline(sb_global<const int> x, sb_global<int> out, int tiles)
{
    SB_SHARED_DYNAMIC(int, stage);
    const int t = static_cast<int>(threadIdx.x);
    if (t % 4 == 0)
        sb_cp_async<16>(stage + t, x + (F == MISALIGNED ? t + 1 : t));
    sb_cp_async_commit();
    for (int k = 0; k < tiles; k++) {
        if (k + 1 < tiles && t % 4 == 0)
            sb_cp_async<16>(stage + (k + 1) % 2 * 64 + t, x + (k + 1) * 64 + t);
        sb_cp_async_commit();
        if (F == WAIT_EARLY)
            sb_cp_async_wait<2>();
        else if (F != NO_WAIT)
            sb_cp_async_wait<1>();
        if (F != NO_BARRIER)
            __syncthreads();
        out[k * 64 + t] = stage[k % 2 * 64 + t] + stage[k % 2 * 64 + (t ^ 1)];
        if (F != NO_BARRIER2)
            __syncthreads();
    }
    if (F == LEFT && t == 0)
        sb_cp_async<4>(stage + t, x + t);
    else
        sb_cp_async_wait_all();
}

/* The same with bulk copies: one thread issues them, and all wait for their mbarriers. There are
 * three stages, each with a second mbarrier that signals that the stage was read. */
template <int F> __global__ void bulk(sb_global<const int> x, sb_global<int> out, int tiles)
{
    SB_SHARED(int, stage, 3 * 64);
    SB_SHARED(uint64_t, full, 3);
    SB_SHARED(uint64_t, empty, 3);
    const int t = static_cast<int>(threadIdx.x);
    const unsigned bytes = F == TOO_FEW ? 240 : F == TOO_MANY ? 272 : 256;
    if (t == 0) {
        for (int s = 0; s < 3; s++) {
            sb_mbarrier_init(full + s, 1);
            sb_mbarrier_init(empty + s, 64);
        }
        sb_fence_async();
    }
    if (F != LATE_INIT)
        __syncthreads();
    int issued = 0;
    for (int k = 0; k < tiles; k++) {
        for (; t == 0 && issued < tiles && issued < k + 2; issued++) {
            const int s = issued % 3;
            if (issued >= 3 && F != NO_BARRIER2)
                sb_mbarrier_wait(empty + s, static_cast<unsigned>(issued / 3 - 1) & 1);
            sb_mbarrier_arrive_expect(full + s, bytes);
            sb_bulk_copy(stage + s * 64, x + issued * 64, 256, full + s);
        }
        const int s = k % 3;
        const unsigned parity = static_cast<unsigned>(k / 3) & 1;
        if (F != NO_WAIT || t != 5)
            sb_mbarrier_wait(full + s, F == WAIT_EARLY ? parity ^ 1 : parity);
        out[k * 64 + t] = stage[s * 64 + t] + stage[s * 64 + (t ^ 1)];
        sb_mbarrier_arrive(empty + s);
    }
}

/* out[i] = 2 * x[i]. Thread 0 issues the copies for which 32 other threads wait. Thread 32 sets the
 * expected bytes. Warp 2 doubles the values in place. Only thread 0 waits until a stage is free.
 * Each time a stage is used again, its elements belong to other threads. */
template <int F> __global__ void produce(sb_global<const int> x, sb_global<int> out, int tiles)
{
    SB_SHARED(int, stage, 2 * 32);
    SB_SHARED(uint64_t, full, 2);
    SB_SHARED(uint64_t, empty, 2);
    const int t = static_cast<int>(threadIdx.x), warp = t / 32;
    if (t == 0) {
        for (int s = 0; s < 2; s++) {
            sb_mbarrier_init(full + s, 1);
            sb_mbarrier_init(empty + s, 32);
        }
        sb_fence_async();
    }
    __syncthreads();
    for (int k = 0; k < tiles; k++) {
        const int s = k % 2, own = (t ^ k / 2) % 32;
        const unsigned parity = static_cast<unsigned>(k / 2) & 1;
        if (t == 0) {
            if (k >= 2 && F != NO_BARRIER2)
                sb_mbarrier_wait(empty + s, parity ^ 1);
            sb_bulk_copy(stage + s * 32, x + k * 32, 128, full + s);
        } else if (t == 32) {
            if (k >= 2)
                sb_mbarrier_wait(full + s, parity ^ 1);
            sb_mbarrier_arrive_expect(full + s, 128);
        } else if (warp == 2) {
            sb_mbarrier_wait(full + s, parity);
            const int value = stage[s * 32 + own];
            stage[s * 32 + own] = 2 * value;
            out[k * 32 + own] = stage[s * 32 + own];
            sb_mbarrier_arrive(empty + s);
        }
    }
}

/* Two copies, each with its own mbarrier. Two warps swap the halves: out[i] = x[i ^ 32]. */
template <int F> __global__ void two_copies(sb_global<const int> x, sb_global<int> out)
{
    SB_SHARED(int, stage, 2 * 32);
    SB_SHARED(uint64_t, full, 2);
    const int t = static_cast<int>(threadIdx.x);
    if (t == 0) {
        sb_mbarrier_init(full, 1);
        sb_mbarrier_init(full + 1, 1);
        sb_fence_async();
    }
    __syncthreads();
    for (int s = 0; t == 0 && s < 2; s++) {
        sb_mbarrier_arrive_expect(full + s, 128);
        sb_bulk_copy(stage + s * 32, x + s * 32, 128, full + s);
    }
    if (F != NO_WAIT || t < 32)
        sb_mbarrier_wait(full, 0);
    sb_mbarrier_wait(full + 1, 0);
    out[t] = stage[t ^ 32];
}

/* Blocks take tiles of 64 from a counter until none is left: out[i] = 3 * x[i]. */
template <int F>
__global__ void persistent(sb_global<const int> x, sb_global<int> out, sb_global<unsigned> counter,
                           unsigned tiles)
{
    SB_SHARED(unsigned, next, 1);
    for (;;) {
        if (threadIdx.x == 0)
            next[0] = atomicAdd(counter, 1u);
        if (F != NO_BARRIER)
            __syncthreads();
        const unsigned tile = next[0];
        if (F != NO_BARRIER2)
            __syncthreads();
        if (tile >= tiles)
            return;
        const unsigned i = tile * 64 + threadIdx.x;
        out[i] = 3 * x[i];
    }
}

/* Warp 0 writes and warp 1 reads, synchronized by named barriers: out[k * 32 + l] = k + l. */
template <int F> __global__ void hand_over(sb_global<int> out, int rounds)
{
    SB_SHARED(int, box, 32);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int k = 0; k < rounds; k++) {
        if (threadIdx.x < 32) {
            if (F != NO_BARRIER2)
                sb_barrier_sync(2, 64);
            box[31 - lane] = k + 31 - lane;
            sb_barrier_arrive(1, 64);
        } else {
            sb_barrier_arrive(2, 64);
            if (F != NO_BARRIER)
                sb_barrier_sync(1, 64);
            out[k * 32 + lane] = box[lane];
        }
    }
}

/* A warp reverses 32 values in shared memory, in rounds. */
template <int F> __global__ void turn(sb_global<int> out, int rounds)
{
    SB_SHARED(int, row, 32);
    const int lane = static_cast<int>(threadIdx.x);
    int value = lane;
    for (int k = 0; k < rounds; k++) {
        row[lane] = value;
        if (F != NO_BARRIER)
            __syncwarp();
        value = row[(lane + 1) % 32] + 1;
        if (F != NO_BARRIER2)
            __syncwarp();
    }
    out[lane] = value;
}

#endif
