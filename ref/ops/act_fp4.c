/* act_fp4.c - K-18: the input of an NVFP4 layer, 16 columns at a time. */
#include "ref/base/bytes.h"
#include "ref/formats/small_float.h"
#include "ref/ops/act_group.h"
#include "ref/ops/knob.h"

/* K-18: "D4 and D2 decode, E4 and E2 encode by F-6, saturating, and F-9" */
static float through_e4m3(float x)
{
    return sb_e4m3_to_f32(sb_f32_to_e4m3(x));
}

/* sb_f32_to_e2m1 without a branch, so that the compiler vectorizes the loops around it. The code is
 * the number of midpoints between neighbouring values that lie below x (there are seven). A value
 * equal to a midpoint gets the even code. F-9: "saturates at 6, infinity included, and makes every
 * NaN +6". */
static inline uint8_t encode(float x)
{
    const uint32_t bits = sb_bits_f32(x);
    const int32_t size = (int32_t)(bits & 0x7fffffffu);
    int32_t code = (size > 0x3e800000) + (size >= 0x3f400000) + (size > 0x3fa00000) +
                   (size >= 0x3fe00000) + (size > 0x40200000) + (size >= 0x40600000) +
                   (size > 0x40a00000);
    uint32_t sign = size > 0x7f800000 ? 0 : bits >> 28 & 8u;
    return (uint8_t)((uint32_t)code | sign);
}

/* n is 16 except in tests. The fixed trip count and `restrict` allow vectorization. Without
 * `restrict`, a store to the byte array `codes` could change any object. */
static void encode_all(const float *restrict x, size_t n, uint8_t *restrict codes)
{
    for (; n >= 16; n -= 16, x += 16, codes += 16)
        for (size_t i = 0; i < 16; i++)
            codes[i] = encode(x[i]);
    for (size_t i = 0; i < n; i++)
        codes[i] = encode(x[i]);
}

static void encode_products(sb_act_group *g, float by)
{
    enum { PIECE = 16 };
    float product[PIECE];
    for (size_t at = 0, count; at < g->n; at += count) {
        count = g->n - at < PIECE ? g->n - at : PIECE;
        for (size_t i = 0; i < count; i++)
            product[i] = g->x[at + i] * by;
        encode_all(product, count, g->codes + at);
    }
}

static void encode_quotients(sb_act_group *g, float by)
{
    enum { PIECE = 16 };
    float quotient[PIECE];
    for (size_t at = 0, count; at < g->n; at += count) {
        count = g->n - at < PIECE ? g->n - at : PIECE;
        for (size_t i = 0; i < count; i++)
            quotient[i] = g->x[at + i] / by;
        encode_all(quotient, count, g->codes + at);
    }
}

/* K-18: "rcp(a) is RN(1 / a), where an argument and a result below 2^-126 count as 0" */
static float flushed(float x)
{
    return sb_bits_f32(x) < 0x00800000u ? 0.0f : x;
}

static float rcp(float a)
{
    return flushed(1.0f / flushed(a));
}

/* K-18: "ct has s = D4(E4(G R(amax / 6))), 0.125 where that is 0, and c = E2(x / RN(s / G))" */
static void ct(sb_act_group *g)
{
    float G = sb_factor_divisor(g->input);
    float t = sb_act(g->knobs, g->amax / 6.0f);
    g->scale = through_e4m3(G * t);
    if (g->scale == 0)
        g->scale = 0.125f;
    float e = g->scale / G;
    encode_quotients(g, e);
}

/* K-18: "vllm_ref has s = D4(E4(G (amax r))) with r = RN(1 / 6), and c = E2(x (1 / (s (1 / G))))"
 */
static void vllm_ref(sb_act_group *g)
{
    float G = sb_factor_divisor(g->input), r = 1.0f / 6.0f;
    float t = g->amax * r;
    g->scale = through_e4m3(G * t);
    float inverse = 1.0f / G;
    encode_products(g, 1.0f / (g->scale * inverse));
}

/* K-18: "vllm_triton has the same s, and c = E2(x (G / s))" */
static void vllm_triton(sb_act_group *g)
{
    float G = sb_factor_divisor(g->input), r = 1.0f / 6.0f;
    float t = g->amax * r;
    g->scale = through_e4m3(G * t);
    encode_products(g, G / g->scale);
}

/* K-18: "precise has s = D4(E4(amax (G r))), and c = E2(x min(1 / (s (1 / G)), 2^128 - 2^104))" */
static void precise(sb_act_group *g)
{
    float G = sb_factor_divisor(g->input), r = 1.0f / 6.0f;
    float t = G * r;
    g->scale = through_e4m3(g->amax * t);
    float inverse = 1.0f / G;
    float by = 1.0f / (g->scale * inverse), largest = sb_f32_from_bits(0x7f7fffffu);
    encode_products(g, by < largest ? by : largest);
}

/* K-18: "fast has s = D4(E4(G (amax rcp(6)))), and c = E2(x rcp(s rcp(G)))" */
static void fast(sb_act_group *g)
{
    float G = sb_factor_divisor(g->input);
    float t = g->amax * rcp(6.0f);
    g->scale = through_e4m3(G * t);
    encode_products(g, rcp(g->scale * rcp(G)));
}

/* K-18: "kv has s = D4(E4(rcp(m) (amax rcp(6)))), and c = E2(x rcp(s m))" */
static void kv(sb_act_group *g)
{
    float m = sb_factor_multiplier(g->input);
    float t = g->amax * rcp(6.0f);
    g->scale = through_e4m3(rcp(m) * t);
    encode_products(g, rcp(g->scale * m));
}

/* K-18: "modelopt has u = amax / (6 m), 1 where that is 0, s = D4(E4(max(u, 2^-9))), and c = E2(x /
 * (s m))" */
static void modelopt(sb_act_group *g)
{
    float m = sb_factor_multiplier(g->input);
    float six = 6.0f * m;
    float u = g->amax / six;
    if (u == 0)
        u = 1.0f;
    g->scale = through_e4m3(u < 0x1p-9f ? 0x1p-9f : u);
    float e = g->scale * m;
    encode_quotients(g, e);
}

/* K-18: "Where s is 0, all values of the group are 0" - sets all codes to 0, because the product
 * with an overflowed reciprocal may have given other codes. */
static void without_scale(sb_act_group *g)
{
    for (size_t i = 0; i < g->n; i++)
        g->codes[i] = 0;
}

void sb_act_nvfp4(sb_act_group *group)
{
    static void (*const forms[])(sb_act_group *) = {
        [SB_act_fp4_ct - SB_act_fp4_off] = ct,
        [SB_act_fp4_vllm_ref - SB_act_fp4_off] = vllm_ref,
        [SB_act_fp4_vllm_triton - SB_act_fp4_off] = vllm_triton,
        [SB_act_fp4_precise - SB_act_fp4_off] = precise,
        [SB_act_fp4_fast - SB_act_fp4_off] = fast,
        [SB_act_fp4_kv - SB_act_fp4_off] = kv,
        [SB_act_fp4_modelopt - SB_act_fp4_off] = modelopt,
    };
    forms[group->knobs->value[SB_KNOB_act_fp4] - SB_act_fp4_off](group);
    if (group->scale == 0)
        without_scale(group);
}
