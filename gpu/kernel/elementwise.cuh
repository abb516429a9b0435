/* elementwise.cuh - the ops that need no sum over elements. Each op computes its formula with
 * single IEEE operations and functions of gpu/math, so that its results have the bits of the
 * reference.
 *
 * A thread computes one element. */
#ifndef SB_GPU_KERNEL_ELEMENTWISE_CUH
#define SB_GPU_KERNEL_ELEMENTWISE_CUH

#include "gpu/cuda.h"
#include "gpu/kernel/kernel.h"
#include "gpu/kernel/value.cuh"
#include "gpu/math/fn.h"

enum { SB_EACH_THREADS = 256 };

SB_KERNEL_FN size_t sb_each()
{
    return static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

/* R-1: "x_t is row token_t of the embedding, unscaled, R": the table is in bfloat16. One block for
 * each row. */
template <class T>
static __global__ void __launch_bounds__(SB_EACH_THREADS)
    sb_embed_kernel(sb_global<const uint16_t> table, sb_global<const uint32_t> tokens,
                    sb_global<T> out, size_t n)
{
    sb_launch_ready();
    sb_launch_wait();
    const size_t row = blockIdx.x, token = tokens[row];
    for (size_t i = threadIdx.x; i < n; i += blockDim.x)
        out[row * n + i] = sb_narrow<T>(sb_wide(static_cast<uint16_t>(table[token * n + i])));
}

/* R-18: "x = R( RN(x + y) )", where K-53 omits R. */
template <class T>
static __global__ void __launch_bounds__(SB_EACH_THREADS)
    sb_add_kernel(sb_global<const float> a, sb_global<const T> b, sb_global<float> out, size_t n)
{
    sb_launch_ready();
    if (!SB_PLANT(add_wait))
        sb_launch_wait();
    const size_t i = sb_each();
    if (i < (SB_PLANT(add_last) ? n - 1 : n))
        out[i] = __fadd_rn(a[i], sb_wide(static_cast<T>(b[i])));
}

/* R-5: "g = RN( -exp(A_log) softplus( RN(a + dt_bias) ) )", beta = sigmoid(b); both in binary32. */
SB_KERNEL_FN float sb_gate_of(float a, float a_log, float dt_bias)
{
    const float speed = sb_gpu_exp(a_log), step = sb_gpu_softplus(__fadd_rn(a, dt_bias));
    return __fmul_rn(SB_PLANT(gates_decay) ? speed : -speed, step);
}
template <class T>
static __global__ void __launch_bounds__(SB_EACH_THREADS)
    sb_gates_kernel(sb_global<const T> a, sb_global<const T> b, sb_global<const float> a_log,
                    sb_global<const float> dt_bias, size_t heads, size_t n, sb_global<float> g,
                    sb_global<float> beta)
{
    sb_launch_ready();
    sb_launch_wait();
    const size_t i = sb_each(), head = i % heads;
    if (i >= n)
        return;
    g[i] = sb_gate_of(sb_wide(static_cast<T>(a[i])), a_log[head], dt_bias[head]);
    beta[i] = sb_gpu_sigmoid(sb_wide(static_cast<T>(b[i])));
}

/* R-13: separates the halves of each head. n elements in total, gates included. */
template <class T>
static __global__ void __launch_bounds__(SB_EACH_THREADS)
    sb_split_gate_kernel(sb_global<const T> in, size_t hd, size_t n, sb_global<T> query,
                         sb_global<T> gate)
{
    sb_launch_ready();
    sb_launch_wait();
    const size_t i = sb_each(), head = i / (2 * hd), place = i % (2 * hd);
    if (i >= n)
        return;
    if (SB_PLANT(split_interleaved) ? place % 2 == 0 : place < hd)
        query[head * hd + (SB_PLANT(split_interleaved) ? place / 2 : place)] = in[i];
    else
        gate[head * hd + (SB_PLANT(split_interleaved) ? place / 2 : place - hd)] = in[i];
}

/* R-14: "y = R( RN(o sigmoid(gate)) )" */
template <class T> SB_KERNEL_FN T sb_attn_gated(float o, float gate)
{
    return sb_narrow<T>(
        __fmul_rn(o, SB_PLANT(attn_gate_silu) ? sb_gpu_silu(gate) : sb_gpu_sigmoid(gate)));
}
template <class T>
static __global__ void __launch_bounds__(SB_EACH_THREADS)
    sb_attn_gate_kernel(sb_global<const T> in, sb_global<const T> gate, size_t n, sb_global<T> out)
{
    sb_launch_ready();
    sb_launch_wait();
    const size_t i = sb_each();
    if (i >= n)
        return;
    out[i] = sb_attn_gated<T>(sb_wide(static_cast<T>(in[i])), sb_wide(static_cast<T>(gate[i])));
}

/* R-16: "a = R( RN(silu(gate) up) )" */
template <class T> SB_KERNEL_FN T sb_swiglu(float gate, float up)
{
    const float activated = sb_gpu_silu(gate);
    return sb_narrow<T>(
        __fmul_rn(SB_PLANT(swiglu_rounded) ? sb_to_bf16(activated) : activated, up));
}
template <class T>
static __global__ void __launch_bounds__(SB_EACH_THREADS)
    sb_swiglu_kernel(sb_global<const T> gate, sb_global<const T> up, size_t n, sb_global<T> out)
{
    sb_launch_ready();
    sb_launch_wait();
    const size_t i = sb_each();
    if (i >= n)
        return;
    out[i] = sb_swiglu<T>(sb_wide(static_cast<T>(gate[i])), sb_wide(static_cast<T>(up[i])));
}

#endif
