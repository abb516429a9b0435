/* test_act_quant.c - inputs of linear layers as K-18 to K-25 quantize them: every form against a
 * plain computation on random and on structured rows, and the choice whether an input is
 * quantized. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/ops/act_quant.h"
#include "ref/ops/knob.h"
#include "tests/lib/plain.h"
#include "tests/unit/act_plain.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { COLS = 256, ROWS = 20 };

static const unsigned char scales[1];

typedef struct kind {
    const char *scheme, *knob;
    sb_container container;
    sb_act_scheme is;
    sb_format format, scale_format;
    uint32_t group; /* columns */
    int factor;     /* needs an input scale */
} kind;

static const kind kinds[] = {
    {"nvfp4", "act_fp4", SB_CONTAINER_nvfp4_ct, SB_SCHEME_nvfp4, SB_FORMAT_e2m1, SB_FORMAT_e4m3, 16,
     1},
    {"nvfp4", "act_fp4", SB_CONTAINER_nvfp4_modelopt, SB_SCHEME_nvfp4, SB_FORMAT_e2m1,
     SB_FORMAT_e4m3, 16, 1},
    {"mxfp4", "act_mx", SB_CONTAINER_mxfp4, SB_SCHEME_mxfp4, SB_FORMAT_e2m1, SB_FORMAT_e8m0, 32, 0},
    {"mxfp8", "act_mx", SB_CONTAINER_mxfp8, SB_SCHEME_mxfp8, SB_FORMAT_e4m3, SB_FORMAT_e8m0, 32, 0},
    {"group", "act_fp8_group", SB_CONTAINER_fp8_block, SB_SCHEME_fp8_group, SB_FORMAT_e4m3,
     SB_FORMAT_bf16, 128, 0},
    {"group", "act_fp8_group", SB_CONTAINER_fp8_block_ct, SB_SCHEME_fp8_group, SB_FORMAT_e4m3,
     SB_FORMAT_bf16, 96, 0}, /* 96, 96, 64 */
    {"token", "act_fp8_token", SB_CONTAINER_fp8_channel, SB_SCHEME_fp8_token, SB_FORMAT_e4m3,
     SB_FORMAT_bf16, COLS, 0},
    {"token", "act_fp8_token", SB_CONTAINER_fp8_tensor, SB_SCHEME_fp8_token, SB_FORMAT_e4m3,
     SB_FORMAT_f32, COLS, 0},
    {"static", "act_fp8_static", SB_CONTAINER_fp8_channel, SB_SCHEME_fp8_static, SB_FORMAT_e4m3,
     SB_FORMAT_bf16, COLS, 1},
    {"static", "act_fp8_static", SB_CONTAINER_fp8_tensor, SB_SCHEME_fp8_static, SB_FORMAT_e4m3,
     SB_FORMAT_f32, COLS, 1},
};

static sb_matrix weight_of(const kind *k, sb_factor input)
{
    int rows = k->container == SB_CONTAINER_fp8_tensor;
    return (sb_matrix){.format = k->format,
                       .rows = 1,
                       .cols = COLS,
                       .quant = {.scales = scales,
                                 .scale_format = k->scale_format,
                                 .block_rows = rows ? 999 : 1,
                                 .block_cols = k->group,
                                 .input = input,
                                 .container = k->container}};
}

static sb_knobs set(sb_knobs knobs, const char *knob, const char *value)
{
    char text[64];
    snprintf(text, sizeof text, "%s=%s", knob, value);
    assert_int_equal(sb_knobs_set(&knobs, text, NULL), SB_OK);
    return knobs;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Rows whose groups hold one kind of value each: the largest finite value, subnormals, ties of both
 * formats, zeros of both signs, values that saturate a static scale. Each group has one ordinary
 * element or none. */
static float structured(size_t row, size_t i)
{
    static const float ties[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5, 6};
    float sign = i % 3 ? 1.0f : -1.0f;
    switch (row) {
    case 0:
        return 0;
    case 1:
        return sign * 0.0f;
    case 2: /* each group has its own power of two; ties of E2M1, as amax is 6 */
        return sign * ldexpf(ties[i % 8], (int)(i / 16) - 8);
    case 3: /* ties of E4M3 under amax 448 */
        return sign * (i % 16 == 0 ? 448 : (float)(i % 128) + 0.5f + 16 * (float)(i % 2));
    case 4:
        return i % 16 == 5 ? sign * 0x1p-149f : 0;
    case 5:
        return sign * 0x1p-126f * (float)(i % 16);
    case 6:
        return sign * 0x1.fffffep127f / (float)(1 + i % 16);
    case 7:
        return i == 100 ? 0x1.fffffep127f : sign * ldexpf(1, -(int)(i % 149));
    case 8: /* around the floors of FP8 scales */
        return sign * (i < 128 ? 1e-10f : 448.0f / 229376.0f) * (i % 128 ? 0.3f : 1.0f);
    case 9: /* amax 1.75 and just below it, times powers of two */
        return i % 32 == 7 ? ldexpf(i < 128 ? 1.75f : 0x1.bffffep0f, (int)(i / 32)) : sign * 0.1f;
    default:
        return i % 16 == row % 16 ? sign * 1.0625f
                                  : 0; /* 17/16: ties of E4M3 under simple factors */
    }
}

enum { STRUCTURED = 12 };

static void draw_rows(const sb_knobs *knobs, uint64_t seed, float *x)
{
    uint64_t key = sb_rng_key(seed, "act");
    for (size_t r = 0; r < ROWS; r++)
        for (size_t i = 0; i < COLS; i++) {
            uint64_t at = r * COLS + i;
            float spread = ldexpf(1, (int)sb_rng_below(key, ~(at / 16), 14) - 10);
            float v = r < STRUCTURED ? structured(r, i) : sb_rng_normal(key, at) * spread;
            x[at] = sb_act(knobs, v);
            if (!sb_is_finite_f32(x[at]))
                x[at] = SB_IS(knobs, act, f16) ? 65504.0f : 0x1.fep127f;
        }
}

/* --- values * --------------------------------------------------------------------------------- */

static int same_double(double a, double b)
{
    return a == b || (isnan(a) && isnan(b)); /* zeros of either sign are the same */
}

/* Counts of the kinds of values that can tell forms apart. */
static unsigned long nonzero_codes, zero_scales, saturated;

static void check_values(const kind *k, const char *form, const sb_knobs *knobs, sb_factor input,
                         const float *x)
{
    sb_matrix w = weight_of(k, input);
    sb_input got;
    assert_int_equal(sb_input_scheme(knobs, &w), k->is);
    assert_int_equal(sb_quantize_input(knobs, &w, x, ROWS, &got), SB_OK);
    for (size_t at = 0; at < (size_t)ROWS * COLS;) {
        size_t col = at % COLS, n = COLS - col < k->group ? COLS - col : k->group;
        plain_group want = plain_quantize(knobs, k->scheme, form, input, x + at, n);
        zero_scales += want.scale == 0;
        for (size_t i = 0; i < n; i++, at++) {
            double value = want.code[i] * want.scale;
            nonzero_codes += want.code[i] != 0;
            saturated += fabs(want.code[i]) == (k->format == SB_FORMAT_e2m1 ? 6 : 448);
            if (!same_double(got.values[at], value))
                fail_msg("%s=%s of %s: row %zu, column %zu: x %a gives %a, expected %a x %a",
                         k->knob, form, sb_container_name(k->container), at / COLS, at % COLS,
                         (double)x[at], got.values[at], want.code[i], want.scale);
        }
    }
    sb_factor f = k->factor ? input : (sb_factor){SB_NO_FACTOR, 1};
    assert_true(got.factor.mul[0] == (f.kind == SB_MULTIPLIER ? f.value : 1));
    assert_true(got.factor.div[0] == (f.kind == SB_DIVISOR ? f.value : 1));
    assert_true(got.factor.mul[1] == 1 && got.factor.div[1] == 1);
    assert_null(got.rounded);
    sb_input_free(&got);
}

static const sb_factor inputs[] = {{SB_DIVISOR, 2688.0f / 11.0625f},
                                   {SB_MULTIPLIER, 0.0654761940f},
                                   {SB_DIVISOR, 1},
                                   {SB_MULTIPLIER, 0x1.8p-20f},
                                   {SB_DIVISOR, 3e7f},
                                   {SB_MULTIPLIER, 0x1p10f},
                                   {SB_DIVISOR, 384},
                                   {SB_MULTIPLIER, 1.0f / 384},
                                   {SB_DIVISOR, 0x1p127f},
                                   {SB_MULTIPLIER, 0x1p-126f}};

/* Every form of every knob, in every activation type, and both forms of K-20. */
TEST(test_forms)
{
    static const char *const types[] = {"f32", "bf16", "f16"};
    float *x = malloc(sizeof(float) * ROWS * COLS);
    unsigned forms = 0;
    for (size_t i = 0; i < COUNT(kinds); i++)
        for (unsigned v = 0; v < SB_VALUE_COUNT; v++) {
            const char *form = sb_knob_value_name((sb_knob_value)v);
            if (strcmp(sb_knob_name(sb_knob_of_value((sb_knob_value)v)), kinds[i].knob) != 0 ||
                strcmp(form, "off") == 0)
                continue;
            for (size_t t = 0; t < 2 * COUNT(types); t++) {
                sb_knobs knobs = set(test_knobs(""), "act", types[t / 2]);
                knobs = set(set(knobs, kinds[i].knob, form), "fp8_scale", t % 2 ? "ue8m0" : "f32");
                draw_rows(&knobs, i, x);
                for (size_t f = 0; f < (kinds[i].factor ? COUNT(inputs) : 1); f++)
                    check_values(&kinds[i], form, &knobs,
                                 kinds[i].factor ? inputs[f] : (sb_factor){SB_NO_FACTOR, 0}, x);
            }
            forms++;
        }
    assert_int_equal(forms, 2 * 7 + 2 + 2 * 6 + 2 * 4 + 2 * 2);
    assert_true(nonzero_codes > 1000000 && zero_scales > 1000 && saturated > 100000);
    free(x);
}

/* --- special cases by hand * ------------------------------------------------------------------ */

static double first_value(const char *settings, const kind *k, sb_factor input, float fill, float x)
{
    float in[COLS];
    sb_input got;
    sb_knobs knobs = test_knobs(settings);
    sb_matrix w = weight_of(k, input);
    for (size_t i = 0; i < COLS; i++)
        in[i] = fill;
    in[0] = x;
    assert_int_equal(sb_quantize_input(&knobs, &w, in, 1, &got), SB_OK);
    double value = got.values[0];
    sb_input_free(&got);
    return value;
}

TEST(test_special_cases)
{
    const kind *fp4 = &kinds[0], *group = &kinds[4], *token = &kinds[6], *fixed = &kinds[8];
    sb_factor G1 = {SB_DIVISOR, 1}, S = {SB_MULTIPLIER, 0.5f}, none = {SB_NO_FACTOR, 0};
    /* s = E4(6 / 6) = 1: the codes are the elements; E4(3 / 6) = 1/2 */
    assert_true(first_value("act_fp4=vllm_ref", fp4, G1, 6, -2.6f) == -3);
    assert_true(first_value("act_fp4=vllm_ref", fp4, G1, 3, 1.2f) == 1); /* 2.4 -> 2 times 1/2 */
    /* s saturates at 448, then the codes at 6 */
    assert_true(first_value("act_fp4=ct", fp4, G1, 1, 1e6f) == 448 * 6);
    /* s underflows although amax is not 0: the values are 0, also with the 0.125 of ct */
    assert_true(first_value("act_fp4=precise", fp4, G1, 0.001f, 0.001f) == 0);
    assert_true(first_value("act_fp4=ct", fp4, G1, 0.005f, 0.005f) == 0);
    /* E4(0.006 / 6) = 2^-9: above the tie at 2^-10; 0.006 / 2^-9 rounds to 3 */
    assert_true(first_value("act_fp4=fast", fp4, G1, 0.006f, 0.006f) == 3 * 0x1p-9);
    assert_true(first_value("act_fp8_group=vllm_cuda", group, none, 0, 448) == 448);
    assert_true(first_value("act_fp8_group=vllm_cuda", group, none, 448, 17) == 16);   /* a tie */
    assert_true(first_value("act_fp8_group=vllm_cuda", group, none, 448, -19) == -20); /* a tie */
    assert_true(first_value("act_fp8_group=hf", group, none, 0, 0) == 0);
    assert_true(first_value("act_fp8_token=vllm", token, none, 0, 0) == 0);
    /* ue8m0: 3 / 448 -> 2^-7, so the code of 3 is 384, exact in E4M3 */
    assert_true(first_value("act_fp8_group=sglang fp8_scale=ue8m0", group, none, 1, 3) == 3);
    /* static: the value is the code, S is in the factor; 300 / 0.5 saturates */
    assert_true(first_value("act_fp8_static=vllm", fixed, S, 1, 300) == 448);
    assert_true(first_value("act_fp8_static=ct", fixed, S, 1, -1.0625f) == -2.0); /* tie 2.125 */
}

/* K-25: "a group with a value that is not finite has NaN for all of its values" - and no other. */
TEST(test_poison)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < COUNT(kinds); i++)
        for (size_t b = 0; b < COUNT(bad); b++) {
            sb_knobs knobs = test_knobs("dequant=mo_mul"), w4;
            const char *form = strcmp(kinds[i].knob, "act_fp8_group") == 0 ? "hf" : "ct";
            sb_matrix w = weight_of(&kinds[i], kinds[i].factor ? inputs[0] : (sb_factor){0});
            float x[2 * COLS];
            sb_input got;
            w4 = set(knobs, kinds[i].knob, form);
            for (size_t c = 0; c < 2 * COLS; c++)
                x[c] = 1;
            x[COLS + 33] = bad[b];
            assert_int_equal(sb_quantize_input(&w4, &w, x, 2, &got), SB_OK);
            for (size_t c = 0; c < 2 * COLS; c++) {
                int hit = c / COLS == 1 && (c % COLS) / kinds[i].group == 33 / kinds[i].group;
                assert_int_equal(isnan(got.values[c]) != 0, hit);
                assert_int_equal(sb_bits_f32(got.rounded[c]) == 0x7fc00000u, hit);
            }
            sb_input_free(&got);
        }
}

/* --- laws of K-17 * --------------------------------------------------------------------------- */

static double single(double x)
{
    return (double)(float)x;
}

/* K-25: "the input is R of the value that the law of K-17 gives to it" */
static float law_value(const sb_knobs *k, const char *law, sb_factor f, double code, double scale)
{
    double v = (double)f.value, e = scale;
    if (f.kind == SB_NO_FACTOR)
        return sb_act(k, (float)(code * scale));
    double m = f.kind == SB_MULTIPLIER ? v : single(1 / v),
           d = f.kind == SB_DIVISOR ? v : single(1 / v);
    if (strcmp(law, "factor_last") == 0)
        return sb_act(k, (float)(code * scale));
    if (strcmp(law, "exact") == 0) /* long double: one rounding */
        return sb_act(k,
                      (float)(f.kind == SB_DIVISOR ? (long double)(code * scale) / (long double)v
                                                   : (long double)(code * scale) * (long double)v));
    if (strcmp(law, "ct_div") == 0)
        e = single(scale / d);
    else
        e = single(scale * (strcmp(law, "ct_rcp") == 0 ? single(1 / d) : m));
    return sb_act(k, (float)(code * e));
}

/* One law and one input factor. Returns the number of values that a law rounds. */
static unsigned long check_law(const kind *kd, const sb_knobs *k, const char *law, sb_factor input,
                               const float *x, int rounds)
{
    sb_factor mine = kd->factor ? input : (sb_factor){SB_NO_FACTOR, 0};
    int ignores = kd->is == SB_SCHEME_fp8_group; /* block layers ignore an input scale */
    sb_matrix w = weight_of(kd, ignores ? input : mine);
    unsigned long differ = 0;
    sb_input got;
    assert_int_equal(sb_quantize_input(k, &w, x, ROWS, &got), SB_OK);
    assert_int_equal(got.rounded != NULL, rounds);
    for (size_t at = 0; rounds && at < (size_t)ROWS * COLS;) {
        size_t left = COLS - at % COLS, n = left < kd->group ? left : kd->group;
        plain_group g = plain_quantize(k, kd->scheme, "ct", mine, x + at, n);
        for (size_t i = 0; i < n; i++, at++) {
            float want = law_value(k, law, mine, g.code[i], g.scale);
            differ += mine.kind && (double)want != single(got.values[at]);
            if (want != got.rounded[at] && !(isnan(want) && isnan(got.rounded[at])))
                fail_msg("dequant=%s %s: %a, expected %a", law, sb_container_name(kd->container),
                         (double)got.rounded[at], (double)want);
        }
    }
    sb_input_free(&got);
    return differ;
}

TEST(test_laws)
{
    static const char *const laws[] = {"exact", "mo_mul", "ct_div", "ct_rcp", "factor_last"};
    static const char *const types[] = {"", "act=bf16 params=act"};
    float *x = malloc(sizeof(float) * ROWS * COLS);
    unsigned long differ = 0;
    for (size_t i = 0; i < COUNT(kinds); i++)
        for (size_t l = 0; l < COUNT(laws) * COUNT(types); l++) {
            const char *law = laws[l / 2];
            sb_knobs k = set(set(test_knobs(types[l % 2]), "dequant", law), kinds[i].knob, "ct");
            draw_rows(&k, i, x);
            for (size_t f = 0; f < 4; f++)
                differ += check_law(&kinds[i], &k, law, inputs[f], x, l != 0);
        }
    assert_true(differ > 1000);
    free(x);
}

/* --- which layers * --------------------------------------------------------------------------- */

TEST(test_schemes)
{
    static const char *const knobs_of[] = {"act_fp4", "act_mx", "act_fp8_group", "act_fp8_token",
                                           "act_fp8_static"};
    static const sb_container weights_only[] = {SB_CONTAINER_int_gptq, SB_CONTAINER_int_awq,
                                                SB_CONTAINER_int_ct, SB_CONTAINER_int8_channel,
                                                SB_CONTAINER_plain};
    for (size_t k = 0; k < COUNT(knobs_of); k++) {
        sb_knobs on = set(test_knobs(""), knobs_of[k], "ct"), off = test_knobs("");
        for (size_t i = 0; i < COUNT(kinds); i++) {
            sb_matrix w = weight_of(&kinds[i], kinds[i].factor ? inputs[0] : (sb_factor){0});
            int mine = strcmp(kinds[i].knob, knobs_of[k]) == 0;
            assert_int_equal(sb_input_scheme(&on, &w), mine ? kinds[i].is : SB_SCHEME_none);
            assert_int_equal(sb_input_scheme(&off, &w), SB_SCHEME_none);
            w.quant.scales = NULL;
            assert_int_equal(sb_input_scheme(&on, &w), SB_SCHEME_none);
        }
        for (size_t i = 0; i < COUNT(weights_only); i++) {
            sb_matrix w = weight_of(&kinds[6], inputs[0]);
            w.quant.container = weights_only[i];
            assert_int_equal(sb_input_scheme(&on, &w), SB_SCHEME_none);
        }
        sb_matrix bare = weight_of(&kinds[0], (sb_factor){SB_NO_FACTOR, 0}); /* W4A16 */
        assert_int_equal(sb_input_scheme(&on, &bare), SB_SCHEME_none);
    }
}

/* Without a scheme the values are the inputs, without any rounding. */
TEST(test_none)
{
    sb_knobs knobs = test_knobs("dequant=ct_div act=bf16");
    sb_matrix w = weight_of(&kinds[0], inputs[0]);
    float x[COLS];
    sb_input got;
    for (size_t i = 0; i < COLS; i++)
        x[i] = structured(7, i);
    assert_int_equal(sb_quantize_input(&knobs, &w, x, 1, &got), SB_OK);
    for (size_t i = 0; i < COLS; i++)
        assert_true(got.values[i] == (double)x[i]);
    assert_true(got.factor.mul[0] == 1 && got.factor.div[0] == 1 && !got.rounded);
    sb_input_free(&got);
    assert_null(got.values);
}

TEST(test_memory)
{
    static const float x[COLS];
    sb_knobs knobs = test_knobs("dequant=ct_div act_fp4=ct");
    sb_matrix w = weight_of(&kinds[0], inputs[0]);
    sb_input got;
    for (unsigned long n = 1; n <= 5; n++) {
        sb_alloc_fail_at(n);
        sb_status status = sb_quantize_input(&knobs, &w, x, 1, &got);
        sb_alloc_fail_at(0);
        assert_int_equal(status, n <= 4 ? SB_ERR_MEMORY : SB_OK);
        sb_input_free(&got);
    }
}
