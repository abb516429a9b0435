#include "tests/quant/planted.h"

#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"

static float bf16(float x)
{
    return sb_round_to(SB_FORMAT_bf16, x);
}

/* --- what a tensor shares --------------------------------------------------------------------- */

static void nobody_shares(formula *how)
{
    how->fused = SB_FUSED_NOBODY;
}

static void linear_apart(formula *how)
{
    how->partners = PARTNERS_SCHEME;
}

static float rounded_once(float amax, sb_scale_rule rule)
{
    (void)rule;
    return bf16(2688.0f / amax);
}

static void divisor_rounded_once(formula *how)
{
    how->factor = rounded_once;
}

static float multiplied(float amax, sb_scale_rule rule)
{
    (void)rule;
    return amax * (1.0f / 448.0f);
}

static void factor_multiplied(formula *how)
{
    how->factor = multiplied;
}

static void four_over_six(formula *how)
{
    how->rule = SB_SCALE_RULE_four_over_six;
}

/* --- integers --------------------------------------------------------------------------------- */

static void unsigned_scales(formula *how)
{
    how->rule = SB_SCALE_RULE_rtn;
}

static void awq_words(formula *how)
{
    how->quantize = sb_quantize_int4_awq;
}

/* compressed-tensors divides by 7.5, where others divide by 7. */
static void int4_sevenths(const sb_band *b)
{
    sb_quantize_int4_ct(b);
    for (uint64_t i = 0; i < b->rows * b->cols / b->group; i++)
        sb_store_u16(b->scales + 2 * i,
                     sb_f32_to_bf16(sb_largest(b->weights + i * b->group, b->group) / 7.0f));
}

static void sevenths(formula *how)
{
    how->quantize = int4_sevenths;
}

/* --- ties ------------------------------------------------------------------------------------- */

/* The code of a quotient that lies between two codes goes to the larger one. */
static unsigned away(unsigned code, float q, float (*value)(uint8_t), unsigned top)
{
    float low = value((uint8_t)(code & top)), magnitude = q < 0.0f ? -q : q;
    if ((code & top) == top)
        return code;
    float high = value((uint8_t)((code & top) + 1));
    return magnitude == 0.5f * (low + high) ? code + 1 : code;
}

static void mxfp4_away(const sb_band *b)
{
    sb_quantize_mxfp4(b);
    for (uint64_t i = 0; i < b->rows * b->cols; i++) {
        unsigned shift = i % 2 ? 4 : 0, code = ((unsigned)b->codes[i / 2] >> shift) & 15u;
        float q = b->weights[i] / sb_e8m0_to_f32(b->scales[i / 32]);
        b->codes[i / 2] = (unsigned char)((b->codes[i / 2] & ~(15u << shift)) |
                                          away(code, q, sb_e2m1_to_f32, 7) << shift);
    }
}

static void mxfp8_away(const sb_band *b)
{
    sb_quantize_mxfp8(b);
    for (uint64_t i = 0; i < b->rows * b->cols; i++) {
        float q = b->weights[i] / sb_e8m0_to_f32(b->scales[i / 32]);
        b->codes[i] = (unsigned char)away(b->codes[i], q, sb_e4m3_to_f32, 0x7e);
    }
}

static void channel_away(const sb_band *b)
{
    sb_quantize_fp8_channel(b);
    for (uint64_t i = 0; i < b->rows * b->cols; i++) {
        float q = bf16(b->weights[i] / sb_bf16_to_f32(sb_load_u16(b->scales + 2 * (i / b->cols))));
        b->codes[i] = (unsigned char)away(b->codes[i], q, sb_e4m3_to_f32, 0x7e);
    }
}

/* FP8 with the quotient rounded directly to E4M3. */
static void channel_once(const sb_band *b)
{
    sb_quantize_fp8_channel(b);
    for (uint64_t i = 0; i < b->rows * b->cols; i++)
        b->codes[i] = sb_f32_to_e4m3(b->weights[i] /
                                     sb_bf16_to_f32(sb_load_u16(b->scales + 2 * (i / b->cols))));
}

static void tensor_once(const sb_band *b)
{
    for (uint64_t i = 0; i < b->rows * b->cols; i++)
        b->codes[i] = sb_f32_to_e4m3(b->weights[i] / b->factor);
}

/* Blocks of 128 columns, but each row has a scale of its own, and the first row's scale is kept. */
static void block_of_one_row(const sb_band *b)
{
    for (uint64_t row = b->rows; row-- > 0;) {
        sb_band one = *b;
        one.rows = 1;
        one.weights += row * b->cols;
        one.codes += row * b->cols;
        sb_quantize_fp8_block(&one);
    }
}

static void by_tensor_scheme(formula *how)
{
    how->quantize = sb_quantize_fp8_tensor;
}

#define QUANTIZED_BY(name)                                                                         \
    static void by_##name(formula *how)                                                            \
    {                                                                                              \
        how->quantize = name;                                                                      \
    }
QUANTIZED_BY(mxfp4_away)
QUANTIZED_BY(mxfp8_away)
QUANTIZED_BY(channel_away)
QUANTIZED_BY(channel_once)
QUANTIZED_BY(tensor_once)
QUANTIZED_BY(block_of_one_row)

const planted *planted_at(size_t i)
{
    static const planted all[] = {
        {"ct-nvfp4", "2688/A rounded once", divisor_rounded_once},
        {"ct-nvfp4", "every layer with a divisor of its own", nobody_shares},
        {"ct-nvfp4a16", "2688/A rounded once", divisor_rounded_once},
        {"modelopt-nvfp4", "in_proj_qkv and in_proj_z apart", linear_apart},
        {"modelopt-nvfp4", "q, k, v and gate, up apart", nobody_shares},
        {"modelopt-nvfp4", "four-over-six", four_over_six},
        {"modelopt-fp8", "the scale by multiplication", factor_multiplied},
        {"modelopt-fp8", "the quotient not rounded to BF16", by_tensor_once},
        {"modelopt-fp8-block", "the scale by multiplication", factor_multiplied},
        {"modelopt-fp8-block", "the quotient rounded to BF16", by_tensor_scheme},
        {"ct-fp8-block", "a scale for each row", by_block_of_one_row},
        {"ct-fp8-dynamic", "ties away from zero", by_channel_away},
        {"ct-fp8-dynamic", "the quotient not rounded to BF16", by_channel_once},
        {"ct-fp8", "ties away from zero", by_channel_away},
        {"ct-mxfp4", "ties away from zero", by_mxfp4_away},
        {"ct-mxfp8", "ties away from zero", by_mxfp8_away},
        {"ct-w4a16", "a/7 for a/7.5", sevenths},
        {"gptq", "scales without sign", unsigned_scales},
        {"gptq-int8", "scales without sign", unsigned_scales},
        {"autoround-gptq-mtp", "scales without sign", unsigned_scales},
        {"autoround-gptq-mtp", "the words of AWQ", awq_words},
    };
    return i < sizeof all / sizeof *all ? &all[i] : NULL;
}
