/* NVFP4: E2M1 codes, an E4M3 scale per 16 columns, and a binary32 number per tensor. */
#include "ref/formats/e2m1_forms.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "tools/make/bulk.h"
#include "tools/make/quantize.h"

enum { GROUP = SB_BULK_FP4_GROUP, RUN = 64 /* groups at once */ };

static float bf16(float x)
{
    return sb_round_to(SB_FORMAT_bf16, x);
}

/* G-8: "g = bf16(2688 bf16(1/A))" - torch divides a number by a tensor in two steps, and A has the
 * type of the weights. */
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

/* G-8: "s = E4M3(RN(bf16(a/6) g)), or 0.125 where that is 0" and "c = E2M1(RN(w / RN(s / g)))" */
static unsigned char ct_scale(float a, float g)
{
    unsigned char s = sb_f32_to_e4m3(bf16(a / 6.0f) * g);
    return s ? s : 0x20;
}

/* G-9: "u = RN(a / RN(6 m)), or 1 where that is 0; s = E4M3(u), at least 2^-9" */
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

/* G-9: "the scale of a or the scale of 1.5 a: the one with the smaller sum of squared errors" */
static unsigned char four_over_six(const float *w, float a, float m)
{
    unsigned char six = modelopt_scale(a, m);
    unsigned char four = modelopt_scale(1.5f * a, m);
    float e6 = sb_e4m3_to_f32(six) * m;
    float e4 = sb_e4m3_to_f32(four) * m;
    return error_of(w, e4) < error_of(w, e6) ? four : six;
}

/* Returns the code of the scale of a group with the largest magnitude a; *step is its value. */
typedef unsigned char (*scale_fn)(const sb_band *b, const float *w, float a, float *step);

static void quantize(const sb_band *b, scale_fn scale)
{
    uint64_t groups = b->rows * b->cols / GROUP;
    float largest[RUN], steps[RUN];
    for (uint64_t first = 0; first < groups; first += RUN) {
        const float *w = b->weights + first * GROUP;
        size_t n = groups - first < RUN ? (size_t)(groups - first) : RUN;
        sb_bulk_largest(w, n, largest);
        for (size_t i = 0; i < n; i++)
            b->scales[first + i] = scale(b, w + i * GROUP, largest[i], &steps[i]);
        sb_bulk_e2m1(w, steps, n, b->codes + first * (GROUP / 2));
    }
}

static unsigned char of_ct(const sb_band *b, const float *w, float a, float *step)
{
    unsigned char s = ct_scale(a, b->factor);
    (void)w;
    *step = sb_e4m3_to_f32(s) / b->factor;
    return s;
}

static unsigned char of_modelopt(const sb_band *b, const float *w, float a, float *step)
{
    unsigned char s = b->rule == SB_SCALE_RULE_four_over_six ? four_over_six(w, a, b->factor)
                                                             : modelopt_scale(a, b->factor);
    *step = sb_e4m3_to_f32(s) * b->factor;
    return s;
}

void sb_quantize_nvfp4_ct(const sb_band *b)
{
    quantize(b, of_ct);
}

void sb_quantize_nvfp4_modelopt(const sb_band *b)
{
    quantize(b, of_modelopt);
}
