/* linear_rows.cuh - launches the kernels of one kind of codes for a number of rows. A source that
 * launches one kind includes this header, since nvcc compiles every kernel that a launch in its
 * source names: linear_launch.cuh names those of all kinds. */
#ifndef SB_KERNEL_LINEAR_ROWS_CUH
#define SB_KERNEL_LINEAR_ROWS_CUH

#include "gpu/kernel/linear.cuh"
#include "gpu/kernel/wide_launch.cuh"

static inline uint32_t sb_linear_over(size_t n, size_t unit)
{
    return static_cast<uint32_t>((n + unit - 1) / unit);
}

/* The number of elements of the staged input. */
static inline size_t sb_linear_staged(const sb_linear_shape &shape, uint32_t rows)
{
    return static_cast<size_t>(sb_linear_over(rows, SB_LINEAR_COLUMNS)) * shape.chunks * SB_STEPS *
           32;
}

template <int CODES, bool GROUPED, int MT, int NT>
static sb_status sb_linear_tiles(const sb_queue *queue, sb_linear_list<float> list,
                                 sb_global<const uint2> x, uint32_t rows)
{
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < list.count; i++) {
        list.of[i].begin = blocks;
        blocks += sb_linear_over(list.of[i].shape.rows, SB_TILE_ROWS * MT);
    }
    const dim3 grid(blocks, sb_linear_over(rows, SB_LINEAR_COLUMNS * NT));
    return SB_LAUNCH(queue, (sb_linear_kernel<CODES, GROUPED, MT, NT, float>), grid,
                     SB_LINEAR_THREADS, sb_linear_bytes(MT, NT), list, x, rows);
}

/* Chooses the tiles per block by the number of rows; the choice changes no bit. */
template <int CODES, bool GROUPED>
static sb_status sb_linear_rows(const sb_queue *queue, const sb_linear_list<float> &list,
                                sb_global<const uint2> x, uint32_t rows, bool many)
{
    if (many)
        return sb_wide_launch<CODES, GROUPED>(queue, list.of[0].shape, list.of[0].weights,
                                              sb_cast<const uint32_t>(x), list.of[0].out, rows,
                                              list.of[0].wide);
    if (rows <= SB_LINEAR_COLUMNS)
        return sb_linear_tiles<CODES, GROUPED, 1, 1>(queue, list, x, rows);
    if (rows <= 2 * SB_LINEAR_COLUMNS)
        return sb_linear_tiles<CODES, GROUPED, 1, 2>(queue, list, x, rows);
    return sb_linear_tiles<CODES, GROUPED, 2, 8>(queue, list, x, rows);
}

#endif
