/* attention_parts.cuh - two things: folds, in order, the parts of the cache that had their own
 * blocks; and writes the cache in the form that attention reads. */
#ifndef SB_GPU_KERNEL_ATTENTION_PARTS_CUH
#define SB_GPU_KERNEL_ATTENTION_PARTS_CUH

#include "gpu/kernel/attention.cuh"

/* The most parts whose factors are in shared memory at once; one thread computes the factors of one
 * part. */
constexpr uint32_t SB_ATTENTION_FOLDED = 64;

/* Computes the factors of `count` parts and reads their sums of e. `known` is the largest score of
 * all parts before. Returns the new largest score. */
SB_KERNEL_FN float sb_attention_factors_of(sb_global<const float2> top, uint32_t count, float known,
                                           sb_shared<float> tops, sb_shared<float> totals,
                                           sb_shared<float2> factors)
{
    if (threadIdx.x < count) {
        const float2 part = top[threadIdx.x];
        tops[threadIdx.x] = part.x;
        totals[threadIdx.x] = part.y;
    }
    __syncthreads();
    for (uint32_t u = 0; u < count; u++) {
        const float part = tops[u];
        if (threadIdx.x == u)
            factors[u] = sb_attention_factors(known, part);
        known = part > known ? part : known;
    }
    if (!SB_PLANT(attention_barrier3))
        __syncthreads();
    return known;
}

/* grid: (rows, heads), HD threads. */
template <class T, class KV, int HD>
static __global__ void __launch_bounds__(HD)
    sb_attention_parts_kernel(const sb_attention_job<T, KV> job)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(float, tops, SB_ATTENTION_FOLDED);
    SB_SHARED(float, totals, SB_ATTENTION_FOLDED);
    SB_SHARED(float2, factors, SB_ATTENTION_FOLDED);
    const size_t pair = static_cast<size_t>(blockIdx.x) * job.heads + blockIdx.y;
    const uint32_t first_row = *job.first, limit = first_row + blockIdx.x + 1;
    const uint32_t parts = (limit + SB_ATTENTION_PART - 1) / SB_ATTENTION_PART;
    const sb_global<const float2> top = job.top + pair * job.parts;
    const sb_global<const float> part = job.part + (pair * job.parts * HD + threadIdx.x);
    float known = sb_gpu_float(0xff800000u), sum = 0.0f, total = 0.0f;
    for (uint32_t first = 0; first < parts; first += SB_ATTENTION_FOLDED) {
        const uint32_t left = parts - first;
        const uint32_t count = left < SB_ATTENTION_FOLDED ? left : SB_ATTENTION_FOLDED;
        known = sb_attention_factors_of(top + first, count, known, tops, totals, factors);
        for (uint32_t u = 0; u < count; u++) {
            const float more = part[static_cast<size_t>(first + u) * HD], e = totals[u];
            const float2 factor = factors[u];
            sum = first + u == 0 ? more : sb_attention_fold(sum, more, factor);
            total = first + u == 0 ? e : sb_attention_fold(total, e, factor);
        }
        __syncthreads();
    }
    job.out[pair * HD + threadIdx.x] = sb_attention_out<T>(sum, job.value_scale, total);
}

/* An element of the cache: bfloat16, or an E4M3 code. */
SB_KERNEL_FN void sb_kv_code(float x, uint16_t &code)
{
    code = sb_narrow<uint16_t>(x);
}
SB_KERNEL_FN void sb_kv_code(float x, uint8_t &code)
{
    code = static_cast<uint8_t>(sb_cvt_e4m3x2_f32(x, 0.0f) & 0xff);
}
/* K-24: "fp8 keeps D4(E4(RN(x / z))) for every element x of a value, and of a key after rope" - z
 * is `scale`. */
template <class KV> SB_KERNEL_FN KV sb_kv_element(float x, float scale)
{
    KV code;
    sb_kv_code(sizeof(KV) == 1 ? __fdiv_rn(x, scale) : x, code);
    return code;
}

/* Appends rows of `width` elements to the cache, from position *first on. */
template <class KV>
static __global__ void __launch_bounds__(SB_ATTENTION_THREADS)
    sb_kv_append_kernel(sb_global<const float> in, sb_global<KV> cache,
                        sb_global<const uint32_t> first, uint32_t width, float scale, size_t n)
{
    sb_launch_ready();
    sb_launch_wait();
    const size_t i = static_cast<size_t>(blockIdx.x) * SB_ATTENTION_THREADS + threadIdx.x;
    const uint32_t position = *first;
    if (i < n)
        cache[static_cast<size_t>(SB_PLANT(kv_first) ? 0 : position) * width + i] =
            sb_kv_element<KV>(in[i], scale);
}

template <class KV>
static __global__ void __launch_bounds__(SB_ATTENTION_THREADS)
    sb_kv_kernel(sb_global<const float> in, sb_global<KV> out, size_t n)
{
    sb_launch_ready();
    sb_launch_wait();
    const size_t i = static_cast<size_t>(blockIdx.x) * SB_ATTENTION_THREADS + threadIdx.x;
    KV code;
    if (i >= n)
        return;
    sb_kv_code(in[i], code);
    out[i] = code;
}

#endif
