/* test_make_quantize.c - the formulas of tools/make for quantization, on known numbers: published
 * vectors, and values that distinguish a formula from similar ones. test_make_formats.c tests whole
 * folders. */
#include "tests/lib/suite.h"

#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "tools/make/quantize.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void decode_bf16(const uint16_t *codes, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = sb_bf16_to_f32(codes[i]);
}

/* --- NVFP4 ------------------------------------------------------------------------------------ */

/* 16 weights of a tensor whose largest magnitude is 93/256; element 11 is -0. */
static const uint16_t block[16] = {0x3dcd, 0xbdcd, 0x3db8, 0xbd61, 0x3d4d, 0x3d08, 0xbccd, 0x3c4a,
                                   0x3b83, 0xbb83, 0x0000, 0x8000, 0x3d92, 0xbda7, 0x3d2a, 0x3952};

static void check_block(void (*quantize)(const sb_band *), float factor, uint32_t factor_bits,
                        uint32_t step_bits, int divisor)
{
    static const unsigned char expected[8] = {0xf7, 0xd7, 0x45, 0x2b, 0x80, 0x00, 0xf6, 0x05};
    unsigned char codes[8], scale;
    float w[16];
    decode_bf16(block, 16, w);
    sb_band b = {
        .weights = w, .rows = 1, .cols = 16, .factor = factor, .codes = codes, .scales = &scale};
    assert_int_equal(sb_bits_f32(factor), factor_bits);
    quantize(&b);
    assert_int_equal(scale, 0x6f);
    float s = sb_e4m3_to_f32(scale);
    assert_int_equal(sb_bits_f32(divisor ? s / factor : s * factor), step_bits);
    assert_memory_equal(codes, expected, 8);
}

TEST(test_nvfp4_vector)
{
    const float amax = 93.0f / 256.0f;
    check_block(sb_quantize_nvfp4_ct, sb_factor_nvfp4_ct(amax, SB_SCALE_RULE_amax), 0x45e70000,
                0x3c84fcad, 1);
    check_block(sb_quantize_nvfp4_modelopt, sb_factor_nvfp4_modelopt(amax, SB_SCALE_RULE_amax),
                0x390db6db, 0x3c84db6d, 0);
}

/* Divisors that llm-compressor 0.14 wrote for these largest magnitudes. The quotient 2688/A rounded
 * once differs for the first two. */
TEST(test_nvfp4_divisors)
{
    static const struct {
        float amax, divisor;
    } known[] = {{0.68359375f, 3920.0f}, {7.8125f, 344.0f}, {0.36328125f, 7392.0f}};
    unsigned once = 0;
    for (size_t i = 0; i < COUNT(known); i++) {
        assert_true(sb_factor_nvfp4_ct(known[i].amax, SB_SCALE_RULE_amax) == known[i].divisor);
        once += sb_round_to(SB_FORMAT_bf16, 2688.0f / known[i].amax) == known[i].divisor;
    }
    assert_true(once < COUNT(known));
    assert_true(sb_factor_nvfp4_ct(0.0f, SB_SCALE_RULE_amax) == 1.0f);
    assert_true(sb_factor_nvfp4_modelopt(0.0f, SB_SCALE_RULE_amax) == 1.0f);
}

/* Groups of zeros, and groups too small for a scale. */
TEST(test_nvfp4_zero_blocks)
{
    float zeros[16] = {0}, tiny[16] = {0x1p-40f};
    unsigned char codes[8], scale;
    sb_band b = {.rows = 1, .cols = 16, .codes = codes, .scales = &scale};
    static const struct {
        int tiny, modelopt;
        unsigned char scale;
    } cases[] = {{0, 0, 0x20}, {1, 0, 0x20}, {0, 1, 0x38}, {1, 1, 0x01}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        static const unsigned char nothing[8] = {0};
        b.weights = cases[i].tiny ? tiny : zeros;
        b.factor = cases[i].modelopt ? 1.0f / 2688.0f : 2688.0f;
        memset(codes, 0xff, 8);
        (cases[i].modelopt ? sb_quantize_nvfp4_modelopt : sb_quantize_nvfp4_ct)(&b);
        assert_int_equal(scale, cases[i].scale);
        assert_memory_equal(codes, nothing, 8);
    }
}

static double block_error(const float *w, const unsigned char *codes, unsigned char scale, float m)
{
    double sum = 0;
    for (unsigned i = 0; i < 16; i++) {
        uint8_t code = (uint8_t)(codes[i / 2] >> (i % 2 * 4) & 15);
        double d = (double)sb_e2m1_to_f32(code) * (double)sb_e4m3_to_f32(scale) * (double)m;
        sum += (d - (double)w[i]) * (d - (double)w[i]);
    }
    return sum;
}

/* G-9: "the one with the smaller sum of squared errors": never worse than mapping to 6, better for
 * many groups; the scale is the same or about 1.5 times as large. */
TEST(test_four_over_six)
{
    unsigned better = 0;
    for (unsigned g = 0; g < 500; g++) {
        float w[16];
        unsigned char codes[2][8], scales[2];
        for (unsigned i = 0; i < 16; i++)
            w[i] = sb_round_to(SB_FORMAT_bf16, sb_rng_normal(7, 16 * g + i));
        float m = sb_factor_nvfp4_modelopt(6.0f, SB_SCALE_RULE_four_over_six);
        assert_true(m == 6.0f / 1536.0f);
        for (unsigned r = 0; r < 2; r++) {
            sb_band b = {.weights = w,
                         .rows = 1,
                         .cols = 16,
                         .factor = m,
                         .rule = r ? SB_SCALE_RULE_four_over_six : SB_SCALE_RULE_amax,
                         .codes = codes[r],
                         .scales = &scales[r]};
            sb_quantize_nvfp4_modelopt(&b);
        }
        double six = block_error(w, codes[0], scales[0], m);
        double chosen = block_error(w, codes[1], scales[1], m);
        float ratio = sb_e4m3_to_f32(scales[1]) / sb_e4m3_to_f32(scales[0]);
        assert_true(chosen <= six);
        assert_true(ratio == 1.0f || (ratio > 1.3f && ratio < 1.75f));
        better += chosen < six;
    }
    assert_in_range(better, 100, 400);
}

/* --- FP8 -------------------------------------------------------------------------------------- */

/* G-10: "c = E4M3(bf16(w / S))": 455/448 of a tie, which the first rounding turns into a tie. */
TEST(test_fp8_rounds_twice)
{
    unsigned differ = 0;
    for (unsigned i = 0; i < 20000; i++) {
        float w[2] = {1.0f, sb_round_to(SB_FORMAT_bf16, sb_rng_uniform(3, i))};
        unsigned char codes[2], scale[2];
        sb_band b = {.weights = w, .rows = 1, .cols = 2, .codes = codes, .scales = scale};
        sb_quantize_fp8_channel(&b);
        float s = sb_bf16_to_f32(sb_load_u16(scale));
        assert_true(s == sb_round_to(SB_FORMAT_bf16, 1.0f / 448.0f));
        unsigned char once = sb_f32_to_e4m3(w[1] / s);
        assert_true(codes[1] == once || codes[1] == once + 1 || codes[1] + 1 == once);
        differ += codes[1] != once;
    }
    assert_in_range(differ, 20, 2000);
}

/* compressed-tensors has no -0 and no scale of zero. */
TEST(test_fp8_zero)
{
    const float w[2] = {-0.0f, 0.0f};
    unsigned char codes[2] = {1, 1}, scale[2];
    sb_band b = {.weights = w, .rows = 1, .cols = 2, .codes = codes, .scales = scale, .factor = 1};
    sb_quantize_fp8_channel(&b);
    assert_int_equal(codes[0], 0);
    assert_true(sb_bf16_to_f32(sb_load_u16(scale)) == 0x1p-7f);
    sb_quantize_fp8_tensor(&b);
    assert_int_equal(codes[0], 0x80);
}

static float power_scale(float amax)
{
    unsigned char code, scale[4];
    sb_band b = {.weights = &amax, .rows = 1, .cols = 1, .codes = &code, .scales = scale};
    sb_quantize_fp8_block_ue8m0(&b);
    return sb_f32_from_bits(sb_load_u32(scale));
}

/* G-12: "S is raised as in the second way of F-11": 448 2^k keeps the largest code, larger
 * magnitudes lose one bit. */
TEST(test_ue8m0)
{
    for (int k = -20; k < 3; k++) {
        float p = 1.0f;
        for (int i = 0; i < (k < 0 ? -k : k); i++)
            p *= k < 0 ? 0.5f : 2.0f;
        assert_true(power_scale(448.0f * p) == p);
        assert_true(power_scale(450.0f * p) == 2.0f * p);
        assert_true(power_scale(446.0f * p) == p);
        assert_true(power_scale(226.0f * p) == p);
        assert_true(power_scale(224.0f * p) == 0.5f * p);
    }
}

/* A block of 128 x 128 and the smaller blocks at the edges each have their own scale. */
TEST(test_fp8_edges)
{
    static float w[3][130];
    static unsigned char codes[3][130];
    unsigned char scales[8];
    for (unsigned i = 0; i < 130; i++)
        w[0][i] = w[1][i] = w[2][i] = i < 128 ? 1.0f : 0.25f;
    sb_band b = {.weights = w[0], .rows = 3, .cols = 130, .codes = codes[0], .scales = scales};
    sb_quantize_fp8_block(&b);
    assert_int_equal(sb_load_u16(scales), sb_f32_to_bf16(1.0f / 448.0f));
    assert_int_equal(sb_load_u16(scales + 2), sb_f32_to_bf16(0.25f / 448.0f));
    assert_int_equal(codes[0][0], 0x7e);
    assert_int_equal(codes[2][129], 0x7e);
}

/* --- integers --------------------------------------------------------------------------------- */

/* -8, -1, 0, 1, 7, 3, -4, -7 with zero point 8 give these words. */
TEST(test_int4_words)
{
    const float q[8] = {-8, -1, 0, 1, 7, 3, -4, -7};
    unsigned char codes[32 * 4 * 8] = {0}, scales[64], zeros[16];
    float w[64];
    for (unsigned i = 0; i < 64; i++)
        w[i] = q[i % 8]; /* eight equal rows */
    sb_band b = {.weights = w,
                 .rows = 8,
                 .cols = 8,
                 .group = 8,
                 .rule = SB_SCALE_RULE_signed_max,
                 .codes = codes,
                 .scales = scales,
                 .zeros = zeros};
    sb_quantize_int4_gptq(&b);
    for (unsigned n = 0; n < 8; n++)
        assert_int_equal(sb_load_u32(codes + 4 * n), 0x14bf9870);
    assert_int_equal(sb_load_u32(zeros), 0x77777777);
    assert_true(sb_f16_to_f32(sb_load_u16(scales)) == 1.0f);
    for (unsigned i = 0; i < 64; i++)
        w[i] = q[i / 8]; /* eight equal columns, because AWQ's words lie across rows */
    for (unsigned i = 0; i < 64; i++)
        w[i] = i % 8 == 7 ? (i / 8 % 2 ? 7.0f : -8.0f) : w[i];
    b.rule = SB_SCALE_RULE_min_max;
    sb_quantize_int4_awq(&b);
    uint32_t word = sb_load_u32(codes);
    assert_int_equal(sb_load_u32(codes + 4), word);
    for (unsigned n = 0; n < 8; n++) {
        static const unsigned nibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};
        float s = sb_f16_to_f32(sb_load_u16(scales + 2 * n));
        float zero = (float)(sb_load_u32(zeros) >> 4 * nibble[n] & 15);
        float value = ((float)(word >> 4 * nibble[n] & 15) - zero) * s;
        assert_true(value - q[n] <= 0.51f * s && q[n] - value <= 0.51f * s);
    }
}

/* The AWQ word of the same eight numbers, with scales of one and zero points of eight: G-20. */
TEST(test_awq_word)
{
    const float q[8] = {-8, -1, 0, 1, 7, 3, -4, -7};
    unsigned char codes[3 * 4], scales[16], zeros[4];
    float w[8][3];
    for (unsigned n = 0; n < 8; n++) {
        w[n][0] = q[n];
        w[n][1] = -8;
        w[n][2] = 7;
    }
    sb_band b = {.weights = w[0],
                 .rows = 8,
                 .cols = 3,
                 .group = 3,
                 .rule = SB_SCALE_RULE_min_max,
                 .codes = codes,
                 .scales = scales,
                 .zeros = zeros};
    sb_quantize_int4_awq(&b);
    assert_int_equal(sb_load_u32(codes), 0x1b974f80);
    assert_int_equal(sb_load_u32(zeros), 0x88888888);
}

/* G-17: "positive if a negative weight has it and else negative" */
TEST(test_signed_scales)
{
    static const struct {
        float largest, other, scale;
    } cases[] = {{-4, 3, 0.5f},
                 {4, -3, -0.5f},
                 {4, -4, -0.5f},
                 {0, 0, 0x1.5p-17f},
                 {0x1p-20f, 0, -0x1.5p-17f}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        float w[64] = {0};
        unsigned char codes[32], scales[16], zeros[4];
        for (unsigned n = 0; n < 8; n++) {
            w[8 * n] = cases[i].largest;
            w[8 * n + 1] = cases[i].other;
        }
        sb_band b = {.weights = w,
                     .rows = 8,
                     .cols = 8,
                     .group = 8,
                     .rule = SB_SCALE_RULE_signed_max,
                     .codes = codes,
                     .scales = scales,
                     .zeros = zeros};
        sb_quantize_int4_gptq(&b);
        assert_true(sb_f16_to_f32(sb_load_u16(scales)) == cases[i].scale);
        if (cases[i].largest == 4 || cases[i].largest == -4)
            assert_int_equal(sb_load_u32(codes) & 15, 0); /* -8 */
    }
}
