/* delta_rule.cuh - the gated delta rule, row by row, for any number of rows.
 *
 * The columns of a head's state are independent. A block computes 32 columns of one head, a warp
 * eight. Four lanes share a column. Each lane keeps every fourth group of four elements in
 * registers, from the first row to the last. A sum over dk is four chains in a lane, then a sum
 * over lanes, so its order depends on dk only. Queries and keys are staged in shared memory, a few
 * rows at a time. */
#ifndef SB_GPU_KERNEL_DELTA_RULE_CUH
#define SB_GPU_KERNEL_DELTA_RULE_CUH

#include "gpu/cuda.h"
#include "gpu/kernel/slots.cuh"
#include "gpu/kernel/value.cuh"
#include "gpu/math/exp.h"

constexpr uint32_t SB_DELTA_THREADS = 128, SB_DELTA_COLUMNS = 32, SB_DELTA_ROWS = 8;

/* The shapes of sb_delta_rule_args. `from` and `to` may be one buffer; to or trail may be NULL.
 * With a slot, `from` and `to` point to the first of several states (slots.cuh). */
template <class T> struct sb_delta_job {
    sb_global<const float> q, k;
    sb_global<const T> v; /* of value head 0 */
    uint32_t v_stride;
    sb_global<const float> g, beta, from;
    sb_global<float> to, trail;
    sb_global<T> out;
    sb_global<const uint32_t> slot;
    uint32_t rows, k_heads, v_heads, dk, dv;
};

/* The offset of the state of a head in a slot. */
template <class T>
SB_KERNEL_FN size_t sb_delta_state(const sb_delta_job<T> &job, uint32_t slot, uint32_t head)
{
    return (static_cast<size_t>(slot) * job.v_heads + head) * job.dk * job.dv;
}

/* A few rows of q and k in shared memory, with zeros behind dk; exp(g) and beta of each row. */
struct sb_delta_stage {
    sb_shared<float> q, k, decay, beta;
};

/* The index, in the column, of element n of the lane with part `part` (0 to 3). */
SB_KERNEL_FN uint32_t sb_delta_element(uint32_t n, uint32_t part)
{
    return n / 4 * 16 + 4 * part + n % 4;
}

template <class T, int DK>
SB_KERNEL_FN void sb_delta_fetch(const sb_delta_job<T> &job, uint32_t head, uint32_t first,
                                 uint32_t rows, const sb_delta_stage &stage)
{
    const uint32_t key_head = head / (job.v_heads / job.k_heads);
    for (uint32_t i = threadIdx.x; i < rows * DK; i += SB_DELTA_THREADS) {
        const uint32_t row = i / DK, at = i % DK;
        const size_t from = (static_cast<size_t>(first + row) * job.k_heads + key_head) * job.dk;
        if (at < job.dk || !SB_PLANT(delta_padding)) {
            stage.q[i] = at < job.dk ? job.q[from + at] : 0.0f;
            stage.k[i] = at < job.dk ? job.k[from + at] : 0.0f;
        }
    }
    if (threadIdx.x < rows) {
        const size_t at = static_cast<size_t>(first + threadIdx.x) * job.v_heads + head;
        stage.decay[threadIdx.x] = sb_gpu_exp(job.g[at]);
        stage.beta[threadIdx.x] = job.beta[at];
    }
}

/* The dot product of a row with the column that four lanes share. All four lanes get it. */
template <int DK>
SB_KERNEL_FN float sb_delta_dot(sb_shared<const float4> row, const float (&state)[DK / 4],
                                uint32_t part)
{
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    SB_UNROLL
    for (int m = 0; m < DK / 16 - (SB_PLANT(delta_tail) ? 1 : 0); m++) {
        const float4 x = row[4 * m + static_cast<int>(part)];
        sum[0] = __fmaf_rn(x.x, state[4 * m], sum[0]);
        sum[1] = __fmaf_rn(x.y, state[4 * m + 1], sum[1]);
        sum[2] = __fmaf_rn(x.z, state[4 * m + 2], sum[2]);
        sum[3] = __fmaf_rn(x.w, state[4 * m + 3], sum[3]);
    }
    float all = __fadd_rn(__fadd_rn(sum[0], sum[1]), __fadd_rn(sum[2], sum[3]));
    all = __fadd_rn(all, __shfl_xor_sync(0xffffffffu, all, 8));
    return SB_PLANT(delta_lanes) ? all : __fadd_rn(all, __shfl_xor_sync(0xffffffffu, all, 16));
}

/* For one column: "S = RN(exp(g_t) S)"; and S + k d, here one fused operation per element. */
template <int DK> SB_KERNEL_FN void sb_delta_decay(float (&state)[DK / 4], float decay)
{
    SB_UNROLL
    for (int n = 0; n < DK / 4; n++)
        state[n] = __fmul_rn(decay, state[n]);
}
template <int DK>
SB_KERNEL_FN void sb_delta_add(sb_shared<const float4> k, float (&state)[DK / 4], uint32_t part,
                               float d)
{
    SB_UNROLL
    for (int n = 0; n < DK / 16; n++) {
        const float4 x = k[4 * n + static_cast<int>(part)];
        state[4 * n] = __fmaf_rn(x.x, d, state[4 * n]);
        state[4 * n + 1] = __fmaf_rn(x.y, d, state[4 * n + 1]);
        state[4 * n + 2] = __fmaf_rn(x.z, d, state[4 * n + 2]);
        state[4 * n + 3] = __fmaf_rn(x.w, d, state[4 * n + 3]);
    }
}

/* R-9: "S = RN(exp(g_t) S); m[j] = dot(S[:, j], k_t); d[j] = RN( RN(v_t[j] - m[j]) beta_t )", then
 * the sum and the dot product with q. */
template <int DK>
SB_KERNEL_FN float sb_delta_step(sb_shared<const float4> q, sb_shared<const float4> k,
                                 float (&state)[DK / 4], uint32_t part, float decay, float beta,
                                 float v)
{
    sb_delta_decay<DK>(state, decay);
    const float m = sb_delta_dot<DK>(k, state, part);
    sb_delta_add<DK>(k, state, part, __fmul_rn(__fsub_rn(v, m), beta));
    return sb_delta_dot<DK>(q, state, part);
}

/* Load and store a lane's part of column `column` of a state, with zeros behind dk. */
template <int DK>
SB_KERNEL_FN void sb_delta_load(sb_global<const float> from, uint32_t dk, uint32_t dv,
                                uint32_t column, uint32_t part, float (&state)[DK / 4])
{
    SB_UNROLL
    for (uint32_t n = 0; n < DK / 4; n++) {
        const uint32_t i = sb_delta_element(n, part);
        state[n] = 0.0f;
        if (i < dk && column < dv)
            state[n] = from[static_cast<size_t>(i) * dv + column];
    }
}
template <int DK>
SB_KERNEL_FN void sb_delta_store(sb_global<float> to, uint32_t dk, uint32_t dv, uint32_t column,
                                 uint32_t part, const float (&state)[DK / 4])
{
    SB_UNROLL
    for (uint32_t n = 0; n < DK / 4; n++) {
        const uint32_t i = sb_delta_element(n, part);
        if (i < dk && column < dv)
            to[static_cast<size_t>(i) * dv + column] = state[n];
    }
}

/* Runs the step of the row that is row `r` in shared memory. Writes its output, and the state after
 * it to the trail. */
template <class T, int DK>
SB_KERNEL_FN void sb_delta_row(const sb_delta_job<T> &job, const sb_delta_stage &stage, uint32_t r,
                               size_t row, uint32_t head, uint32_t column, float v,
                               float (&state)[DK / 4])
{
    const uint32_t part = threadIdx.x % 32 / 8;
    const size_t at = row * job.v_heads + head;
    const float o = sb_delta_step<DK>(sb_cast<const float4>(stage.q + r * DK),
                                      sb_cast<const float4>(stage.k + r * DK), state, part,
                                      stage.decay[r], stage.beta[r], v);
    if (part == 0 && column < job.dv)
        job.out[at * job.dv + column] = sb_narrow<T>(o);
    if (job.trail)
        sb_delta_store<DK>(job.trail + at * job.dk * job.dv, job.dk, job.dv, column, part, state);
}

/* grid: (groups of 32 columns, value heads). R-9: "per value head h, whose query and key head is
 * floor(h / r)" */
template <class T, int DK>
static __global__ void __launch_bounds__(SB_DELTA_THREADS, 1)
    sb_delta_rule_kernel(const sb_delta_job<T> job)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(float, shared_q, SB_DELTA_ROWS *DK);
    SB_SHARED(float, shared_k, SB_DELTA_ROWS *DK);
    SB_SHARED(float, shared_decay, SB_DELTA_ROWS);
    SB_SHARED(float, shared_beta, SB_DELTA_ROWS);
    const sb_delta_stage stage = {shared_q, shared_k, shared_decay, shared_beta};
    const uint32_t lane = threadIdx.x % 32, part = lane / 8, head = blockIdx.y;
    const uint32_t column = blockIdx.x * SB_DELTA_COLUMNS + threadIdx.x / 32 * 8 + lane % 8;
    float state[DK / 4];
    sb_delta_load<DK>(job.from + sb_delta_state(job, sb_slot_read(job.slot), head), job.dk, job.dv,
                      column, part, state);
    for (uint32_t first = 0; first < job.rows; first += SB_DELTA_ROWS) {
        const uint32_t left = job.rows - first;
        const uint32_t rows = left < SB_DELTA_ROWS ? left : SB_DELTA_ROWS;
        sb_delta_fetch<T, DK>(job, head, first, rows, stage);
        if (!SB_PLANT(delta_barrier))
            __syncthreads();
        for (uint32_t r = 0; r < rows; r++) {
            const size_t row = first + r;
            float v = 0.0f;
            if (column < job.dv)
                v = sb_wide(static_cast<T>(job.v[row * job.v_stride + head * job.dv + column]));
            sb_delta_row<T, DK>(job, stage, r, row, head, column, v, state);
        }
        if (!SB_PLANT(delta_barrier2))
            __syncthreads();
    }
    if (job.to)
        sb_delta_store<DK>(job.to + sb_delta_state(job, sb_slot_written(job.slot), head), job.dk,
                           job.dv, column, part, state);
}

#endif
