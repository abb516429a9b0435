/* NVFP4: E2M1 codes, an E4M3 scale per 16 columns, and a binary32 number per tensor. */
#include "ref/formats/e2m1_forms.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "tools/make/quantize.h"

enum { GROUP = 16 };

static float bf16(float x)
{
    return sb_round_to(SB_FORMAT_bf16, x);
}

/* G-8: "g = bf16(2688 bf16(1/A))" - torch divides a number by a tensor in two steps, and the
 * statistics have the type of the weights. */
float sb_factor_nvfp4_ct(float amax, sb_scale_rule rule)
{
    (void)rule;
    float a = amax < 0x1p-126f ? 0x1p-126f : amax;
    float g = bf16(bf16(1.0f / a) * 2688.0f);
    return g > 0x1p127f ? 1.0f : g;
}

/* G-9: "m = RN(A / 2688)", or "RN(A / 1536) under four-over-six": there the largest block scale is
 * 256, which leaves room for 384. */
float sb_factor_nvfp4_modelopt(float amax, sb_scale_rule rule)
{
    float largest = rule == SB_SCALE_RULE_four_over_six ? 6.0f * 256.0f : 6.0f * 448.0f;
    return amax > 0.0f ? amax / largest : 1.0f;
}

/* How a program encodes a quotient: each has a row of e2m1_forms.def. */
typedef uint8_t (*encoder)(float x);

static void put_codes(const float *w, float e, encoder encode, unsigned char *codes)
{
    for (unsigned i = 0; i < GROUP / 2; i++)
        codes[i] = (unsigned char)(encode(w[2 * i] / e) | encode(w[2 * i + 1] / e) << 4);
}

/* G-8: "s = E4M3(RN(bf16(a/6) g)), but 0.125 where that is 0" and "c = E2M1(RN(w / RN(s / g)))" */
static unsigned char ct_scale(const float *w, float g)
{
    unsigned char s = sb_f32_to_e4m3(bf16(sb_largest(w, GROUP) / 6.0f) * g);
    return s ? s : 0x20;
}

/* G-9: "u = RN(a / RN(6 m)), but 1 where that is 0; s = E4M3(u), at least 2^-9" */
static unsigned char modelopt_scale(float a, float m)
{
    float u = a / (6.0f * m);
    if (u == 0.0f)
        u = 1.0f;
    return sb_f32_to_e4m3(u < 0x1p-9f ? 0x1p-9f : u);
}

/* The sum of squared errors of a group under a scale. */
static double error_of(const float *w, float e)
{
    double sum = 0.0;
    for (unsigned i = 0; i < GROUP; i++) {
        double d = (double)sb_e2m1_to_f32(sb_e2m1_modelopt(w[i] / e)) * (double)e - (double)w[i];
        sum += d * d;
    }
    return sum;
}

/* G-9: "the scale of a or that of 1.5 a, whichever has the smaller sum of squared errors" */
static unsigned char four_over_six(const float *w, float a, float m)
{
    unsigned char six = modelopt_scale(a, m);
    unsigned char four = modelopt_scale(1.5f * a, m);
    float e6 = sb_e4m3_to_f32(six) * m;
    float e4 = sb_e4m3_to_f32(four) * m;
    return error_of(w, e4) < error_of(w, e6) ? four : six;
}

void sb_quantize_nvfp4_ct(const sb_band *b)
{
    for (uint64_t i = 0; i < b->rows * b->cols / GROUP; i++) {
        const float *w = b->weights + i * GROUP;
        b->scales[i] = ct_scale(w, b->factor);
        put_codes(w, sb_e4m3_to_f32(b->scales[i]) / b->factor, sb_e2m1_compressed_tensors,
                  b->codes + i * (GROUP / 2));
    }
}

void sb_quantize_nvfp4_modelopt(const sb_band *b)
{
    for (uint64_t i = 0; i < b->rows * b->cols / GROUP; i++) {
        const float *w = b->weights + i * GROUP;
        float a = sb_largest(w, GROUP);
        b->scales[i] = b->rule == SB_SCALE_RULE_four_over_six ? four_over_six(w, a, b->factor)
                                                              : modelopt_scale(a, b->factor);
        put_codes(w, sb_e4m3_to_f32(b->scales[i]) * b->factor, sb_e2m1_modelopt,
                  b->codes + i * (GROUP / 2));
    }
}
