/* fused_heads.cuh - Y-82: "Between the projections of attention and its scores there is one kernel.
 * It does norm and rotation of queries and keys, and brings keys and values into the cache". Gates
 * may stay in
 * `packed`, where sb_attn_gate_input reads them. */
#ifndef SB_GPU_KERNEL_FUSED_HEADS_CUH
#define SB_GPU_KERNEL_FUSED_HEADS_CUH

#include "gpu/kernel/attention_parts.cuh"
#include "gpu/kernel/norm.cuh"
#include "gpu/kernel/rope_turn.cuh"

enum : uint32_t { SB_HEADS_MOST = 256 }; /* elements of a head */

/* KV is the same type as in sb_attention_job. */
template <class T, class KV> struct sb_heads_job {
    sb_global<const T> packed;                 /* (rows, heads, 2 hd) queries and gates */
    sb_global<const T> key, value;             /* (rows, kv_heads, hd) */
    sb_global<const float> q_weight, k_weight; /* (hd) */
    sb_global<const float2> table;             /* (rows, half) of sb_rope_table_kernel */
    sb_global<T> query, gate;                  /* (rows, heads, hd); gate may be NULL */
    sb_global<KV> keys, values;                /* (positions, kv_heads, hd) the cache */
    sb_global<const uint32_t> first;           /* the position of row 0 in the cache */
    uint32_t rows, heads, kv_heads, hd, half;
    float eps, key_scale, value_scale; /* K-24's z */
};

/* Returns element i of the rotated head; `normed` is the whole normed head. */
template <class T>
SB_KERNEL_FN T sb_heads_turned(sb_shared<const float> normed, sb_global<const float2> table,
                               uint32_t half, uint32_t i)
{
    const float x = normed[i];
    if (i >= 2 * half)
        return sb_narrow<T>(x);
    const float2 turn = table[i % half];
    const float other = normed[i < half ? i + half : i - half];
    return i < half ? sb_rope_first<T>(x, other, turn) : sb_rope_second<T>(other, x, turn);
}

/* Norms and rounds a vector of hd elements, and writes it to shared memory. */
template <class T>
SB_KERNEL_FN void sb_heads_norm(sb_global<const T> x, sb_global<const float> weight, uint32_t hd,
                                float eps, sb_shared<float> part, sb_shared<float> normed)
{
    const float r = sb_inverse_rms(sb_sum_of_squares<T>(x, hd, part), hd, eps);
    for (uint32_t i = threadIdx.x; i < hd; i += blockDim.x)
        normed[i] = sb_wide(sb_normed<T>(sb_wide(static_cast<T>(x[i])), r, weight[i]));
    if (!SB_PLANT(fused_heads_barrier))
        __syncthreads();
}

/* grid: (heads of queries, keys and values; rows). The number of threads is that of the norm of a
 * head. */
template <class T, class KV>
static __global__ void __launch_bounds__(SB_SUM_WARPS *SB_WARP)
    sb_heads_kernel(const sb_heads_job<T, KV> job)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(float, part, SB_SUM_WARPS);
    SB_SHARED(float, normed, SB_HEADS_MOST);
    const uint32_t row = blockIdx.y, hd = job.hd, position = *job.first;
    const sb_global<const float2> table = job.table + row * job.half;
    if (blockIdx.x < job.heads) {
        const size_t at = static_cast<size_t>(row) * job.heads + blockIdx.x;
        sb_heads_norm<T>(job.packed + at * 2 * hd, job.q_weight, hd, job.eps, part, normed);
        for (uint32_t i = threadIdx.x; i < hd; i += blockDim.x)
            job.query[at * hd + i] = sb_heads_turned<T>(normed, table, job.half, i);
        for (uint32_t i = threadIdx.x; i < hd && job.gate; i += blockDim.x)
            job.gate[at * hd + i] = job.packed[(2 * at + 1) * hd + i];
        return;
    }
    const uint32_t head = (blockIdx.x - job.heads) % job.kv_heads;
    const size_t from = (static_cast<size_t>(row) * job.kv_heads + head) * hd;
    const size_t place = SB_PLANT(kv_first) ? row : static_cast<size_t>(position) + row;
    const size_t to = (place * job.kv_heads + head) * hd;
    if (blockIdx.x < job.heads + job.kv_heads) {
        sb_heads_norm<T>(job.key + from, job.k_weight, hd, job.eps, part, normed);
        for (uint32_t i = threadIdx.x; i < hd; i += blockDim.x)
            job.keys[to + i] = sb_kv_element<KV>(
                sb_wide(sb_heads_turned<T>(normed, table, job.half, i)), job.key_scale);
        return;
    }
    for (uint32_t i = threadIdx.x; i < hd; i += blockDim.x)
        job.values[to + i] =
            sb_kv_element<KV>(sb_wide(static_cast<T>(job.value[from + i])), job.value_scale);
}

template <class T, class KV>
static sb_status sb_heads_launch(const sb_queue *queue, const sb_heads_job<T, KV> &job)
{
    return SB_LAUNCH(queue, (sb_heads_kernel<T, KV>), dim3(job.heads + 2 * job.kv_heads, job.rows),
                     sb_sum_threads(job.hd), 0, job);
}

#endif
