/* fp4_scales.c - compares block scales with the scales that follow from the original's blocks. */
#include <float.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "tools/check/scan/fp4.h"

/* The relative error of the quotient before it is rounded to a scale. Its causes are double
 * rounding, and reciprocals in place of divisions. */
#define DOUBT 0x1.4p-9

/* V-25: "this is E4M3(bf16(a / 6) g)" with 0x20 for zero */
static uint8_t scale_ct(float a, float divisor)
{
    uint8_t s = sb_f32_to_e4m3(sb_round_to(SB_FORMAT_bf16, a / 6.0f) * divisor);
    return s ? s : 0x20;
}

/* V-25: "ModelOpt E4M3(a / (6 m)), at least 2^-9" and 0x38 for zero */
static uint8_t scale_modelopt(float a, float multiplier)
{
    float u = a / (6.0f * multiplier);
    if (u == 0.0f)
        return 0x38;
    return sb_f32_to_e4m3(u < 0x1p-9f ? 0x1p-9f : u);
}

uint8_t sb_fp4_scale(sb_fp4_formula formula, float a, const sb_factor *factor)
{
    if (formula == SB_FP4_ct)
        return scale_ct(a, sb_factor_divisor(*factor));
    if (formula == SB_FP4_modelopt)
        return scale_modelopt(a, sb_factor_multiplier(*factor));
    return scale_modelopt(1.5f * a, sb_factor_multiplier(*factor));
}

/* Sets the range of magnitudes for which `byte` is certainly right. The bits of positive numbers
 * are ordered like their values. */
static void between(sb_fp4 *f, unsigned byte, double low, double high)
{
    uint32_t first = sb_bits_f32((float)low), last = sb_bits_f32((float)high);
    if (!((float)low > 0) || !(high < (double)FLT_MAX) || last < first)
        return;
    f->low_bits[byte] = first;
    f->span[byte] = last - first;
}

void sb_fp4_prepare_scales(sb_fp4 *f)
{
    double unit = f->mx ? 1 : 6 * f->multiplier;
    for (unsigned i = 0; i < 256; i++) {
        f->low_bits[i] = UINT32_MAX; /* no magnitude is in the range */
        f->span[i] = 0;
        if (f->mx && i > 2 && i < 250) /* quotients from 3.5 to 7 */
            between(f, i, 3.5 * f->scale[i], 6.999 * f->scale[i]);
        else if (!f->mx && i > 1 && i < 0x7f) {
            double up = i == 0x7e ? 2 * 1e30 : f->scale[i] + f->scale[i + 1];
            between(f, i, (f->scale[i - 1] + f->scale[i]) / 2 * (1 + DOUBT) * unit,
                    up / 2 * (1 - DOUBT) * unit);
        }
    }
}

/* 0: equal; 1: neighbours; 2: further apart. */
static int apart(uint8_t a, uint8_t b)
{
    int d = a > b ? a - b : b - a;
    return d > 2 ? 2 : d;
}

/* The distances of an MXFP4 exponent. Producers round exponents in two ways: up from 1.75 on, or
 * always down. */
static void distances_mx(const sb_fp4 *f, uint8_t stored, float a, int *distance)
{
    int ct = apart(stored, sb_f32_to_e8m0_ct(a, 2));
    double unit = f->scale[stored];
    int down = (double)a >= 4 * unit && (double)a < 8 * unit ? 0 : ct;
    distance[SB_FP4_ct] = ct;
    distance[SB_FP4_modelopt] = down;
    distance[SB_FP4_four_over_six] = down;
}

/* 1 for a scale byte that some tool writes for all-zero blocks. It only shows who wrote the block
 * (V-22): converted files keep the byte of the other dialect. */
static int is_zero_convention(uint8_t s)
{
    return s == 0x00 || s == 0x01 || s == 0x20 || s == 0x38 || s == 0x7e;
}

static void distances(const sb_fp4 *f, uint8_t stored, float largest, int *distance)
{
    if (largest == 0 && is_zero_convention(stored))
        return;
    for (unsigned i = 0; i < SB_FP4_FORMULAS; i++)
        distance[i] =
            apart(stored, sb_fp4_scale((sb_fp4_formula)i, largest, &f->panel->matrix.quant.factor));
    if (distance[SB_FP4_modelopt] < distance[SB_FP4_four_over_six])
        distance[SB_FP4_four_over_six] = distance[SB_FP4_modelopt];
}

/* A cache: most blocks that come here have one of a few magnitudes near the boundary of two
 * scales. */
static const sb_fp4_recent *ask(const sb_fp4 *f, uint8_t stored, float largest)
{
    uint32_t bits = sb_bits_f32(largest);
    sb_fp4_recent *r = &f->recent[(bits >> 16) % SB_FP4_RECENT];
    int distance[SB_FP4_FORMULAS] = {0};
    if (r->known && r->bits == bits && r->stored == stored)
        return r;
    if (f->mx)
        distances_mx(f, stored, largest, distance);
    else
        distances(f, stored, largest, distance);
    *r = (sb_fp4_recent){.bits = bits, .known = 1, .stored = stored};
    for (unsigned i = 0; i < SB_FP4_FORMULAS; i++)
        r->distance[i] = (uint8_t)distance[i];
    return r;
}

void sb_fp4_compare_scale(const sb_fp4 *f, uint8_t stored, float largest, uint32_t row,
                          uint32_t block)
{
    const sb_fp4_recent *r = ask(f, stored, largest);
    for (unsigned i = 0; i < SB_FP4_FORMULAS; i++)
        if (r->distance[i]) {
            sb_fp4_place(&f->seen->off[i], row, block);
            f->seen->far[i] += r->distance[i] > 1;
        }
}
