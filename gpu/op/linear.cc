/* linear.cc - linear layers of weights that are not multiplied in few bits (docs/gpu-linear.md). */
#include "gpu/kernel/linear_launch.cuh"
#include "gpu/kernel/pack.h"
#include "gpu/op/linear_forms.h"
#include "gpu/op/linear_lowbit.h"

sb_status sb_gpu_linear(sb_gpu *gpu, const sb_knobs *knobs, const sb_linear_args *a)
{
    const sb_act_scheme scheme = sb_input_scheme(knobs, a->weight);
    if (scheme != SB_SCHEME_none)
        return sb_gpu_linear_lowbit(gpu, knobs, a, scheme);
    sb_gpu_work work(gpu);
    const uint32_t rows = static_cast<uint32_t>(a->rows), n = a->weight->rows, k = a->weight->cols;
    const char *why = sb_linear_refusal(knobs, a->weight, a->kind);
    sb_linear_shape shape = sb_linear_shape();
    if (!why && sb_pack_shape(a->weight, &shape) == SB_ERR_UNSUPPORTED)
        why = "no operand of the bf16 unit holds its codes";
    if (!why && !sb_linear_is_bf16(work, a->in, a->rows * k))
        why = "an input is not a bfloat16";
    if (why)
        return sb_fail(work.err(), SB_ERR_UNSUPPORTED, "a linear layer of %u x %u: %s", n, k, why);
    if (rows == 0)
        return SB_OK;
    const size_t columns = static_cast<size_t>(shape.chunks) * SB_CHUNK;
    const size_t staged = sb_linear_staged(shape, rows);
    const auto weights =
        work.kept<uint4>("weights", a->weight, sb_pack_linear,
                         sb_pack_tiles(shape) * shape.tile_bytes, shape.tile_bytes);
    sb_global<const uint32_t> order = nullptr;
    if (shape.gathers)
        order = work.kept<uint32_t>("columns", a->weight, sb_pack_order, 4 * columns, 4 * columns);
    const auto in = work.in("in", a->in, a->rows * k);
    const auto x = work.scratch<uint2>("staged", staged);
    const auto out = work.out("out", a->out, a->rows * n);
    SB_GPU_RUN(work, sb_linear_stage<float>, sb_gpu_blocks(staged, 256), 256, 0, in, order, x,
               shape, rows);
    if (work.ok())
        work.did(sb_linear_launch({work.queue(), weights, x, out, shape, rows,
                                   sb_linear_stays_wide(knobs, a->kind) != 0}));
    return work.finish();
}
