/* fused_stage.cuh - inputs of layers on the bf16 unit, staged by the kernels that compute them.
 * Y-81: "is staged for the next layer at once, and stands nowhere else" */
#ifndef SB_GPU_KERNEL_FUSED_STAGE_CUH
#define SB_GPU_KERNEL_FUSED_STAGE_CUH

#include "gpu/kernel/elementwise.cuh"
#include "gpu/kernel/experts_linear.cuh"

/* The shape for staging the input of a layer whose columns are not reordered by an index. */
static inline sb_linear_shape sb_stage_shape(uint32_t cols)
{
    sb_linear_shape shape = sb_linear_shape();
    shape.cols = cols;
    shape.chunks = (cols + SB_CHUNK - 1) / SB_CHUNK;
    return shape;
}

/* --- a row that one block stages -------------------------------------------------------------- */
/* Stages column pairs [from, end) of row `row`, in both forms unless a pointer is NULL. Padding
 * rows are written to the fragments only. */
template <class INPUT>
SB_KERNEL_FN void sb_stage_row(const INPUT &in, const sb_linear_shape &shape, uint32_t rows,
                               uint32_t row, uint32_t from, uint32_t end, sb_global<uint2> staged,
                               sb_global<uint32_t> pairs)
{
    const sb_global<uint32_t> words = sb_cast<uint32_t>(staged);
    const uint32_t wide = shape.chunks * (SB_CHUNK / 2);
    if (!staged && !pairs)
        return;
    for (uint32_t pair = from + threadIdx.x; pair < end; pair += blockDim.x) {
        const uint32_t word = sb_linear_pair(shape, in, nullptr, rows, row, 2 * pair);
        if (staged)
            words[sb_linear_pair_at(shape, SB_PLANT(fused_stage_row) ? row ^ 1 : row, pair)] = word;
        if (pairs && row < rows)
            pairs[static_cast<size_t>(row) * wide + pair] = word;
    }
}

/* The number of blocks: rows, or with `fills` also padding rows. */
static inline uint32_t sb_stage_blocks(uint32_t rows, bool fills)
{
    return fills ? (rows + SB_LINEAR_COLUMNS - 1) / SB_LINEAR_COLUMNS * SB_LINEAR_COLUMNS : rows;
}
template <class P> static inline uint32_t sb_stage_blocks(uint32_t rows, const P &staged)
{
    return sb_stage_blocks(rows, static_cast<bool>(staged));
}

/* --- inputs that are computed ----------------------------------------------------------------- */
template <class T> struct sb_swiglu_input {
    sb_global<const T> gate, up; /* (rows, cols) */
    uint32_t cols;

    SB_ATOM_FN uint32_t bits(uint32_t row, uint32_t column) const
    {
        const size_t i = static_cast<size_t>(row) * cols + column;
        return sb_linear_bits(
            sb_swiglu<T>(sb_wide(static_cast<T>(gate[i])), sb_wide(static_cast<T>(up[i]))));
    }
};

/* The gates are still in `packed`, the output of q_proj, after the query of each head (R-13). */
template <class T> struct sb_attn_gate_input {
    sb_global<const T> in;     /* (rows, heads, hd); a row has `cols` elements */
    sb_global<const T> packed; /* (rows, heads, 2 hd) */
    uint32_t cols, hd;

    SB_ATOM_FN uint32_t bits(uint32_t row, uint32_t column) const
    {
        const size_t i = static_cast<size_t>(row) * cols + column, head = i / hd;
        const size_t at = head * 2 * hd + i % hd + (SB_PLANT(fused_gate_half) ? 0 : hd);
        return sb_linear_bits(
            sb_attn_gated<T>(sb_wide(static_cast<T>(in[i])), sb_wide(static_cast<T>(packed[at]))));
    }
};

/* A thread writes two words of a layer's input, or one word of the experts' inputs. */
template <class INPUT>
static __global__ void __launch_bounds__(SB_EACH_THREADS)
    sb_stage_kernel(const INPUT in, sb_global<const uint32_t> columns, sb_global<uint2> out,
                    sb_linear_shape shape, uint32_t rows)
{
    sb_launch_ready();
    sb_launch_wait();
    sb_linear_stage_at(sb_each(), in, columns, out, shape, rows);
}
template <class INPUT>
static __global__ void __launch_bounds__(SB_EACH_THREADS)
    sb_stage_pairs_kernel(const INPUT in, sb_global<const uint32_t> columns,
                          sb_global<uint32_t> out, sb_linear_shape shape, uint32_t rows)
{
    sb_launch_ready();
    sb_launch_wait();
    sb_expert_stage_at(sb_each(), in, columns, out, shape, rows);
}

static inline uint32_t sb_stage_over(size_t n)
{
    return static_cast<uint32_t>((n + SB_EACH_THREADS - 1) / SB_EACH_THREADS);
}
/* The number of elements of a staged input of a layer, each of two words. */
static inline size_t sb_stage_words(const sb_linear_shape &shape, uint32_t rows)
{
    const size_t tiles = (rows + SB_LINEAR_COLUMNS - 1) / SB_LINEAR_COLUMNS;
    return tiles * shape.chunks * SB_STEPS * 32;
}
template <class INPUT>
static sb_status sb_stage_launch(const sb_queue *queue, const INPUT &in,
                                 sb_global<const uint32_t> columns, sb_global<uint2> out,
                                 const sb_linear_shape &shape, uint32_t rows)
{
    return SB_LAUNCH(queue, sb_stage_kernel<INPUT>, sb_stage_over(sb_stage_words(shape, rows)),
                     SB_EACH_THREADS, 0, in, columns, out, shape, rows);
}
template <class INPUT>
static sb_status sb_stage_pairs_launch(const sb_queue *queue, const INPUT &in,
                                       sb_global<const uint32_t> columns, sb_global<uint32_t> out,
                                       const sb_linear_shape &shape, uint32_t rows)
{
    return SB_LAUNCH(queue, sb_stage_pairs_kernel<INPUT>,
                     sb_stage_over(static_cast<size_t>(rows) * shape.chunks * (SB_CHUNK / 2)),
                     SB_EACH_THREADS, 0, in, columns, out, shape, rows);
}

#endif
