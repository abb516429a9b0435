/* linear_launch.cuh - which instance of the kernels a layer and a number of rows get. */
#ifndef SB_KERNEL_LINEAR_LAUNCH_CUH
#define SB_KERNEL_LINEAR_LAUNCH_CUH

#include "gpu/kernel/linear.cuh"

/* What a layer computes with, as kernels see it. */
struct sb_linear_call {
    const sb_queue *queue;
    sb_global<const uint4> weights; /* sb_pack_linear */
    sb_global<const uint2> x;       /* sb_linear_stage */
    sb_global<float> out;           /* (rows, N) */
    sb_linear_shape shape;
    uint32_t rows;
    uint32_t wide; /* the outputs stay binary32 */
};

static inline uint32_t sb_linear_over(size_t n, size_t unit)
{
    return static_cast<uint32_t>((n + unit - 1) / unit);
}

/* Elements of the staged input. */
static inline size_t sb_linear_staged(const sb_linear_shape &shape, uint32_t rows)
{
    return static_cast<size_t>(sb_linear_over(rows, SB_LINEAR_COLUMNS)) * shape.chunks * SB_STEPS *
           32;
}

template <int CODES, bool GROUPED, int MT, int NT>
static sb_status sb_linear_tiles(const sb_linear_call &c)
{
    const dim3 grid(sb_linear_over(c.shape.rows, SB_TILE_ROWS * MT),
                    sb_linear_over(c.rows, SB_LINEAR_COLUMNS * NT));
    return SB_LAUNCH(c.queue, (sb_linear_kernel<CODES, GROUPED, MT, NT, float>), grid,
                     SB_LINEAR_THREADS, sb_linear_bytes(MT, NT), c.weights, c.x, c.out, c.shape,
                     c.rows, c.wide);
}

/* How many tiles a block has decides no bit. */
template <int CODES, bool GROUPED> static sb_status sb_linear_rows(const sb_linear_call &c)
{
    if (c.rows <= SB_LINEAR_COLUMNS)
        return sb_linear_tiles<CODES, GROUPED, 1, 1>(c);
    if (c.rows <= 2 * SB_LINEAR_COLUMNS)
        return sb_linear_tiles<CODES, GROUPED, 1, 2>(c);
    return sb_linear_tiles<CODES, GROUPED, 2, 8>(c);
}

static inline sb_status sb_linear_launch(const sb_linear_call &c)
{
    const bool grouped = c.shape.parts != 0;
    switch (c.shape.codes) {
    case SB_CODES_bf16:
        return sb_linear_rows<SB_CODES_bf16, false>(c);
    case SB_CODES_nvfp4:
        return sb_linear_rows<SB_CODES_nvfp4, false>(c);
    case SB_CODES_e4m3:
        return grouped ? sb_linear_rows<SB_CODES_e4m3, true>(c)
                       : sb_linear_rows<SB_CODES_e4m3, false>(c);
    case SB_CODES_e2m1:
        return grouped ? sb_linear_rows<SB_CODES_e2m1, true>(c)
                       : sb_linear_rows<SB_CODES_e2m1, false>(c);
    case SB_CODES_u4:
        return grouped ? sb_linear_rows<SB_CODES_u4, true>(c)
                       : sb_linear_rows<SB_CODES_u4, false>(c);
    case SB_CODES_u8:
        return grouped ? sb_linear_rows<SB_CODES_u8, true>(c)
                       : sb_linear_rows<SB_CODES_u8, false>(c);
    case SB_CODES_COUNT:
        break;
    }
    return SB_ERR_UNSUPPORTED;
}

#endif
