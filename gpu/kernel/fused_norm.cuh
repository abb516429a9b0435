/* fused_norm.cuh - adds to the residual stream, and norms the sum. Y-80: "A norm of the residual
 * stream first adds the output of the sublayer before it", "A norm is staged for the layers and the
 * experts that read it, once for all of them." A block keeps one row in shared memory. */
#ifndef SB_GPU_KERNEL_FUSED_NORM_CUH
#define SB_GPU_KERNEL_FUSED_NORM_CUH

#include "gpu/kernel/combine.cuh"
#include "gpu/kernel/fused_stage.cuh"
#include "gpu/kernel/norm.cuh"

enum : uint32_t { SB_FUSED_NORM_THREADS = 1024 }; /* at most */

/* --- inputs that are added to the stream (rows, n) -------------------------------------------- */
/* of_row selects a row; value returns one element of this row. */
struct sb_add_nothing {
    static constexpr bool ADDS = false;
    SB_ATOM_FN sb_add_nothing of_row(uint32_t, uint32_t) const
    {
        return *this;
    }
    SB_ATOM_FN float value(uint32_t) const
    {
        return 0.0f;
    }
};
template <class T> struct sb_add_values {
    static constexpr bool ADDS = true;
    sb_global<const T> y;

    SB_ATOM_FN sb_add_values of_row(uint32_t row, uint32_t n) const
    {
        return {y + static_cast<size_t>(row) * n};
    }
    SB_ATOM_FN float value(uint32_t i) const
    {
        return sb_wide(static_cast<T>(y[i]));
    }
};
/* The combined outputs of the experts of a row and of the shared expert. */
template <class T> struct sb_add_combined {
    static constexpr bool ADDS = true;
    sb_global<const T> expert_out;      /* (rows, kept, n) */
    sb_global<const float> weights;     /* (rows, kept) */
    sb_global<const T> shared_out;      /* (rows, n) */
    sb_global<const float> shared_gate; /* (rows) logits; `open` is the sigmoid of a row's logit */
    uint32_t kept, n;
    float open;

    SB_ATOM_FN sb_add_combined of_row(uint32_t row, uint32_t width) const
    {
        sb_add_combined mine = *this;
        mine.expert_out += static_cast<size_t>(row) * kept * width;
        mine.weights += row * kept;
        mine.shared_out += static_cast<size_t>(row) * width;
        mine.n = width;
        mine.open = sb_gpu_sigmoid(shared_gate[SB_PLANT(fused_combine_row) ? 0 : row]);
        return mine;
    }
    SB_ATOM_FN float value(uint32_t i) const
    {
        return sb_wide(sb_combined<T>(expert_out, weights, shared_out, open, kept, n, i));
    }
};

/* --- the kernel ------------------------------------------------------------------------------- */
/* Each of out, staged and pairs may be NULL. staged and pairs have the forms of sb_linear_stage and
 * sb_expert_stage for layers of `shape`, whose columns must not be reordered by an index. */
template <class ADDED, class T> struct sb_add_norm_job {
    sb_global<const float> x; /* (rows, n) the stream */
    ADDED added;
    sb_global<float> sum; /* the new stream, which may be x; not written if nothing is added */
    sb_global<const float> weight;
    sb_global<T> out;
    sb_global<uint2> staged;
    sb_global<uint32_t> pairs;
    sb_linear_shape shape;
    uint32_t rows, n;
    float eps;
};

/* A normed row as an input of layers, computed from the sums in shared memory. */
template <class T> struct sb_normed_row {
    sb_shared<const float> sum;
    sb_global<const float> weight;
    float r;

    SB_ATOM_FN T value(uint32_t i) const
    {
        return sb_normed<T>(sum[i], r, weight[i]);
    }
    SB_ATOM_FN uint32_t bits(uint32_t, uint32_t column) const
    {
        return sb_linear_bits(value(column));
    }
};

/* One block for each row, and with `staged` also for each padding row of the last tile. Shared
 * memory: n floats. */
template <class ADDED, class T>
static __global__ void __launch_bounds__(SB_FUSED_NORM_THREADS)
    sb_add_norm_kernel(const sb_add_norm_job<ADDED, T> job)
{
    sb_launch_ready();
    sb_launch_wait();
    SB_SHARED_DYNAMIC(float, sum);
    SB_SHARED(float, part, SB_SUM_WARPS);
    const uint32_t row = blockIdx.x, n = job.n, threads = sb_sum_threads(n);
    const size_t first = static_cast<size_t>(row) * n;
    sb_normed_row<T> mine = {sum, job.weight, 0.0f};
    if (row < job.rows) {
        const ADDED added = job.added.of_row(row, n);
        for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
            float x = job.x[first + i];
            if (ADDED::ADDS) {
                x = __fadd_rn(x, added.value(i));
                job.sum[first + i] = x;
            }
            sum[i] = x;
        }
        if (!SB_PLANT(fused_norm_barrier))
            __syncthreads();
        float squares = 0.0f;
        if (threadIdx.x < threads)
            squares = sb_squares_of<float>(sum, n, threadIdx.x, threads);
        mine.r = sb_inverse_rms(sb_block_sum(squares, part, threads), n, job.eps);
        for (uint32_t i = threadIdx.x; i < n && job.out; i += blockDim.x)
            job.out[first + i] = mine.value(i);
    }
    sb_stage_row(mine, job.shape, job.rows, row, 0, job.shape.chunks * (SB_CHUNK / 2), job.staged,
                 job.pairs);
}

template <class ADDED, class T>
static sb_status sb_add_norm_launch(const sb_queue *queue, const sb_add_norm_job<ADDED, T> &job)
{
    const uint32_t most = SB_FUSED_NORM_THREADS, warps = (job.n + SB_WARP - 1) / SB_WARP * SB_WARP;
    return SB_LAUNCH(queue, (sb_add_norm_kernel<ADDED, T>), sb_stage_blocks(job.rows, job.staged),
                     warps < most ? warps : most, job.n * sizeof(float), job);
}

#endif
