/* combine.cuh - the sum of the outputs of a row's experts. */
#ifndef SB_GPU_KERNEL_COMBINE_CUH
#define SB_GPU_KERNEL_COMBINE_CUH

#include "gpu/cuda.h"
#include "gpu/kernel/kernel.h"
#include "gpu/kernel/value.cuh"
#include "gpu/math/fn.h"

enum { SB_COMBINE_THREADS = 256 };

/* R-17 with K-14's dot and K-52's fused: "one sum of k+1 terms", first the slots in order, then the
 * shared expert, each product fused into the sum. Computes element `column` of a row. expert_out
 * (kept, width), weights (kept) and shared_out (width) belong to this row. */
template <class T>
SB_KERNEL_FN T sb_combined(sb_global<const T> expert_out, sb_global<const float> weights,
                           sb_global<const T> shared_out, float open, unsigned kept, size_t width,
                           size_t column)
{
    float sum = 0.0f;
    for (unsigned slot = SB_PLANT(combine_first_slot) ? 1 : 0; slot < kept; slot++) {
        const T x = expert_out[slot * width + column];
        sum = __fmaf_rn(sb_wide(x), weights[slot], sum);
    }
    return sb_narrow<T>(__fmaf_rn(sb_wide(static_cast<T>(shared_out[column])), open, sum));
}

/* A thread computes one element; there are n elements in all rows together. */
template <class T>
static __global__ void __launch_bounds__(SB_COMBINE_THREADS)
    sb_moe_combine_kernel(sb_global<const T> expert_out, sb_global<const float> weights,
                          sb_global<const T> shared_out, sb_global<const float> shared_logit,
                          unsigned kept, size_t width, size_t n, sb_global<T> out)
{
    sb_launch_ready();
    sb_launch_wait();
    const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const size_t row = i / width, column = i % width;
    if (i >= n)
        return;
    out[i] = sb_combined<T>(expert_out + row * kept * width, weights + row * kept,
                            shared_out + row * width, sb_gpu_sigmoid(shared_logit[row]), kept,
                            width, column);
}

#endif
