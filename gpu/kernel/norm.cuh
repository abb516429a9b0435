/* norm.cuh - the three norms. A block norms one vector. Thread t of T takes elements t, t + T, and
 * so on, and adds their squares with fused operations. Then the sums of the threads are added
 * (reduce.cuh). Kernels with a vector in shared memory (fused_*.cuh) use the same number of adding
 * threads. */
#ifndef SB_GPU_KERNEL_NORM_CUH
#define SB_GPU_KERNEL_NORM_CUH

#include "gpu/kernel/reduce.cuh"
#include "gpu/kernel/value.cuh"
#include "gpu/math/fn.h"

/* Returns the part of ss = dot(x, x) that thread `thread` of `threads` adds. */
template <class T, class P>
SB_KERNEL_FN float sb_squares_of(P x, size_t n, unsigned thread, unsigned threads)
{
    float sum = 0.0f;
    const size_t end = SB_PLANT(norm_tail) ? n / 32 * 32 : n;
    for (size_t i = thread; i < end; i += threads) {
        const float wide = sb_wide(static_cast<T>(x[i]));
        sum = __fmaf_rn(wide, wide, sum);
    }
    return sum;
}

/* Returns ss, in every thread of the block. */
template <class T>
SB_KERNEL_FN float sb_sum_of_squares(sb_global<const T> x, size_t n, sb_shared<float> part)
{
    return sb_block_sum(sb_squares_of<T>(x, n, threadIdx.x, blockDim.x), part, blockDim.x);
}

/* R-3: "r = rsqrt( RN( RN(ss / n) + eps ) )" */
SB_KERNEL_FN float sb_inverse_rms(float ss, size_t n, float eps)
{
    const float mean = __fdiv_rn(ss, static_cast<float>(n));
    return SB_PLANT(norm_eps) ? __fadd_rn(sb_gpu_rsqrt(mean), eps)
                              : sb_gpu_rsqrt(__fadd_rn(mean, eps));
}

/* R-3: "y_i = R( RN( RN(x_i r) (RN(1 + w_i)) ) )" */
template <class T> SB_KERNEL_FN T sb_normed(float x, float r, float weight)
{
    const float factor = SB_PLANT(norm_plain_weight) ? weight : __fadd_rn(1.0f, weight);
    return sb_narrow<T>(__fmul_rn(__fmul_rn(x, r), factor));
}
template <class In, class Out>
static __global__ void __launch_bounds__(SB_SUM_WARPS *SB_WARP)
    sb_rmsnorm_kernel(sb_global<const In> in, sb_global<const float> weight, float eps, size_t n,
                      sb_global<Out> out)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(float, part, SB_SUM_WARPS);
    const size_t row = blockIdx.x * n;
    const float r = sb_inverse_rms(sb_sum_of_squares<In>(in + row, n, part), n, eps);
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
        const float wide = sb_wide(static_cast<In>(in[row + i]));
        out[row + i] = sb_normed<Out>(wide, r, weight[i]);
    }
}

/* R-11: "y_i = R( RN(p_i silu(z_i)) ): norm before gate" */
template <class T> SB_KERNEL_FN T sb_gated_normed(float x, float r, float weight, float z)
{
    const float product = __fmul_rn(weight, __fmul_rn(x, r));
    return sb_narrow<T>(__fmul_rn(product, sb_gpu_silu(z)));
}
template <class T>
static __global__ void __launch_bounds__(SB_SUM_WARPS *SB_WARP)
    sb_gated_rmsnorm_kernel(sb_global<const T> in, sb_global<const T> z,
                            sb_global<const float> weight, float eps, size_t n, sb_global<T> out)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(float, part, SB_SUM_WARPS);
    const size_t row = blockIdx.x * n;
    const float r = sb_inverse_rms(sb_sum_of_squares<T>(in + row, n, part), n, eps);
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
        const float wide = sb_wide(static_cast<T>(in[row + i]));
        out[row + i] = sb_gated_normed<T>(wide, r, weight[i], sb_wide(static_cast<T>(z[row + i])));
    }
}

/* R-6: "q = RN( RN(x n) RN(dk^-1/2) )", "k = RN(x n)", "n = rsqrt( RN(ss + 1e-6) )"; q and k stay
 * in binary32. */
SB_KERNEL_FN float sb_l2normed(float x, float n, bool rounds, bool query, float scale)
{
    float y = __fmul_rn(x, n);
    y = rounds ? sb_to_bf16(y) : y;
    return query ? __fmul_rn(y, scale) : y;
}

/* A block norms one head of one row: first the heads of queries, then the heads of keys. */
template <class T>
static __global__ void __launch_bounds__(SB_SUM_WARPS *SB_WARP)
    sb_l2norm_kernel(sb_global<const T> qkv, size_t stride, unsigned heads, size_t dk, float eps,
                     unsigned rounds, float scale, sb_global<float> q, sb_global<float> k)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(float, part, SB_SUM_WARPS);
    const size_t row = blockIdx.x / (2 * heads), head = blockIdx.x % (2 * heads);
    const sb_global<const T> x = qkv + (row * stride + head * dk);
    const float ss = sb_sum_of_squares<T>(x, dk, part), n = sb_gpu_rsqrt(__fadd_rn(ss, eps));
    const bool query = head < heads;
    const size_t to = (row * heads + head % heads) * dk;
    for (size_t i = threadIdx.x; i < dk; i += blockDim.x) {
        const float y = sb_l2normed(sb_wide(static_cast<T>(x[i])), n, rounds != 0, query, scale);
        if (query)
            q[to + i] = y;
        else
            k[to + i] = y;
    }
}

#endif
