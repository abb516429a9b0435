/* linear_lowbit.cc - linear layers W8A8 and W4A4: quantize the input, multiply codes. */
#include "gpu/op/linear_lowbit.h"

#include "gpu/kernel/act_quant.cuh"
#include "gpu/kernel/linear_w4a4.cuh"
#include "gpu/kernel/linear_w8a8.cuh"
#include "gpu/kernel/lowbit_pack.h"

extern "C" {
#include "ref/ops/param.h"
#include "ref/ops/rounding.h"
}

/* --- packed weights, which the knobs do not enter ----------------------------------------------
 */
static sb_status pack_codes(const sb_matrix *matrix, size_t first, size_t bytes, unsigned char *to)
{
    sb_lowbit_shape shape;
    const sb_status status = sb_lowbit_pack_shape(matrix, sb_lowbit_scheme(matrix), &shape);
    const size_t tile = sb_lowbit_tile_bytes(shape);
    if (!status)
        sb_lowbit_pack_codes(matrix, &shape, static_cast<uint32_t>(first / tile),
                             static_cast<uint32_t>((first + bytes) / tile),
                             reinterpret_cast<uint32_t *>(to));
    return status;
}

static sb_status pack_scales(const sb_matrix *matrix, size_t first, size_t bytes, unsigned char *to)
{
    sb_lowbit_shape shape;
    const sb_status status = sb_lowbit_pack_shape(matrix, sb_lowbit_scheme(matrix), &shape);
    const size_t tile = sb_lowbit_weight_scales(shape) / sb_lowbit_tiles(shape) * 4;
    if (!status)
        sb_lowbit_pack_scales(matrix, &shape, static_cast<uint32_t>(first / tile),
                              static_cast<uint32_t>((first + bytes) / tile),
                              reinterpret_cast<uint32_t *>(to));
    return status;
}

/* --- one layer ---------------------------------------------------------------------------------
 */

/* What a layer computes with. */
struct lowbit_call {
    sb_gpu_work *work;
    sb_lowbit_shape shape;
    uint32_t rows, wide;
    sb_global<const uint4> weight;
    sb_global<const uint32_t> scale;
    sb_global<const float> in;
    sb_global<uint32_t> codes, in_scale;
    sb_global<const float2> factor;
    sb_global<float> out;
};

template <class LAYER, int NT> static void multiply_tiles(const lowbit_call &c, const LAYER &layer)
{
    const dim3 grid(sb_lowbit_tiles(c.shape), sb_gpu_blocks(c.rows, SB_TILE_INPUTS * NT));
    const sb_all_rows all = {c.rows};
    SB_GPU_RUN(*c.work, (sb_tile_kernel<LAYER, NT, sb_all_rows, float>), grid, SB_TILE_THREADS,
               sb_tile_bytes(NT), layer, all, c.out, c.wide);
}

/* How many tiles a block has decides no bit. */
template <class LAYER> static void multiply(const lowbit_call &c, const LAYER &layer)
{
    if (c.rows <= SB_TILE_INPUTS)
        multiply_tiles<LAYER, 1>(c, layer);
    else if (c.rows <= 2 * SB_TILE_INPUTS)
        multiply_tiles<LAYER, 2>(c, layer);
    else
        multiply_tiles<LAYER, 8>(c, layer);
}

template <bool GROUPED> static void multiply_w8a8(const lowbit_call &c)
{
    const sb_w8a8<GROUPED> layer = {c.shape.rows,
                                    c.shape.units,
                                    c.shape.steps,
                                    c.weight,
                                    sb_cast<const float>(c.scale),
                                    c.codes,
                                    sb_cast<const float>(c.in_scale),
                                    c.factor};
    multiply(c, layer);
}

template <sb_act_form FORM> static void quantize_fp8(const lowbit_call &c, float inverse)
{
    const unsigned groups = c.rows * sb_lowbit_scales(c.shape);
    SB_GPU_RUN(*c.work, (sb_act_fp8_kernel<FORM, float>),
               sb_gpu_blocks(groups, SB_ACT_THREADS / 32), SB_ACT_THREADS, 0, c.in, c.codes,
               sb_cast<float>(c.in_scale), c.shape, c.rows, inverse);
}

static void run(const lowbit_call &c, sb_act_scheme scheme, sb_factor input)
{
    if (scheme == SB_SCHEME_nvfp4) {
        const size_t groups = static_cast<size_t>(c.rows) * 4 * sb_lowbit_scale_words(c.shape);
        SB_GPU_RUN(*c.work, sb_act_fp4_kernel<float>, sb_gpu_blocks(groups, SB_ACT_THREADS),
                   SB_ACT_THREADS, 0, c.in, c.codes, sb_cast<uint8_t>(c.in_scale), c.shape, c.rows,
                   sb_factor_divisor(input));
        const sb_w4a4 layer = {c.shape.rows, c.shape.units, c.weight, c.scale,
                               c.codes,      c.in_scale,    c.factor};
        multiply(c, layer);
        return;
    }
    if (scheme == SB_SCHEME_fp8_group)
        quantize_fp8<SB_ACT_group>(c, 0.0f);
    else if (scheme == SB_SCHEME_fp8_token)
        quantize_fp8<SB_ACT_token>(c, 0.0f);
    else
        quantize_fp8<SB_ACT_static>(c, 1.0f / sb_factor_multiplier(input));
    if (c.shape.grouped)
        multiply_w8a8<true>(c);
    else
        multiply_w8a8<false>(c);
}

/* The forms that the kernels have; NULL: this is one of them. */
static const char *refusal(const sb_knobs *knobs, const sb_linear_args *a, sb_act_scheme scheme)
{
    if (sb_act_format(knobs) != SB_FORMAT_bf16)
        return "activations are not in bfloat16";
    if (sb_param_cast(knobs, a->weight))
        return "the knobs round weights";
    const bool known = scheme == SB_SCHEME_nvfp4 ? SB_IS(knobs, act_fp4, vllm_ref)
                       : scheme == SB_SCHEME_fp8_group
                           ? SB_IS(knobs, act_fp8_group, vllm_cuda) && SB_IS(knobs, fp8_scale, f32)
                       : scheme == SB_SCHEME_fp8_token  ? SB_IS(knobs, act_fp8_token, vllm)
                       : scheme == SB_SCHEME_fp8_static ? SB_IS(knobs, act_fp8_static, vllm)
                                                        : false;
    return known ? nullptr : "its inputs are to be quantized in another form";
}

sb_status sb_gpu_linear_lowbit(sb_gpu *gpu, const sb_knobs *knobs, const sb_linear_args *a,
                               sb_act_scheme scheme)
{
    sb_gpu_work work(gpu);
    const uint32_t n = a->weight->rows, k = a->weight->cols;
    const char *why = refusal(knobs, a, scheme);
    lowbit_call c = lowbit_call();
    float2 factor;
    if (!why && sb_lowbit_pack_shape(a->weight, scheme, &c.shape) != SB_OK)
        why = "its codes and scales are not those of the unit";
    if (why)
        return sb_fail(work.err(), SB_ERR_UNSUPPORTED, "a linear layer of %u x %u: %s", n, k, why);
    if (a->rows == 0)
        return SB_OK;
    const size_t tile = sb_lowbit_tile_bytes(c.shape), tiles = sb_lowbit_tiles(c.shape);
    const size_t scales = sb_lowbit_weight_scales(c.shape);
    const size_t in_scales =
        c.shape.bits == 8 ? sb_lowbit_scales(c.shape) : sb_lowbit_scale_words(c.shape);
    sb_lowbit_factor(a->weight, scheme, &factor.x, &factor.y);
    c.work = &work;
    c.rows = static_cast<uint32_t>(a->rows);
    c.wide = sb_linear_stays_wide(knobs, a->kind) != 0;
    c.weight = work.kept<uint4>("weight", a->weight, pack_codes, tiles * tile, tile);
    c.scale = work.kept<uint32_t>("scales", a->weight, pack_scales, scales * 4, scales / tiles * 4);
    c.in = work.in("in", a->in, a->rows * k);
    c.codes = work.scratch<uint32_t>("codes", a->rows * sb_lowbit_words(c.shape));
    c.in_scale = work.scratch<uint32_t>("scales of the input", a->rows * in_scales);
    c.factor = work.in("factor", &factor, 1);
    c.out = work.out("out", a->out, a->rows * n);
    run(c, scheme, a->weight->quant.input);
    return work.finish();
}
