/* linear_launch.cuh - chooses the instance of the kernels for a layer and a number of rows. */
#ifndef SB_KERNEL_LINEAR_LAUNCH_CUH
#define SB_KERNEL_LINEAR_LAUNCH_CUH

#include "gpu/kernel/linear_rows.cuh"

/* The arguments of a layer, in memory of the kernels. */
struct sb_linear_call {
    const sb_queue *queue;
    sb_global<const uint4> weights; /* sb_pack_linear */
    sb_global<const uint2> x;       /* sb_linear_prepare */
    sb_global<float> out;           /* (rows, N) */
    sb_linear_shape shape;
    uint32_t rows;
    uint32_t wide;     /* outputs stay in binary32 */
    uint32_t many = 0; /* sb_wide_takes(shape, rows) */
};

/* Stages the input of a call into x. */
static inline sb_status sb_linear_prepare(const sb_queue *queue, sb_global<const float> in,
                                          sb_global<const uint32_t> columns, sb_global<uint2> x,
                                          const sb_linear_shape &shape, uint32_t rows, bool many)
{
    const size_t staged = sb_linear_staged(shape, rows);
    const size_t pairs = static_cast<size_t>(rows) * shape.chunks * (SB_CHUNK / 2);
    return many ? SB_LAUNCH(queue, sb_expert_stage<float>, sb_linear_over(pairs, 256), 256, 0, in,
                            columns, sb_cast<uint32_t>(x), shape, rows)
                : SB_LAUNCH(queue, sb_linear_stage<float>, sb_linear_over(staged, 256), 256, 0, in,
                            columns, x, shape, rows);
}

/* True if one instance of the kernel can compute both layers. */
static inline bool sb_linear_together(const sb_linear_shape &a, const sb_linear_shape &b)
{
    return a.codes == b.codes && (a.parts != 0) == (b.parts != 0) && a.chunks == b.chunks &&
           !a.gathers && !b.gathers;
}

/* Launches several matrices with the same input; one instance must be able to compute all of them.
 */
static inline sb_status sb_linear_list_launch(const sb_queue *queue,
                                              const sb_linear_list<float> &list,
                                              sb_global<const uint2> x, uint32_t rows, bool many)
{
    const bool grouped = list.of[0].shape.parts != 0;
    switch (list.of[0].shape.codes) {
    case SB_CODES_bf16:
        return sb_linear_rows<SB_CODES_bf16, false>(queue, list, x, rows, many);
    case SB_CODES_nvfp4:
        return sb_linear_rows<SB_CODES_nvfp4, false>(queue, list, x, rows, many);
    case SB_CODES_e4m3:
        return grouped ? sb_linear_rows<SB_CODES_e4m3, true>(queue, list, x, rows, many)
                       : sb_linear_rows<SB_CODES_e4m3, false>(queue, list, x, rows, many);
    case SB_CODES_e2m1:
        return grouped ? sb_linear_rows<SB_CODES_e2m1, true>(queue, list, x, rows, many)
                       : sb_linear_rows<SB_CODES_e2m1, false>(queue, list, x, rows, many);
    case SB_CODES_u4:
        return grouped ? sb_linear_rows<SB_CODES_u4, true>(queue, list, x, rows, many)
                       : sb_linear_rows<SB_CODES_u4, false>(queue, list, x, rows, many);
    case SB_CODES_u8:
        return grouped ? sb_linear_rows<SB_CODES_u8, true>(queue, list, x, rows, many)
                       : sb_linear_rows<SB_CODES_u8, false>(queue, list, x, rows, many);
    case SB_CODES_COUNT:
        break;
    }
    return SB_ERR_UNSUPPORTED;
}

static inline sb_status sb_linear_launch(const sb_linear_call &c)
{
    sb_linear_list<float> list = {};
    list.of[0] = {c.weights, c.out, c.shape, c.wide, 0};
    list.count = 1;
    return sb_linear_list_launch(c.queue, list, c.x, c.rows, c.many);
}

#endif
