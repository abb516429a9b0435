/* linear_lowbit.cc - linear layers W8A8 and W4A4: quantize the input, multiply codes. */
#include "gpu/op/linear_lowbit.h"

#include "gpu/kernel/wide_lowbit.cuh"
#include "gpu/op/lowbit_forms.h"

template <class LAYER, int NT> static void multiply_tiles(const lowbit_call &c, const LAYER &layer)
{
    const dim3 grid(sb_lowbit_tiles(c.shape), sb_gpu_blocks(c.rows, SB_TILE_INPUTS * NT));
    const sb_all_rows all = {c.rows};
    SB_GPU_RUN(*c.work, (sb_tile_kernel<LAYER, NT, sb_all_rows, float>), grid, SB_TILE_THREADS,
               sb_tile_bytes(NT), sb_tile_alone(layer, c.out), all, c.wide);
}

/* Starts the product of codes. The number of tiles per block changes no bit. */
template <class LAYER> static void multiply(const lowbit_call &c, const LAYER &layer)
{
    if (sb_wide_takes(c.shape, c.rows)) {
        if (c.work->ok())
            c.work->did(sb_wide_lowbit_launch(c.work->queue(), layer, c.out, c.rows, c.wide));
    } else if (c.rows <= SB_TILE_INPUTS)
        multiply_tiles<LAYER, 1>(c, layer);
    else if (c.rows <= 2 * SB_TILE_INPUTS)
        multiply_tiles<LAYER, 2>(c, layer);
    else
        multiply_tiles<LAYER, 8>(c, layer);
}

sb_status sb_gpu_linear_lowbit(sb_gpu *gpu, const sb_knobs *knobs, const sb_linear_args *a,
                               sb_act_scheme scheme)
{
    sb_gpu_work work(gpu);
    const uint32_t n = a->weight->rows, k = a->weight->cols;
    const char *why = lowbit_refusal(knobs, a->weight, scheme);
    lowbit_call c = lowbit_call();
    float2 factor = {1.0f, 1.0f};
    if (!why && sb_lowbit_pack_shape(a->weight, scheme, &c.shape) != SB_OK)
        why = "its codes and scales are not those of the unit";
    if (!why && !sb_lowbit_factor(a->weight, scheme, &factor.x, &factor.y))
        why = "the product of its factors is out of range";
    if (why)
        return sb_fail(work.err(), SB_ERR_UNSUPPORTED, "a linear layer of %u x %u: %s", n, k, why);
    if (a->rows == 0)
        return SB_OK;
    const size_t tile = sb_lowbit_tile_bytes(c.shape), tiles = sb_lowbit_tiles(c.shape);
    const size_t scales = sb_lowbit_weight_scales(c.shape);
    const size_t in_scales =
        c.shape.bits == 8 ? sb_lowbit_scales(c.shape) : sb_lowbit_scale_words(c.shape);
    c.work = &work;
    c.rows = static_cast<uint32_t>(a->rows);
    c.wide = sb_linear_stays_wide(knobs, a->kind) != 0;
    c.weight = work.kept<uint4>("weight", a->weight, sb_lowbit_code_bytes, tiles * tile, tile);
    c.scale = work.kept<uint32_t>("scales", a->weight, sb_lowbit_scale_bytes, scales * 4,
                                  scales / tiles * 4);
    c.in = work.in("in", a->in, a->rows * k);
    c.codes = work.scratch<uint32_t>("codes", a->rows * sb_lowbit_words(c.shape));
    c.in_scale = work.scratch<uint32_t>("scales of the input", a->rows * in_scales);
    c.factor = work.constant("factor", &factor, 1);
    c.out = work.out("out", a->out, a->rows * n);
    lowbit_quantize(c, scheme, a->weight->quant.input);
    lowbit_layer(c, scheme, [&c](const auto &layer) { multiply(c, layer); });
    return work.finish();
}
