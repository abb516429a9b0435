/* rope.cuh - rotary positions: a table of cosines and sines for the rows of a call, and the
 * rotation of queries or keys with this table. */
#ifndef SB_GPU_KERNEL_ROPE_CUH
#define SB_GPU_KERNEL_ROPE_CUH

#include "gpu/cuda.h"
#include "gpu/kernel/kernel.h"
#include "gpu/kernel/rope_turn.cuh"

constexpr uint32_t SB_ROPE_THREADS = 128;

/* Up to three position streams (a NULL stream is never read), and the limits of f for height and
 * width in R-8: 3 section[1] and 3 section[2], or 0 if there is one stream. */
struct sb_rope_positions {
    sb_global<const uint32_t> stream[3];
    uint32_t height_end, width_end;
};

/* R-8: "frequency f takes height if f mod 3 is 1 and f < 3 section[1], width if f mod 3 is 2 and f
 * < 3 section[2], else time" */
SB_KERNEL_FN uint32_t sb_rope_stream(const sb_rope_positions &positions, uint32_t f)
{
    if (f % 3 == 1 && f < positions.height_end)
        return 1;
    return f % 3 == 2 && f < positions.width_end ? 2 : 0;
}

/* R-7: "angle = RN(inv_freq[f] position)": cosine and sine of row t and frequency f at t * half +
 * f. A thread computes one angle. */
static __global__ void __launch_bounds__(SB_ROPE_THREADS)
    sb_rope_table_kernel(const sb_rope_positions positions, sb_global<const float> frequency,
                         sb_global<float2> table, uint32_t rows, uint32_t half)
{
    sb_launch_ready();
    sb_launch_wait();
    const uint32_t at = blockIdx.x * SB_ROPE_THREADS + threadIdx.x, f = at % half;
    if (at >= rows * half)
        return;
    const uint32_t stream = SB_PLANT(rope_stream) ? 0 : sb_rope_stream(positions, f);
    uint32_t position;
    if (stream == 0)
        position = positions.stream[0][at / half];
    else if (stream == 1)
        position = positions.stream[1][at / half];
    else
        position = positions.stream[2][at / half];
    const float angle = __fmul_rn(frequency[f], __uint2float_rn(position));
    table[at] = make_float2(sb_gpu_cos(angle), sb_gpu_sin(angle));
}

/* Rotates x (rows, heads, hd) in place; a thread rotates one pair. "dimensions from rd on are
 * untouched". */
template <class T>
static __global__ void __launch_bounds__(SB_ROPE_THREADS)
    sb_rope_kernel(sb_global<T> x, sb_global<const float2> table, uint32_t rows, uint32_t heads,
                   uint32_t hd, uint32_t half)
{
    sb_launch_ready();
    sb_launch_wait();
    const size_t at = static_cast<size_t>(blockIdx.x) * SB_ROPE_THREADS + threadIdx.x;
    if (at >= static_cast<size_t>(rows) * heads * half)
        return;
    const uint32_t f = static_cast<uint32_t>(at % half);
    const size_t head = at / half;
    const sb_global<T> first = x + head * hd + f;
    const sb_global<T> second = SB_PLANT(rope_pair) ? first + 1 : first + half;
    const float2 turn = table[head / heads * half + f];
    const float a = sb_wide(static_cast<T>(*first)), b = sb_wide(static_cast<T>(*second));
    *first = sb_rope_first<T>(a, b, turn);
    *second = sb_rope_second<T>(a, b, turn);
}

#endif
