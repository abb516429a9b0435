/* back_kernels.cuh - alternatives for the rollback after a verify that the kernels of gpu/kernel do
 * not use. test_gpu_back counts their memory traffic and compares it with that of the kernels in
 * use. */
#ifndef SB_TESTS_GPU_BACK_KERNELS_CUH
#define SB_TESTS_GPU_BACK_KERNELS_CUH

#include "gpu/kernel/delta_rule.cuh"

constexpr uint32_t BACK_THREADS = 128;

static __global__ void back_copy(sb_global<const float> from, sb_global<float> to, uint32_t count)
{
    const uint32_t i = blockIdx.x * BACK_THREADS + threadIdx.x;
    if (i < count)
        to[i] = from[i];
}

/* The change of the state by a row: its key (k_heads, dk), for each value head the correction d
 * (dv) of R-9, and exp(g). */
template <class T> struct back_kept {
    sb_global<T> k, d, decay;
    uint32_t rows;
};

/* `before.rows` rows were kept from the verify before. They change the state at `from`, and the
 * result goes to `to`. The rows of the job change the state only in registers, and their changes
 * are stored in `after`. */
struct back_job {
    sb_delta_job<float> now;
    back_kept<const float> before;
    back_kept<float> after;
};

/* A warp has eight columns with four lanes each. The first lane of a column reads. */
SB_KERNEL_FN float back_correction(const back_job &job, uint32_t row, uint32_t head,
                                   uint32_t column)
{
    const uint32_t lane = threadIdx.x % 32;
    float d = 0.0f;
    if (lane < 8 && column < job.now.dv)
        d = job.before.d[(static_cast<size_t>(row) * job.now.v_heads + head) * job.now.dv + column];
    return __shfl_sync(0xffffffffu, d, static_cast<int>(lane % 8));
}

template <int DK>
SB_KERNEL_FN void back_replay(const back_job &job, uint32_t head, uint32_t column,
                              const sb_delta_stage &stage, float (&state)[DK / 4])
{
    const uint32_t part = threadIdx.x % 32 / 8, dk = job.now.dk, key_heads = job.now.k_heads;
    const uint32_t key_head = head / (job.now.v_heads / key_heads);
    for (uint32_t row = 0; row < job.before.rows; row++) {
        const size_t key = (static_cast<size_t>(row) * key_heads + key_head) * dk;
        for (uint32_t i = threadIdx.x; i < DK; i += SB_DELTA_THREADS)
            stage.k[i] = i < dk ? job.before.k[key + i] : 0.0f;
        if (threadIdx.x == 0)
            stage.decay[0] = job.before.decay[static_cast<size_t>(row) * job.now.v_heads + head];
        __syncthreads();
        sb_delta_decay<DK>(state, stage.decay[0]);
        const float d = back_correction(job, row, head, column);
        sb_delta_add<DK>(sb_cast<const float4>(stage.k), state, part, d);
        __syncthreads();
    }
}

/* Rows are loaded into shared memory one by one. */
template <int DK>
SB_KERNEL_FN void back_keep(const back_job &job, uint32_t row, uint32_t head,
                            const sb_delta_stage &stage)
{
    const uint32_t each = job.now.v_heads / job.now.k_heads, dk = job.now.dk;
    if (blockIdx.x > 0)
        return;
    if (head % each == 0 && threadIdx.x < dk)
        job.after.k[(static_cast<size_t>(row) * job.now.k_heads + head / each) * dk + threadIdx.x] =
            stage.k[threadIdx.x];
    if (threadIdx.x == 0)
        job.after.decay[static_cast<size_t>(row) * job.now.v_heads + head] = stage.decay[0];
}

/* One row as in sb_delta_step; returns the correction. */
template <int DK>
SB_KERNEL_FN float back_step(const sb_delta_stage &stage, float (&state)[DK / 4], uint32_t part,
                             float v, float *d)
{
    const sb_shared<const float4> q = sb_cast<const float4>(stage.q);
    const sb_shared<const float4> k = sb_cast<const float4>(stage.k);
    sb_delta_decay<DK>(state, stage.decay[0]);
    *d = __fmul_rn(__fsub_rn(v, sb_delta_dot<DK>(k, state, part)), stage.beta[0]);
    sb_delta_add<DK>(k, state, part, *d);
    return sb_delta_dot<DK>(q, state, part);
}

template <int DK>
SB_KERNEL_FN void back_verify(const back_job &job, uint32_t head, uint32_t column,
                              const sb_delta_stage &stage, float (&state)[DK / 4])
{
    const uint32_t part = threadIdx.x % 32 / 8;
    const sb_delta_job<float> &now = job.now;
    for (uint32_t row = 0; row < now.rows; row++) {
        const size_t at = (static_cast<size_t>(row) * now.v_heads + head) * now.dv + column;
        sb_delta_fetch<float, DK>(now, head, row, 1, stage);
        __syncthreads();
        float v = 0.0f, d;
        if (column < now.dv)
            v = now.v[static_cast<size_t>(row) * now.v_stride + head * now.dv + column];
        const float o = back_step<DK>(stage, state, part, v, &d);
        if (part == 0 && column < now.dv) {
            now.out[at] = sb_narrow<float>(o);
            job.after.d[at] = d;
        }
        back_keep<DK>(job, row, head, stage);
        __syncthreads();
    }
}

/* Blocks as in sb_delta_rule_kernel: groups of 32 columns, value heads. */
template <int DK>
static __global__ void __launch_bounds__(SB_DELTA_THREADS, 1) back_rule(const back_job job)
{
    SB_SHARED(float, shared_q, DK);
    SB_SHARED(float, shared_k, DK);
    SB_SHARED(float, shared_decay, 1);
    SB_SHARED(float, shared_beta, 1);
    const sb_delta_stage stage = {shared_q, shared_k, shared_decay, shared_beta};
    const sb_delta_job<float> &now = job.now;
    const uint32_t lane = threadIdx.x % 32, part = lane / 8, head = blockIdx.y;
    const uint32_t column = blockIdx.x * SB_DELTA_COLUMNS + threadIdx.x / 32 * 8 + lane % 8;
    const size_t of_head = static_cast<size_t>(head) * now.dk * now.dv;
    float state[DK / 4];
    sb_delta_load<DK>(now.from + of_head, now.dk, now.dv, column, part, state);
    back_replay<DK>(job, head, column, stage, state);
    if (job.before.rows > 0)
        sb_delta_store<DK>(now.to + of_head, now.dk, now.dv, column, part, state);
    back_verify<DK>(job, head, column, stage, state);
}

#endif
