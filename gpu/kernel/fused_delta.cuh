/* fused_delta.cuh - Y-83: "Between the projections of linear attention there are two kernels.", for
 * calls of few rows.
 *
 * sb_gdn_kernel computes the convolution, the gates, the norms of queries and keys, and the delta
 * rule. A block computes 32 columns of a value head, as in delta_rule.cuh. It convolves all
 * channels that it reads: its columns, and the query and key of its head, which other blocks
 * convolve again. Meanwhile the state, which is far larger, is in flight from memory. The kernel
 * does not write the conv state, since other blocks may not have read it yet.
 *
 * sb_gdn_end_kernel computes the gated norm, in the form that the next layer reads. Other blocks of
 * the same kernel write the conv state. */
#ifndef SB_GPU_KERNEL_FUSED_DELTA_CUH
#define SB_GPU_KERNEL_FUSED_DELTA_CUH

#include "gpu/kernel/conv.cuh"
#include "gpu/kernel/delta_rule.cuh"
#include "gpu/kernel/fused_stage.cuh"
#include "gpu/kernel/norm.cuh"

enum : uint32_t { SB_GDN_ROWS = 9 }; /* at most */

/* Not used are the members that would pass values between the ops: `out` of conv, and q, k, v, g
 * and beta of delta. delta.rows is the number of rows. */
template <class T> struct sb_gdn_job {
    sb_conv_job<T> conv;
    sb_delta_job<T> delta;
    sb_global<const T> a, b; /* (rows, v_heads) */
    sb_global<const float> a_log, dt_bias;
    float eps, scale; /* eps of the norms; the factor of queries */
    bool rounds;      /* K-33 */
};

/* The shared memory of a block, for all rows: queries, keys, gates; and (rows, 32) values. */
struct sb_gdn_shared {
    sb_delta_stage stage;
    sb_shared<float> v;
};

/* Convolves the channels that a block needs, in this order: dk channels of the query, dk of the
 * key, and the columns of the block. Writes all rows of each channel to shared memory. */
template <class T, int DK, int TAPS>
SB_KERNEL_FN void sb_gdn_convolve(const sb_gdn_job<T> &job, uint32_t key_head, uint32_t head,
                                  const sb_gdn_shared &room)
{
    const sb_delta_job<T> &d = job.delta;
    const uint32_t keys = d.k_heads * d.dk, first = blockIdx.x * SB_DELTA_COLUMNS;
    const uint32_t left = d.dv - first, columns = left < SB_DELTA_COLUMNS ? left : SB_DELTA_COLUMNS;
    for (uint32_t i = threadIdx.x; i < 2 * d.dk + columns; i += SB_DELTA_THREADS) {
        const bool query = i < d.dk, key = !query && i < 2 * d.dk;
        const uint32_t at = query ? i : key ? i - d.dk : i - 2 * d.dk;
        const uint32_t channel = query ? key_head * d.dk + at
                                 : key ? keys + key_head * d.dk + at
                                       : 2 * keys + head * d.dv + first + at;
        const uint32_t stride = query || key ? DK : SB_DELTA_COLUMNS;
        const sb_shared<float> to = (query ? room.stage.q : key ? room.stage.k : room.v) + at;
        float weight[TAPS];
        T window[TAPS];
        sb_conv_weights<T, TAPS>(job.conv, channel, weight);
        sb_conv_begin<T, TAPS>(job.conv, 0, channel, window);
        for (uint32_t row = 0; row < d.rows; row++) {
            sb_conv_go_on<T, TAPS>(job.conv, row, channel, window);
            to[row * stride] = sb_wide(sb_conv_value<T, TAPS>(weight, window));
        }
    }
}

/* Norms queries and keys in place, with zeros behind dk. A warp norms one vector at a time. */
template <class T, int DK>
SB_KERNEL_FN void sb_gdn_norm(const sb_gdn_job<T> &job, const sb_delta_stage &stage)
{
    const uint32_t lane = threadIdx.x % SB_WARP, dk = job.delta.dk;
    for (uint32_t i = threadIdx.x / SB_WARP; i < 2 * job.delta.rows;
         i += SB_DELTA_THREADS / SB_WARP) {
        const bool query = i % 2 == 0;
        const sb_shared<float> x = (query ? stage.q : stage.k) + i / 2 * DK;
        const float ss = sb_warp_sum(sb_squares_of<float>(x, dk, lane, SB_WARP));
        const float n = sb_gpu_rsqrt(__fadd_rn(ss, job.eps));
        for (uint32_t k = lane; k < DK; k += SB_WARP) {
            float y = 0.0f;
            if (k < dk)
                y = sb_l2normed(x[k], n, job.rounds, query, job.scale);
            if (k < dk || !SB_PLANT(fused_gdn_padding))
                x[k] = y;
        }
    }
}

template <class T>
SB_KERNEL_FN void sb_gdn_gates(const sb_gdn_job<T> &job, uint32_t head, const sb_delta_stage &stage)
{
    if (threadIdx.x >= job.delta.rows)
        return;
    const size_t at = static_cast<size_t>(threadIdx.x) * job.delta.v_heads + head;
    stage.decay[threadIdx.x] = sb_gpu_exp(
        sb_gate_of(sb_wide(static_cast<T>(job.a[at])), job.a_log[head], job.dt_bias[head]));
    stage.beta[threadIdx.x] = sb_gpu_sigmoid(sb_wide(static_cast<T>(job.b[at])));
}

/* The grid is that of sb_delta_rule_kernel. */
template <class T, int DK, int TAPS>
static __global__ void __launch_bounds__(SB_DELTA_THREADS, 3) sb_gdn_kernel(const sb_gdn_job<T> job)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(float, shared_q, SB_GDN_ROWS *DK);
    SB_SHARED(float, shared_k, SB_GDN_ROWS *DK);
    SB_SHARED(float, shared_v, SB_GDN_ROWS *SB_DELTA_COLUMNS);
    SB_SHARED(float, shared_decay, SB_GDN_ROWS);
    SB_SHARED(float, shared_beta, SB_GDN_ROWS);
    const sb_gdn_shared room = {{shared_q, shared_k, shared_decay, shared_beta}, shared_v};
    const sb_delta_job<T> &d = job.delta;
    const uint32_t lane = threadIdx.x % 32, part = lane / 8, head = blockIdx.y;
    const uint32_t key_head =
        SB_PLANT(fused_gdn_head) ? head % d.k_heads : head / (d.v_heads / d.k_heads);
    const uint32_t mine = threadIdx.x / 32 * 8 + lane % 8;
    const uint32_t column = blockIdx.x * SB_DELTA_COLUMNS + mine;
    float state[DK / 4];
    sb_delta_load<DK>(d.from + sb_delta_state(d, sb_slot_read(d.slot), head), d.dk, d.dv, column,
                      part, state);
    sb_gdn_convolve<T, DK, TAPS>(job, key_head, head, room);
    sb_gdn_gates(job, head, room.stage);
    if (!SB_PLANT(fused_gdn_barrier))
        __syncthreads();
    sb_gdn_norm<T, DK>(job, room.stage);
    if (!SB_PLANT(fused_gdn_barrier2))
        __syncthreads();
    for (uint32_t row = 0; row < d.rows; row++) {
        float v = 0.0f;
        if (column < d.dv)
            v = room.v[row * SB_DELTA_COLUMNS + mine];
        sb_delta_row<T, DK>(d, room.stage, row, row, head, column, v, state);
    }
    if (d.to)
        sb_delta_store<DK>(d.to + sb_delta_state(d, sb_slot_written(d.slot), head), d.dk, d.dv,
                           column, part, state);
}

/* --- the second kernel ------------------------------------------------------------------------ */
/* out or staged may be NULL. staged has the form of sb_linear_stage for a layer of `shape`, whose
 * columns must not be reordered by an index. */
template <class T> struct sb_gdn_end_job {
    sb_conv_job<T> conv;
    sb_global<const T> in, z; /* (rows, heads, n) */
    sb_global<const float> weight;
    sb_global<T> out;
    sb_global<uint2> staged;
    sb_linear_shape shape;
    uint32_t rows, heads, n; /* n is even */
    float eps;
};

/* One head of one row, as an input of the next layer. */
template <class T> struct sb_gated_row {
    sb_global<const T> in, z; /* of the head */
    sb_global<const float> weight;
    uint32_t first; /* column */
    float r;

    SB_ATOM_FN T value(uint32_t i) const
    {
        return sb_gated_normed<T>(sb_wide(static_cast<T>(in[i])), r, weight[i],
                                  sb_wide(static_cast<T>(z[i])));
    }
    SB_ATOM_FN uint32_t bits(uint32_t, uint32_t column) const
    {
        return sb_linear_bits(value(column - first));
    }
};

template <class T>
SB_KERNEL_FN void sb_gdn_gated(const sb_gdn_end_job<T> &job, uint32_t row, uint32_t head,
                               sb_shared<float> part)
{
    const uint32_t n = job.n, pairs = job.shape.chunks * (SB_CHUNK / 2);
    const size_t at = (static_cast<size_t>(row) * job.heads + head) * n;
    const uint32_t end = head + 1 < job.heads ? (head + 1) * n / 2 : pairs;
    sb_gated_row<T> mine = {job.in + at, job.z + at, job.weight, head * n, 0.0f};
    if (row < job.rows) {
        mine.r = sb_inverse_rms(sb_sum_of_squares<T>(mine.in, n, part), n, job.eps);
        for (uint32_t i = threadIdx.x; i < n && job.out; i += blockDim.x)
            job.out[at + i] = mine.value(i);
    }
    sb_stage_row(mine, job.shape, job.rows, row, head * n / 2, end, job.staged, nullptr);
}

/* The first blocks norm one head of one row each (with `staged` also of padding rows). The other
 * blocks write the conv state, one channel per thread. The number of threads is that of the norm of
 * a head. */
template <class T, int TAPS>
static __global__ void __launch_bounds__(SB_SUM_WARPS *SB_WARP)
    sb_gdn_end_kernel(const sb_gdn_end_job<T> job, uint32_t gated)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED(float, part, SB_SUM_WARPS);
    if (blockIdx.x < gated) {
        sb_gdn_gated(job, blockIdx.x / job.heads, blockIdx.x % job.heads, part);
        return;
    }
    const uint32_t channel = (blockIdx.x - gated) * blockDim.x + threadIdx.x;
    T window[TAPS];
    if (channel >= job.conv.channels)
        return;
    sb_conv_begin<T, TAPS>(job.conv, 0, channel, window);
    for (uint32_t row = 0; row < job.conv.rows; row++) {
        sb_conv_go_on<T, TAPS>(job.conv, row, channel, window);
        sb_conv_keep_row<T, TAPS>(job.conv, row, channel, window);
    }
}

/* --- launches --------------------------------------------------------------------------------- */
constexpr int SB_GDN_TAPS = 4; /* in all known models */

template <class T, int DK>
static sb_status sb_gdn_keys(const sb_queue *queue, const sb_gdn_job<T> &job)
{
    const dim3 grid((job.delta.dv + SB_DELTA_COLUMNS - 1) / SB_DELTA_COLUMNS, job.delta.v_heads);
    return SB_LAUNCH(queue, (sb_gdn_kernel<T, DK, SB_GDN_TAPS>), grid, SB_DELTA_THREADS, 0, job);
}
/* SB_ERR_UNSUPPORTED: too many rows, or keys of more than 128 elements. */
template <class T> static sb_status sb_gdn_launch(const sb_queue *queue, const sb_gdn_job<T> &job)
{
    if (job.delta.rows > SB_GDN_ROWS || job.delta.dk > 128)
        return SB_ERR_UNSUPPORTED;
    if (job.delta.dk <= 32)
        return sb_gdn_keys<T, 32>(queue, job);
    return job.delta.dk <= 64 ? sb_gdn_keys<T, 64>(queue, job) : sb_gdn_keys<T, 128>(queue, job);
}

template <class T>
static sb_status sb_gdn_end_launch(const sb_queue *queue, const sb_gdn_end_job<T> &job)
{
    const uint32_t gated = sb_stage_blocks(job.rows, job.staged) * job.heads;
    const uint32_t threads = sb_sum_threads(job.n);
    return SB_LAUNCH(queue, (sb_gdn_end_kernel<T, SB_GDN_TAPS>),
                     gated + (job.conv.channels + threads - 1) / threads, threads, 0, job, gated);
}

#endif
