/* linear.cc - linear layers of weights that are not multiplied in few bits (docs/gpu-linear.md). */
#include "gpu/kernel/linear_launch.cuh"
#include "gpu/kernel/pack.h"
#include "gpu/op/linear_lowbit.h"

extern "C" {
#include "ref/base/bytes.h"
#include "ref/ops/act_quant.h"
#include "ref/ops/param.h"
#include "ref/ops/rounding.h"
}

static sb_status pack_columns(const sb_matrix *matrix, size_t, size_t, unsigned char *to)
{
    sb_linear_shape shape;
    const sb_status status = sb_pack_shape(matrix, &shape);
    return status ? status : sb_pack_columns(matrix, shape, reinterpret_cast<uint32_t *>(to));
}

/* Why these kernels do not compute this layer; NULL: they do. */
static const char *refusal(const sb_knobs *knobs, const sb_linear_args *a)
{
    const sb_format input = sb_linear_input_format(knobs, a->weight, a->kind);
    if (sb_act_format(knobs) != SB_FORMAT_bf16)
        return "activations are not in bfloat16";
    if (sb_param_cast(knobs, a->weight))
        return "the knobs round weights";
    if (input != SB_FORMAT_f32 && input != SB_FORMAT_bf16)
        return "its inputs are to be rounded to another type than bfloat16";
    return nullptr;
}

/* Y-46: "The input is in bfloat16." */
static bool is_bf16(const float *x, size_t count)
{
    uint32_t below = 0;
    for (size_t i = 0; i < count; i++)
        below |= sb_bits_f32(x[i]) & 0xffff;
    return below == 0;
}

sb_status sb_gpu_linear(sb_gpu *gpu, const sb_knobs *knobs, const sb_linear_args *a)
{
    const sb_act_scheme scheme = sb_input_scheme(knobs, a->weight);
    if (scheme != SB_SCHEME_none)
        return sb_gpu_linear_lowbit(gpu, knobs, a, scheme);
    sb_gpu_work work(gpu);
    const uint32_t rows = static_cast<uint32_t>(a->rows), n = a->weight->rows, k = a->weight->cols;
    const char *why = refusal(knobs, a);
    sb_linear_shape shape = sb_linear_shape();
    if (!why && sb_pack_shape(a->weight, &shape) == SB_ERR_UNSUPPORTED)
        why = "no operand of the bf16 unit holds its codes";
    if (!why && !is_bf16(a->in, a->rows * k))
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
        order = work.kept<uint32_t>("columns", a->weight, pack_columns, 4 * columns, 4 * columns);
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
