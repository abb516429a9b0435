/* act_fp8.c - K-19 to K-23: inputs in E4M3 with a scale per group, row or tensor, and inputs in
 * E2M1 or E4M3 with E8M0 scales. */
#include "ref/formats/small_float.h"
#include "ref/ops/act_group.h"
#include "ref/ops/knob.h"

/* K-19: "E4 encodes by F-6, saturating. A NaN, which here only 0 times an infinity can make,
 * becomes 448" - the minimum and maximum before the conversion do this. */
static uint8_t e4(float x)
{
    return x != x ? sb_f32_to_e4m3(448.0f) : sb_f32_to_e4m3(x);
}

static float larger(float a, float b)
{
    return a < b ? b : a;
}

static void encode_quotients(sb_act_group *g, float y)
{
    g->scale = y;
    for (size_t i = 0; i < g->n; i++)
        g->codes[i] = e4(g->x[i] / y);
}

static void encode_products(sb_act_group *g, float y, float by)
{
    g->scale = y;
    for (size_t i = 0; i < g->n; i++)
        g->codes[i] = e4(g->x[i] * by);
}

/* K-20: "ue8m0 replaces y by the least power of two that is not below it, as if its logarithm were
 * exact, and by 2^-127 at least (F-10); 0 stays 0" */
static float scale_format(const sb_act_group *g, float y)
{
    if (SB_IS(g->knobs, fp8_scale, f32) || y == 0)
        return y;
    return sb_e8m0_to_f32(sb_f32_to_e8m0_up(y));
}

/* K-19: "vllm_cuda has y = max(amax, f) / 448 with f = RN(10^-10), and c = E4(x / y)"
 * K-20: "vllm_cuda raises y to f before the replacement" */
static void vllm_cuda(sb_act_group *g)
{
    float y = larger(g->amax, 1e-10f) / 448.0f;
    if (SB_IS(g->knobs, fp8_scale, ue8m0))
        y = larger(y, 1e-10f);
    encode_quotients(g, scale_format(g, y));
}

/* K-19: "vllm_triton has y = max(amax, f) RN(1 / 448), and the same c" */
static void vllm_triton(sb_act_group *g)
{
    float r = 1.0f / 448.0f;
    encode_quotients(g, scale_format(g, larger(g->amax, 1e-10f) * r));
}

/* K-19: "vllm_native has y = max(amax / 448, RN(1 / 229376)), and the same c"
 * K-20: "vllm_native takes the maximum after the replacement" */
static void vllm_native(sb_act_group *g)
{
    float y = scale_format(g, g->amax / 448.0f);
    encode_quotients(g, larger(y, 1.0f / 229376.0f));
}

/* K-19: "sglang has y as vllm_cuda, and c = E4(x (1 / y))" */
static void sglang(sb_act_group *g)
{
    float y = scale_format(g, larger(g->amax, 1e-10f) / 448.0f);
    encode_products(g, y, 1.0f / y);
}

/* K-19: "hf has y = amax / 448, and the same c; a group of zeros keeps y = 0 and codes of 0" */
static void hf(sb_act_group *g)
{
    float y = scale_format(g, g->amax / 448.0f);
    if (y == 0)
        encode_products(g, 0.0f, 0.0f);
    else
        encode_quotients(g, y);
}

/* The distance from 1 to the next larger value of the activation type. */
static float epsilon(const sb_knobs *knobs)
{
    if (SB_IS(knobs, act, bf16))
        return 0x1p-7f;
    return SB_IS(knobs, act, f16) ? 0x1p-10f : 0x1p-23f;
}

/* K-19: "ct has y = R(amax / 448), or where that is 0 the distance of 1 from the next value of the
 * activation type, and c = E4(R(x / y))" */
static void encode_in_type(sb_act_group *g, float y)
{
    g->scale = y == 0 ? epsilon(g->knobs) : y;
    for (size_t i = 0; i < g->n; i++)
        g->codes[i] = e4(sb_act(g->knobs, g->x[i] / g->scale));
}

static void ct(sb_act_group *g)
{
    encode_in_type(g, scale_format(g, sb_act(g->knobs, g->amax / 448.0f)));
}

void sb_act_fp8_group(sb_act_group *group)
{
    static void (*const forms[])(sb_act_group *) = {
        [SB_act_fp8_group_vllm_cuda - SB_act_fp8_group_off] = vllm_cuda,
        [SB_act_fp8_group_vllm_triton - SB_act_fp8_group_off] = vllm_triton,
        [SB_act_fp8_group_vllm_native - SB_act_fp8_group_off] = vllm_native,
        [SB_act_fp8_group_sglang - SB_act_fp8_group_off] = sglang,
        [SB_act_fp8_group_hf - SB_act_fp8_group_off] = hf,
        [SB_act_fp8_group_ct - SB_act_fp8_group_off] = ct,
    };
    forms[group->knobs->value[SB_KNOB_act_fp8_group] - SB_act_fp8_group_off](group);
}

/* K-21: "vllm has y = max(amax / 448, RN(1 / 229376)) and c = E4(x / y)" */
static void token_vllm(sb_act_group *g)
{
    encode_quotients(g, larger(g->amax / 448.0f, 1.0f / 229376.0f));
}

/* K-21: "vllm_native has the same y and c = E4(x (1 / y))" */
static void token_vllm_native(sb_act_group *g)
{
    float y = larger(g->amax / 448.0f, 1.0f / 229376.0f);
    encode_products(g, y, 1.0f / y);
}

/* K-21: "sglang has y = amax / 448 and c = E4(x i), where i is 1 / y, or 0 where y is 0" */
static void token_sglang(sb_act_group *g)
{
    float y = g->amax / 448.0f;
    encode_products(g, y, y == 0 ? 0.0f : 1.0f / y);
}

/* K-21: "ct is ct of K-19 without K-20" */
static void token_ct(sb_act_group *g)
{
    encode_in_type(g, sb_act(g->knobs, g->amax / 448.0f));
}

void sb_act_fp8_token(sb_act_group *group)
{
    static void (*const forms[])(sb_act_group *) = {
        [SB_act_fp8_token_vllm - SB_act_fp8_token_off] = token_vllm,
        [SB_act_fp8_token_vllm_native - SB_act_fp8_token_off] = token_vllm_native,
        [SB_act_fp8_token_sglang - SB_act_fp8_token_off] = token_sglang,
        [SB_act_fp8_token_ct - SB_act_fp8_token_off] = token_ct,
    };
    forms[group->knobs->value[SB_KNOB_act_fp8_token] - SB_act_fp8_token_off](group);
}

/* K-22: "vllm has c = E4(x (1 / S)), ct has c = E4(R(x / S)), with the multiplier S" */
void sb_act_fp8_static(sb_act_group *group)
{
    float S = sb_factor_multiplier(group->input);
    if (SB_IS(group->knobs, act_fp8_static, vllm)) {
        encode_products(group, 1.0f, 1.0f / S);
        return;
    }
    group->scale = 1.0f;
    for (size_t i = 0; i < group->n; i++)
        group->codes[i] = e4(sb_act(group->knobs, group->x[i] / S));
}

/* K-23: "ct has for s the E8M0 value that F-11 chooses for a block of largest magnitude amax, and
 * c = E(R(x / s))" */
void sb_act_mx(sb_act_group *group)
{
    int fp4 = group->format == SB_FORMAT_e2m1;
    group->scale = sb_e8m0_to_f32(sb_f32_to_e8m0_ct(group->amax, fp4 ? 2 : 8));
    for (size_t i = 0; i < group->n; i++) {
        float q = sb_act(group->knobs, group->x[i] / group->scale);
        group->codes[i] = fp4 ? sb_f32_to_e2m1(q) : e4(q);
    }
}
