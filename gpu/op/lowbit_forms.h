/* lowbit_forms.h - layers with quantized inputs, single (linear_lowbit.cc) or of all experts
 * together (experts_lowbit.cc): the supported forms, their inputs, their atoms.
 */
#ifndef SB_GPU_OP_LOWBIT_FORMS_H
#define SB_GPU_OP_LOWBIT_FORMS_H

#include "gpu/kernel/act_quant.cuh"
#include "gpu/kernel/linear_w4a4.cuh"
#include "gpu/kernel/linear_w8a8.cuh"
#include "gpu/kernel/lowbit_pack.h"
#include "gpu/op/gpu.h"
#include "ref/ops/act_quant.h"
#include "ref/ops/knob.h"
#include "ref/ops/param.h"
#include "ref/ops/rounding.h"

/* The arguments of a layer. */
struct lowbit_call {
    sb_gpu_work *work;
    sb_lowbit_shape shape;
    uint32_t rows, wide; /* rows of the input; nonzero: the output is not rounded */
    sb_global<const uint4> weight;
    sb_global<const uint32_t> scale;
    sb_global<const float> in;
    sb_global<uint32_t> codes, in_scale;
    sb_global<const float2> factor;
    sb_global<float> out;
};

template <sb_act_form FORM> static void lowbit_quantize_fp8(const lowbit_call &c, float inverse)
{
    const unsigned groups = c.rows * sb_lowbit_scales(c.shape);
    SB_GPU_RUN(*c.work, (sb_act_fp8_kernel<FORM, float>),
               sb_gpu_blocks(groups, SB_ACT_THREADS / 32), SB_ACT_THREADS, 0, c.in, c.codes,
               sb_cast<float>(c.in_scale), c.shape, c.rows, inverse);
}

/* Quantizes the input. */
static inline void lowbit_quantize(const lowbit_call &c, sb_act_scheme scheme, sb_factor input)
{
    const size_t groups = static_cast<size_t>(c.rows) * 4 * sb_lowbit_scale_words(c.shape);
    if (scheme == SB_SCHEME_nvfp4)
        SB_GPU_RUN(*c.work, sb_act_fp4_kernel<float>, sb_gpu_blocks(groups, SB_ACT_THREADS),
                   SB_ACT_THREADS, 0, c.in, c.codes, sb_cast<uint8_t>(c.in_scale), c.shape, c.rows,
                   sb_factor_divisor(input));
    else if (scheme == SB_SCHEME_fp8_group)
        lowbit_quantize_fp8<SB_ACT_group>(c, 0.0f);
    else if (scheme == SB_SCHEME_fp8_token)
        lowbit_quantize_fp8<SB_ACT_token>(c, 0.0f);
    else
        lowbit_quantize_fp8<SB_ACT_static>(c, 1.0f / sb_factor_multiplier(input));
}

template <bool GROUPED> static sb_w8a8<GROUPED> lowbit_w8a8(const lowbit_call &c)
{
    return {c.shape.rows,
            c.shape.units,
            c.shape.steps,
            c.weight,
            sb_cast<const float>(c.scale),
            c.codes,
            sb_cast<const float>(c.in_scale),
            c.factor};
}

/* Calls multiply(layer), where `layer` is the type of tile.cuh for the codes of `scheme`. */
template <class MULTIPLY>
static void lowbit_layer(const lowbit_call &c, sb_act_scheme scheme, const MULTIPLY &multiply)
{
    const sb_w4a4 fp4 = {c.shape.rows, c.shape.units, c.weight, c.scale,
                         c.codes,      c.in_scale,    c.factor};
    if (scheme == SB_SCHEME_nvfp4)
        multiply(fp4);
    else if (c.shape.grouped)
        multiply(lowbit_w8a8<true>(c));
    else
        multiply(lowbit_w8a8<false>(c));
}

/* Returns the reason why no kernel computes this form; NULL: a kernel computes it. */
static inline const char *lowbit_refusal(const sb_knobs *knobs, const sb_matrix *weight,
                                         sb_act_scheme scheme)
{
    if (sb_act_format(knobs) != SB_FORMAT_bf16)
        return "activations are not in bfloat16";
    if (sb_param_cast(knobs, weight))
        return "the knobs round weights";
    const bool known = scheme == SB_SCHEME_nvfp4 ? SB_IS(knobs, act_fp4, vllm_ref)
                       : scheme == SB_SCHEME_fp8_group
                           ? SB_IS(knobs, act_fp8_group, vllm_cuda) && SB_IS(knobs, fp8_scale, f32)
                       : scheme == SB_SCHEME_fp8_token  ? SB_IS(knobs, act_fp8_token, vllm)
                       : scheme == SB_SCHEME_fp8_static ? SB_IS(knobs, act_fp8_static, vllm)
                                                        : false;
    return known ? nullptr : "its inputs must be quantized in another form";
}

#endif
