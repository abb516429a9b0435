/* wide_launch.cuh - decides which calls use the kernels for many rows, and launches these kernels.
 */
#ifndef SB_KERNEL_WIDE_LAUNCH_CUH
#define SB_KERNEL_WIDE_LAUNCH_CUH

#include "gpu/kernel/wide.cuh"

/* Y-85: "If a call has more than 64 rows, and its matrix and rows make at least 64 blocks of 128
 * rows of weights by 128 of inputs, it is computed by such blocks." Fewer blocks would leave too
 * many multiprocessors idle; linear.cuh makes more blocks, since the warps of a block share a sum.
 */
enum : uint32_t { SB_WIDE_LEAST = 64 /* blocks */, SB_WIDE_FEW = 64 /* rows */ };

static inline dim3 sb_wide_grid(uint32_t n, uint32_t sets)
{
    return dim3((n + SB_WIDE_ROWS - 1) / SB_WIDE_ROWS, sets);
}

static inline bool sb_wide_takes(uint32_t n, uint32_t rows)
{
    const dim3 grid = sb_wide_grid(n, (rows + SB_WIDE_ROWS - 1) / SB_WIDE_ROWS);
    return rows > SB_WIDE_FEW && grid.x * grid.y >= SB_WIDE_LEAST;
}
static inline bool sb_wide_takes(const sb_linear_shape &shape, uint32_t rows)
{
    return sb_wide_takes(shape.rows, rows);
}

/* Y-61: "Where an expert has more than 32 on average, sets of 128 go to the blocks of Y-85 or
 * Y-90." */
static inline bool sb_wide_takes_experts(uint32_t pairs, uint32_t experts)
{
    return pairs / 32 > experts;
}

/* Launches the layer of a single matrix; `inputs` have the form of sb_expert_stage. */
template <int CODES, bool GROUPED>
static sb_status sb_wide_launch(const sb_queue *queue, const sb_linear_shape &shape,
                                sb_global<const uint4> weights, sb_global<const uint32_t> inputs,
                                sb_global<float> out, uint32_t rows, uint32_t wide)
{
    using layer = sb_wide_layer<CODES, GROUPED, true>;
    const sb_all_rows all = {rows};
    layer l;
    l.rows = shape.rows;
    l.units = shape.chunks;
    l.shape = shape;
    l.weight = weights;
    l.inputs = inputs;
    l.factor = nullptr;
    return SB_LAUNCH(queue, (sb_wide_kernel<layer, sb_all_rows, float>),
                     sb_wide_grid(shape.rows, (rows + SB_WIDE_ROWS - 1) / SB_WIDE_ROWS),
                     SB_LINEAR_THREADS, sb_wide_bytes(CODES, GROUPED), l, all, out, wide);
}

#endif
