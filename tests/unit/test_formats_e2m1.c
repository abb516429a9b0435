/* test_formats_e2m1.c - where the E2M1 encoders in use differ, and that they agree everywhere else.
 * All 2^32 arguments are counted by tests/exhaustive/codecs32.c; see docs/e2m1.md. */
#include "tests/lib/suite.h"
#include "tests/unit/scratch.h"

#include <math.h>

#include "ref/base/rng.h"
#include "ref/formats/e2m1_forms.h"
#include "ref/formats/small_float.h"

static const double magnitudes[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

/* The nearest magnitude; on a tie the even code, or the smaller one if `smaller`. */
static unsigned nearest(float x, int smaller)
{
    double a = fabs((double)x);
    unsigned code = 0;
    while (code < 7) {
        double midpoint = (magnitudes[code] + magnitudes[code + 1]) / 2;
        if (a < midpoint || (a == midpoint && (smaller || code % 2 == 0)))
            break;
        code++;
    }
    return code;
}

/* ggml beyond 6: the first code with the least distance, each distance rounded once. */
static unsigned first_least(float x)
{
    unsigned best = 0;
    for (unsigned code = 1; code < 16; code++) {
        double v = code < 8 ? magnitudes[code] : -magnitudes[code - 8];
        double w = best < 8 ? magnitudes[best] : -magnitudes[best - 8];
        if ((float)fabs(v - (double)x) < (float)fabs(w - (double)x))
            best = code;
    }
    return best;
}

/* The documented result of a form, class by class. */
static unsigned expected(sb_e2m1_form form, float x)
{
    unsigned sign = signbit(x) ? 8 : 0, negative = x < 0 ? 8 : 0;
    int nan = x != x;
    switch (form) {
    case SB_E2M1_FORM_hardware:
        return nan ? 7 : sign | nearest(x, 0);
    case SB_E2M1_FORM_thresholds:
        return nan ? sign | 7 : sign | nearest(x, 0);
    case SB_E2M1_FORM_predicates:
        return nan ? sign : sign | nearest(x, 0);
    case SB_E2M1_FORM_ggml:
        if (nan || isinf(x))
            return 0;
        if (fabsf(x) > 6)
            return first_least(x);
        return nearest(x, 1) ? sign | nearest(x, 1) : 0;
    case SB_E2M1_FORM_modelopt:
        return nan ? 7 : negative | nearest(x, 0);
    case SB_E2M1_FORM_compressed_tensors:
        return nan ? 0 : negative | nearest(x, 0);
    case SB_E2M1_FORM_COUNT:
        break;
    }
    return 16;
}

static void check(float x)
{
    for (int f = 0; f < SB_E2M1_FORM_COUNT; f++) {
        sb_e2m1_form form = (sb_e2m1_form)f;
        unsigned got = sb_e2m1_encode(form, x);
        if (got != expected(form, x))
            fail_msg("%s of %a (%08x): got %x, expected %x", sb_e2m1_form_name(form), (double)x,
                     (unsigned)sb_bits_f32(x), got, expected(form, x));
    }
}

TEST(test_ties_values_and_their_neighbours)
{
    for (unsigned code = 0; code < 8; code++) {
        double next = code < 7 ? magnitudes[code + 1] : 8;
        double places[2] = {magnitudes[code], (magnitudes[code] + next) / 2};
        for (size_t k = 0; k < 2; k++)
            for (uint32_t step = 0; step < 9; step++) { /* below 0 these are NaNs */
                float x = sb_f32_from_bits(sb_bits_f32((float)places[k]) + step - 4);
                check(x);
                check(-x);
            }
    }
}

TEST(test_special_and_random_arguments)
{
    static const uint32_t specials[] = {0x00000000, 0x00000001, 0x007fffff, 0x00800000, 0x3e800000,
                                        0x3e800001, 0x4b000000, 0x4b7fffff, 0x4b800000, 0x4b800001,
                                        0x4c000000, 0x4c000001, 0x4c800000, 0x4d000000, 0x4d800000,
                                        0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff};
    uint64_t key = sb_rng_key(13, "e2m1");
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++) {
        check(sb_f32_from_bits(specials[i]));
        check(sb_f32_from_bits(specials[i] | 0x80000000u));
    }
    for (uint64_t i = 0; i < 1u << 20; i++) {
        uint64_t bits = sb_rng_u64(key, i);
        check(sb_f32_from_bits((uint32_t)bits));
        /* around 6 and below, and where several rounded distances of ggml are equal */
        uint32_t exponent = (bits >> 33 & 1 ? 122 : 148) + (uint32_t)(bits >> 34) % 8;
        check(sb_f32_from_bits(((uint32_t)bits & 0x807fffffu) | exponent << 23));
    }
}

/* One argument for each way in which two forms differ. */
TEST(test_where_they_differ)
{
    static const struct {
        float x;
        uint8_t codes[6]; /* hardware, thresholds, predicates, ggml, modelopt, compressed-tensors */
    } rows[] = {{0.0f, {0, 0, 0, 0, 0, 0}},          {-0.0f, {8, 8, 8, 0, 0, 0}},
                {-0x1p-149f, {8, 8, 8, 0, 8, 8}},    {-0.25f, {8, 8, 8, 0, 8, 8}},
                {0.75f, {2, 2, 2, 1, 2, 2}},         {1.25f, {2, 2, 2, 2, 2, 2}},
                {-1.75f, {12, 12, 12, 11, 12, 12}},  {3.5f, {6, 6, 6, 5, 6, 6}},
                {5.0f, {6, 6, 6, 6, 6, 6}},          {-5.1f, {15, 15, 15, 15, 15, 15}},
                {1e9f, {7, 7, 7, 0, 7, 7}},          {INFINITY, {7, 7, 7, 0, 7, 7}},
                {-INFINITY, {15, 15, 15, 0, 15, 15}}};
    assert_int_equal(SB_E2M1_FORM_COUNT, 6);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int f = 0; f < 6; f++)
            assert_int_equal(sb_e2m1_encode((sb_e2m1_form)f, rows[i].x), rows[i].codes[f]);
    static const uint8_t plus_nan[6] = {7, 7, 0, 0, 7, 0}, minus_nan[6] = {7, 15, 8, 0, 7, 0};
    for (int f = 0; f < 6; f++) {
        assert_int_equal(sb_e2m1_encode((sb_e2m1_form)f, sb_f32_from_bits(0x7fc00000u)),
                         plus_nan[f]);
        assert_int_equal(sb_e2m1_encode((sb_e2m1_form)f, sb_f32_from_bits(0xffc00000u)),
                         minus_nan[f]);
    }
}

TEST(test_names)
{
    for (int f = 0; f < SB_E2M1_FORM_COUNT; f++) {
        assert_true(strlen(sb_e2m1_form_name((sb_e2m1_form)f)) > 3);
        assert_true(strlen(sb_e2m1_form_who((sb_e2m1_form)f)) > 3);
    }
    assert_string_equal(sb_e2m1_form_name(SB_E2M1_FORM_modelopt), "modelopt");
}
