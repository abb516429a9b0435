/* test_law.c - each law of dequantization against its expression, evaluated here one operation at a
 * time, and law exact against MPFR. */
#include "tests/lib/suite.h"

#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/math/law.h"
#include "ref/fast/dot/dot.h"
#include "tests/lib/quant_layer.h"

static int same(float a, float b)
{
    return (a != a && b != b) || sb_bits_f32(a) == sb_bits_f32(b);
}

/* RN( q s m ) or RN( q s / d ) of finite parts, otherwise a NaN. A code or scale of 0 gives a
 * zero with the sign of the product; a 0 from the factor alone is +0. */
static float exactly(float q, float s, const sb_factor *factor)
{
    static mpfr_t value;
    static int ready;
    if (!ready)
        mpfr_init2(value, 200);
    ready = 1;
    double product = (double)q * s;
    if (!(product - product == 0))
        return sb_f32_from_bits(0x7fc00000);
    if (product == 0)
        return (float)product;
    mpfr_set_d(value, product, MPFR_RNDN);
    if (factor->kind == SB_MULTIPLIER)
        mpfr_mul_d(value, value, factor->value, MPFR_RNDN);
    else if (factor->kind == SB_DIVISOR)
        mpfr_div_d(value, value, factor->value, MPFR_RNDN);
    return mpfr_zero_p(value) ? 0.0f : mpfr_get_flt(value, MPFR_RNDN);
}

static float to_bf16(float x)
{
    uint32_t u = sb_bits_f32(x);
    return x != x ? x : sb_f32_from_bits((u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u);
}

/* The expressions of Q-8. Every volatile is one rounding. */
static float by_law(sb_law law, float q, float s, const sb_factor *factor)
{
    volatile float m = factor->value, d = factor->value, e = s, value;
    if (factor->kind == SB_DIVISOR)
        m = 1.0f / d;
    else
        d = 1.0f / m;
    volatile float reciprocal = 1.0f / d;
    if (law == SB_LAW_exact)
        return exactly(q, s, factor);
    if (law == SB_LAW_bf16_scale)
        e = to_bf16(s);
    if (factor->kind != SB_NO_FACTOR) {
        if (law == SB_LAW_mo_mul || law == SB_LAW_bf16_scale)
            e = e * m;
        else if (law == SB_LAW_ct_div)
            e = s / d;
        else if (law == SB_LAW_ct_rcp)
            e = s * reciprocal;
        else
            assert_int_equal(law, SB_LAW_factor_last);
    }
    value = q * e;
    return value;
}

static void check_matrix(const quant_layer *l, const sb_matrix *m, uint32_t e)
{
    const quant_spec *s = &l->spec;
    double *wide = malloc(s->cols * sizeof *wide);
    float *values = malloc(s->cols * sizeof *values);
    assert_true(wide && values);
    for (unsigned law = 0; law < SB_LAW_COUNT; law++)
        for (uint32_t n = 0; n<s->rows; n += s->rows> 50 ? 7 : 1) {
            size_t first = ((size_t)e * s->rows + n) * s->cols;
            sb_law_row(m, n, (sb_law)law, wide, values);
            for (uint32_t k = 0; k < s->cols; k++) {
                float expected =
                    by_law((sb_law)law, l->code[first + k], l->scale[first + k], &m->quant.factor);
                if (!same(values[k], expected))
                    fail_msg("%s: law %s, row %u, column %u: %a, expected %a (factor %a)",
                             quant_spec_text(s), sb_law_name((sb_law)law), n, k, (double)values[k],
                             (double)expected, (double)m->quant.factor.value);
            }
        }
    free(wide);
    free(values);
}

TEST(test_every_variant)
{
    size_t count;
    const quant_spec *s = quant_variants(&count);
    for (size_t i = 0; i < count; i++) {
        quant_layer l = quant_layer_draw(&s[i], 8);
        sb_checkpoint *checkpoint;
        sb_found found;
        quant_find(&l, "test_law", &checkpoint, &found);
        check_matrix(&l, &found.matrix, 0);
        for (uint32_t e = 1; e < s[i].experts; e++) {
            sb_matrix m;
            assert_int_equal(sb_found_expert(checkpoint, &found, e, &m, NULL), SB_OK);
            check_matrix(&l, &m, e);
        }
        sb_checkpoint_close(checkpoint);
        quant_layer_free(&l);
    }
}

static const quant_spec nvfp4 = {.container = SB_CONTAINER_nvfp4_modelopt,
                                 .rows = 40,
                                 .cols = 256,
                                 .bits = 4,
                                 .block = {1, 16},
                                 .scale = SB_DTYPE_F8_E4M3,
                                 .scale_rank = 2,
                                 .factor = SB_DTYPE_F32};

/* Factors at the ends of binary32, where products and reciprocals overflow, underflow and lose
 * digits. */
TEST(test_extreme_factors)
{
    static const uint32_t factors[] = {0,          1,          0x00000007, 0x007fffff, 0x00800001,
                                       0x3f800000, 0x3f7fffff, 0x3f800001, 0x7e800000, 0x7f000001,
                                       0x7f7fffff, 0x390db6db, 0x45e70000, 0x80000000};
    for (int special = 0; special < 2; special++) {
        quant_spec s = nvfp4;
        s.special = special;
        quant_layer l = quant_layer_draw(&s, 3);
        sb_checkpoint *checkpoint;
        sb_found found;
        quant_find(&l, "test_law", &checkpoint, &found);
        for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
            for (int divisor = 0; divisor < 2; divisor++) {
                sb_factor *f = &found.matrix.quant.factor;
                f->value = sb_f32_from_bits(factors[i]);
                f->kind = divisor ? SB_DIVISOR : SB_MULTIPLIER;
                if (divisor && f->value == 0)
                    continue;
                check_matrix(&l, &found.matrix, 0);
            }
        sb_checkpoint_close(checkpoint);
        quant_layer_free(&l);
    }
}

/* F16 scales have three bits more than BF16, so that law bf16_scale differs. */
static void check_f16_scales(void)
{
    quant_spec s = {.container = SB_CONTAINER_int_gptq,
                    .rows = 24,
                    .cols = 64,
                    .bits = 4,
                    .block = {1, 8},
                    .scale = SB_DTYPE_F16};
    quant_layer l = quant_layer_draw(&s, 2);
    sb_checkpoint *checkpoint;
    sb_found found;
    double wide[64];
    float a[64], b[64];
    unsigned differ = 0;
    quant_find(&l, "test_law", &checkpoint, &found);
    for (uint32_t n = 0; n < 24; n++) {
        sb_law_row(&found.matrix, n, SB_LAW_bf16_scale, wide, a);
        sb_law_row(&found.matrix, n, SB_LAW_mo_mul, wide, b);
        for (unsigned k = 0; k < 64; k++)
            differ += !same(a[k], b[k]);
    }
    assert_true(differ > 24 * 64 / 2);
    sb_checkpoint_close(checkpoint);
    quant_layer_free(&l);
}

/* The laws really differ: in many values of layers like these. */
TEST(test_laws_differ)
{
    static const sb_factor factors[] = {{SB_DIVISOR, 7399.2f},
                                        {SB_MULTIPLIER, 1.35149268e-4f},
                                        {SB_MULTIPLIER, 0x1.fffffep-13f}}; /* not RN(1/RN(1/m)) */
    quant_layer l = quant_layer_draw(&nvfp4, 5);
    sb_checkpoint *checkpoint;
    sb_found found;
    float row[SB_LAW_COUNT][256];
    double wide[256];
    unsigned differ[SB_LAW_COUNT][SB_LAW_COUNT] = {{0}};
    check_f16_scales();
    quant_find(&l, "test_law", &checkpoint, &found);
    for (unsigned i = 0; i < sizeof factors / sizeof *factors; i++) {
        found.matrix.quant.factor = factors[i];
        for (uint32_t n = 0; n < 40; n++) {
            for (unsigned a = 0; a < SB_LAW_COUNT; a++)
                sb_law_row(&found.matrix, n, (sb_law)a, wide, row[a]);
            for (unsigned k = 0; k < 256; k++)
                for (unsigned a = 0; a < SB_LAW_COUNT; a++)
                    for (unsigned b = 0; b < a; b++)
                        differ[a][b] += !same(row[a][k], row[b][k]);
        }
    }
    for (unsigned a = 0; a < SB_LAW_COUNT; a++)
        for (unsigned b = 0; b < a; b++)
            if (a != SB_LAW_bf16_scale && differ[a][b] < 400)
                fail_msg("%s and %s differ in %u of 30720", sb_law_name((sb_law)a),
                         sb_law_name((sb_law)b), differ[a][b]);
    sb_checkpoint_close(checkpoint);
    quant_layer_free(&l);
}

/* Sixteen published weights in both dialects: the words, the common factor and the BF16 values. */
TEST(test_published_vector)
{
    static const unsigned char codes[2][8] = {{0xf7, 0xd7, 0x45, 0x2b, 0x80, 0x80, 0xf6, 0x05},
                                              {0xf7, 0xd7, 0x45, 0x2b, 0x80, 0x00, 0xf6, 0x05}};
    static const uint32_t factor[2] = {0x45E70000, 0x390DB6DB}, e[2] = {0x3C84FCAD, 0x3C84DB6D};
    static const uint16_t bf16[16] = {0x3dc7, 0xbdc7, 0x3dc7, 0xbd47, 0x3d47, 0x3d05,
                                      0xbcc7, 0x3c85, 0x0000, 0x8000, 0x0000, 0x8000,
                                      0x3d85, 0xbdc7, 0x3d47, 0x0000};
    for (int modelopt = 0; modelopt < 2; modelopt++) {
        quant_spec s = nvfp4;
        s.container = modelopt ? SB_CONTAINER_nvfp4_modelopt : SB_CONTAINER_nvfp4_ct;
        s.rows = 1;
        s.cols = 16;
        quant_layer l = quant_layer_draw(&s, 1);
        const char *name = quant_part_name(&s, modelopt ? "weight" : "weight_packed");
        memcpy(test_folder_find(&l.folder, name)->bytes, codes[modelopt], 8);
        test_folder_find(&l.folder, quant_part_name(&s, "weight_scale"))->bytes[0] = 0x6f;
        name = quant_part_name(&s, modelopt ? "weight_scale_2" : "weight_global_scale");
        sb_store_u32(test_folder_find(&l.folder, name)->bytes, factor[modelopt]);
        sb_checkpoint *checkpoint;
        sb_found found;
        quant_find(&l, "test_law", &checkpoint, &found);
        float values[16];
        double wide[16];
        sb_law_row(&found.matrix, 0, modelopt ? SB_LAW_mo_mul : SB_LAW_ct_div, wide, values);
        assert_int_equal(sb_bits_f32(values[7]), e[modelopt]); /* a code of 1 */
        for (unsigned k = 0; k < 16; k++)
            assert_int_equal(sb_f32_to_bf16(values[k]), modelopt && k == 11 ? 0 : bf16[k]);
        sb_checkpoint_close(checkpoint);
        quant_layer_free(&l);
    }
}

/* A plain matrix has one value under every law. */
TEST(test_plain)
{
    unsigned char bytes[2 * 3 * 40];
    double wide[40];
    float values[40], expected[40];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)sb_rng_below(sb_rng_key(1, "plain"), i, 256);
    sb_matrix m = {.data = bytes, .format = SB_FORMAT_bf16, .rows = 3, .cols = 40};
    for (uint32_t n = 0; n < 3; n++)
        for (unsigned law = 0; law < SB_LAW_COUNT; law++) {
            sb_law_row(&m, n, (sb_law)law, wide, values);
            sb_decode(SB_FORMAT_bf16, bytes + n * 80, 40, expected);
            for (unsigned k = 0; k < 40; k++)
                assert_true(same(values[k], expected[k]));
        }
}

TEST(test_names)
{
    static const char *const names[] = {"exact",  "mo_mul",      "ct_div",
                                        "ct_rcp", "factor_last", "bf16_scale"};
    assert_int_equal(SB_LAW_COUNT, sizeof names / sizeof *names);
    for (unsigned law = 0; law < SB_LAW_COUNT; law++) {
        assert_string_equal(sb_law_name((sb_law)law), names[law]);
        assert_non_null(strstr(sb_law_expression((sb_law)law), "RN("));
        assert_true(strlen(sb_law_users((sb_law)law)) > 5);
    }
}

TEST_FIXTURE(start)
{
    sb_error err;
    if (sb_math_start(NULL, &err) == SB_OK)
        return 0;
    print_error("%s\n", err.text);
    return -1;
}
TEST_GROUP(start, NULL)
