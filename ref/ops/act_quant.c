#include "ref/ops/act_quant.h"

#include <stdlib.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/formats/small_float.h"
#include "ref/math/law.h"
#include "ref/ops/act_group.h"
#include "ref/ops/knob.h"
#include "ref/ops/param.h"

/* Returns the scheme that the container of the weight allows, whatever the knobs are. */
static sb_act_scheme possible_scheme(const sb_matrix *w)
{
    int has_input = w->quant.input.kind != SB_NO_FACTOR;
    switch (sb_container_family(w->quant.container)) {
    case SB_FAMILY_NVFP4:
        return has_input ? SB_SCHEME_nvfp4 : SB_SCHEME_none;
    case SB_FAMILY_MXFP4:
        return SB_SCHEME_mxfp4;
    case SB_FAMILY_MXFP8:
        return SB_SCHEME_mxfp8;
    case SB_FAMILY_FP8:
        if (sb_container_has_grid(w->quant.container))
            return SB_SCHEME_fp8_group;
        return has_input ? SB_SCHEME_fp8_static : SB_SCHEME_fp8_token;
    default:
        return SB_SCHEME_none;
    }
}

/* K-18: "NVFP4 layers that have an input scale", K-19: "FP8 layers whose weights have a scale per
 * block", and so on: each knob applies to one kind of layer. */
sb_act_scheme sb_input_scheme(const sb_knobs *knobs, const sb_matrix *weight)
{
    sb_act_scheme scheme = sb_matrix_quantized(weight) ? possible_scheme(weight) : SB_SCHEME_none;
    const int on[] = {
        [SB_SCHEME_none] = 0,
        [SB_SCHEME_nvfp4] = !SB_IS(knobs, act_fp4, off),
        [SB_SCHEME_mxfp4] = !SB_IS(knobs, act_mx, off),
        [SB_SCHEME_mxfp8] = !SB_IS(knobs, act_mx, off),
        [SB_SCHEME_fp8_group] = !SB_IS(knobs, act_fp8_group, off),
        [SB_SCHEME_fp8_token] = !SB_IS(knobs, act_fp8_token, off),
        [SB_SCHEME_fp8_static] = !SB_IS(knobs, act_fp8_static, off),
    };
    return on[scheme] ? scheme : SB_SCHEME_none;
}

sb_act_groups sb_act_groups_of(sb_act_scheme scheme, const sb_matrix *weight)
{
    static const sb_act_groups schemes[] = {
        [SB_SCHEME_nvfp4] = {SB_FORMAT_e2m1, 16, {SB_NO_FACTOR, 0}, sb_act_nvfp4},
        [SB_SCHEME_mxfp4] = {SB_FORMAT_e2m1, 32, {SB_NO_FACTOR, 0}, sb_act_mx},
        [SB_SCHEME_mxfp8] = {SB_FORMAT_e4m3, 32, {SB_NO_FACTOR, 0}, sb_act_mx},
        [SB_SCHEME_fp8_group] = {SB_FORMAT_e4m3, 0, {SB_NO_FACTOR, 0}, sb_act_fp8_group},
        [SB_SCHEME_fp8_token] = {SB_FORMAT_e4m3, 0, {SB_NO_FACTOR, 0}, sb_act_fp8_token},
        [SB_SCHEME_fp8_static] = {SB_FORMAT_e4m3, 0, {SB_NO_FACTOR, 0}, sb_act_fp8_static},
    };
    sb_act_groups groups = schemes[scheme];
    if (scheme == SB_SCHEME_fp8_group)
        groups.columns = weight->quant.block_cols;
    if (groups.columns == 0)
        groups.columns = weight->cols;
    if (scheme == SB_SCHEME_nvfp4 || scheme == SB_SCHEME_fp8_static)
        groups.input = weight->quant.input;
    return groups;
}

/* K-25: "the input is R of the value that the law of K-17 gives to it: exact gives RN of the exact
 * value; factor_last gives RN of the value without the factor; bf16_scale gives the same as
 * mo_mul" */
static float rounded(const sb_knobs *knobs, sb_factor input, const sb_scalar *factor, float code,
                     float scale)
{
    const sb_law law = sb_dequant_law(knobs);
    if (law != SB_LAW_exact)
        return sb_act(knobs, code * sb_law_scale(input, scale, law));
    sb_exact value;
    sb_exact_clear(&value);
    sb_exact_add_product(&value, code, scale);
    return sb_act(knobs, sb_exact_round_scaled(&value, factor));
}

/* K-25: "a group with a value that is not finite has NaN for all of its values"; returns the
 * largest magnitude, or NaN. */
static float largest(const float *x, size_t n)
{
    float amax = 0;
    for (size_t i = 0; i < n; i++) {
        if (!sb_is_finite_f32(x[i]))
            return sb_f32_from_bits(0x7fc00000u);
        float size = x[i] < 0 ? -x[i] : x[i];
        amax = size > amax ? size : amax;
    }
    return amax;
}

/* Quantizes the n values from element `first` on, which share a scale. K-18: "The value of each
 * element x is s D2(c)", K-19: "The value is y D4(c)" */
static void quantize_group(const sb_knobs *knobs, const sb_act_groups *of, const float *in,
                           size_t first, size_t n, float *scale, sb_input *out)
{
    sb_act_group g = {.knobs = knobs,
                      .x = in + first,
                      .n = n,
                      .amax = largest(in + first, n),
                      .input = of->input,
                      .format = of->format,
                      .codes = out->codes + first};
    const int finite = sb_is_finite_f32(g.amax);
    if (finite)
        of->quantize(&g);
    *scale = finite ? g.scale : g.amax;
    for (size_t i = first; i < first + n; i++) {
        float code = g.amax;
        if (finite)
            sb_small_decode(of->format, out->codes + i, 1, &code);
        out->values[i] = (double)code * (double)*scale;
        if (out->rounded)
            out->rounded[i] =
                finite ? rounded(knobs, of->input, &out->factor, code, *scale) : g.amax;
    }
}

sb_status sb_input_open(const sb_knobs *knobs, const sb_matrix *weight, size_t rows, sb_input *out)
{
    const sb_act_scheme scheme = sb_input_scheme(knobs, weight);
    const size_t cols = weight->cols, count = rows * cols;
    const int quantizes = scheme != SB_SCHEME_none;
    const int rounds = quantizes && sb_param_cast(knobs, weight);
    *out = (sb_input){.values = sb_alloc(count, sizeof *out->values), .factor = SB_SCALAR_ONE};
    if (quantizes) {
        const sb_act_groups of = sb_act_groups_of(scheme, weight);
        out->format = of.format;
        out->group = of.columns;
        out->groups = of.columns ? (cols + of.columns - 1) / of.columns : 0;
        out->factor.mul[0] = of.input.kind == SB_MULTIPLIER ? of.input.value : 1.0f;
        out->factor.div[0] = of.input.kind == SB_DIVISOR ? of.input.value : 1.0f;
        out->codes = sb_alloc(count, 1);
        out->scales = sb_alloc(rows * out->groups, sizeof *out->scales);
        out->rounded = rounds ? sb_alloc(count, sizeof *out->rounded) : NULL;
    }
    if (out->values && (!quantizes || (out->codes && out->scales && (!rounds || out->rounded))))
        return SB_OK;
    sb_input_free(out);
    return SB_ERR_MEMORY;
}

sb_status sb_quantize_input(const sb_knobs *knobs, const sb_matrix *weight, const float *in,
                            size_t rows, sb_input *out)
{
    const sb_act_scheme scheme = sb_input_scheme(knobs, weight);
    const size_t cols = weight->cols;
    sb_status status = sb_input_open(knobs, weight, rows, out);
    for (size_t i = 0; i < rows * cols && !status && scheme == SB_SCHEME_none; i++)
        out->values[i] = (double)in[i];
    if (status || scheme == SB_SCHEME_none)
        return status;
    const sb_act_groups of = sb_act_groups_of(scheme, weight);
    for (size_t t = 0; t < rows; t++)
        for (size_t g = 0; g < out->groups; g++) {
            const size_t k = g * of.columns, left = cols - k;
            quantize_group(knobs, &of, in, t * cols + k, left < of.columns ? left : of.columns,
                           out->scales + t * out->groups + g, out);
        }
    return SB_OK;
}

void sb_input_free(sb_input *input)
{
    free(input->values);
    free(input->codes);
    free(input->rounded);
    free(input->scales);
    *input = (sb_input){.factor = SB_SCALAR_ONE};
}
