/* test_formats_small.c - the formats of at most eight bits, and properties of all formats.
 *
 * The oracle is tests/exhaustive/codec_oracle.c, which implements the definitions; the
 * landmarks below were worked out by hand. All 2^32 arguments: tests/exhaustive/codecs32.c. */
#include "tests/lib/suite.h"
#include "tests/unit/scratch.h"

#include <math.h>

#include "ref/base/rng.h"
#include "ref/container/dtype.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "tests/exhaustive/codec_oracle.h"

TEST_FIXTURE(setup)
{
    codec_prepare();
    return 0;
}

/* The codec of the plain encoder of a format; NULL for f32. */
static const codec *plain_codec(sb_format format)
{
    for (size_t k = 0; k < codec_count; k++)
        if (codec_table[k].format == format)
            return &codec_table[k];
    return NULL;
}

static uint32_t last_code(sb_format format)
{
    return (1u << sb_format_bits(format)) - 1;
}

/* --- decoding --------------------------------------------------------------------------------- */
/* F-6, F-8, F-9, F-10 and F-12 define the value of a code; here it comes from the list of
 * values. */
static double value_of(const codec *c, uint32_t code)
{
    uint32_t magnitude = code & ~c->sign;
    if (c->format == SB_FORMAT_ue4m3)
        magnitude = code & 0x7f;
    if (c->kind == CODEC_INTEGERS)
        magnitude = (code - (uint32_t)c->lowest) & last_code(c->format);
    if (magnitude >= c->finite)
        return c->format == SB_FORMAT_e5m2 && magnitude == 0x7c ? (double)INFINITY : (double)NAN;
    return codec_value(c, magnitude);
}

TEST(test_every_code_decodes)
{
    for (int f = SB_FORMAT_e4m3; f < SB_FORMAT_COUNT; f++) {
        sb_format format = (sb_format)f;
        const codec *c = plain_codec(format);
        for (uint32_t code = 0; code <= last_code(format); code++) {
            double want = value_of(c, code);
            uint8_t byte = (uint8_t)code;
            float got = sb_code_to_f32(format, code), quick;
            sb_small_decode(format, &byte, 1, &quick);
            if (sb_bits_f32(quick) != sb_bits_f32(got))
                fail_msg("%s code %02x: %a quickly, %a", c->name, (unsigned)code, (double)quick,
                         (double)got);
            if (want != want ? got == got : fabs((double)got) != fabs(want))
                fail_msg("%s code %02x: got %a, expected %a", c->name, (unsigned)code, (double)got,
                         want);
            if (c->kind == CODEC_INTEGERS)
                assert_true((double)got == want);
            else
                assert_int_equal(signbit(got) != 0, (code & c->sign) != 0);
            float once_more = sb_round_to(format, got);
            if (want != want && c->format != SB_FORMAT_e2m1)
                assert_true(once_more != once_more);
            else if (!isinf(got)) /* a value of the format is rounded to itself, sign included */
                assert_int_equal(sb_bits_f32(once_more), sb_bits_f32(got));
        }
    }
}

/* Values from the published descriptions of the formats, not from our own list. */
TEST(test_landmarks_of_decoding)
{
    static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (uint8_t code = 0; code < 8; code++) {
        assert_true(sb_e2m1_to_f32(code) == e2m1[code]);
        assert_true(sb_e2m1_to_f32(code + 8) == -e2m1[code]);
        assert_true(sb_e2m1_to_f32(code + 0x50) == e2m1[code]); /* only the low four bits count */
    }
    assert_int_equal(sb_bits_f32(sb_e2m1_to_f32(8)), 0x80000000u);
    assert_true(sb_e4m3_to_f32(0x01) == 0.001953125f && sb_e4m3_to_f32(0x08) == 0.015625f);
    assert_true(sb_e4m3_to_f32(0x20) == 0.125f && sb_e4m3_to_f32(0x38) == 1.0f);
    assert_true(sb_e4m3_to_f32(0x7d) == 416.0f && sb_e4m3_to_f32(0x7e) == 448.0f);
    assert_true(sb_e4m3_to_f32(0xfe) == -448.0f && sb_ue4m3_to_f32(0xfe) == 448.0f);
    assert_int_equal(sb_bits_f32(sb_e4m3_to_f32(0x7f)), 0x7fc00000u);
    assert_int_equal(sb_bits_f32(sb_e4m3_to_f32(0xff)), 0xffc00000u);
    assert_int_equal(sb_bits_f32(sb_ue4m3_to_f32(0xff)), 0x7fc00000u);
    assert_true(sb_e5m2_to_f32(0x01) == 0x1p-16f && sb_e5m2_to_f32(0x04) == 0x1p-14f);
    assert_true(sb_e5m2_to_f32(0x7b) == 57344.0f && sb_e5m2_to_f32(0xfc) == -INFINITY);
    assert_int_equal(sb_bits_f32(sb_e5m2_to_f32(0xfd)), 0xffa00000u);
    assert_true(sb_e8m0_to_f32(0) == 0x1p-127f && sb_e8m0_to_f32(1) == 0x1p-126f);
    assert_true(sb_e8m0_to_f32(127) == 1.0f && sb_e8m0_to_f32(254) == 0x1p127f);
    assert_int_equal(sb_bits_f32(sb_e8m0_to_f32(255)), 0x7fc00000u);
    assert_true(sb_int4_to_f32(0x08) == -8.0f && sb_int4_to_f32(0xf7) == 7.0f);
    assert_true(sb_int8_to_f32(0x80) == -128.0f && sb_int8_to_f32(0xff) == -1.0f);
    assert_true(sb_uint4_to_f32(0x3f) == 15.0f && sb_uint8_to_f32(0xff) == 255.0f);
}

/* --- encoding --------------------------------------------------------------------------------- */
static void check_encode(const codec *c, float x)
{
    uint32_t hint = 0, got = c->encode(x), expected = codec_expected(c, x, &hint);
    if (got != expected)
        fail_msg("%s of %a (%08x): got %02x, expected %02x", c->name, (double)x,
                 (unsigned)sb_bits_f32(x), (unsigned)got, (unsigned)expected);
}

/* x, its neighbours among binary32 numbers, and their negatives */
static void check_around(const codec *c, double exact)
{
    float x = (float)exact;
    if (isinf(x))
        return;
    assert_true((double)x == exact || fabs(exact) < 0x1p-126);
    for (uint32_t step = 0; step < 5; step++) {
        float near = sb_f32_from_bits(sb_bits_f32(x) + step - 2); /* steps beyond 0 give NaNs */
        check_encode(c, near);
        check_encode(c, -near);
    }
}

TEST(test_every_value_and_every_boundary)
{
    for (size_t k = 0; k < codec_count; k++) {
        const codec *c = &codec_table[k];
        for (uint32_t i = 0; i < c->list; i++) {
            double v = codec_value(c, i);
            check_around(c, v);
            check_around(c, 1.75 * v); /* where compressed-tensors rounds up */
            if (i + 1 < c->list)
                check_around(c, (v + codec_value(c, i + 1)) / 2);
        }
    }
}

TEST(test_special_and_random_arguments)
{
    static const uint32_t specials[] = {
        0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x003fffff, 0x00400000, 0x00400001,
        0x005fffff, 0x00600000, 0x00600001, 0x007fffff, 0x807fffff, 0x00800000, 0x7f7fffff,
        0xff7fffff, 0x7f5fffff, 0x7f600000, 0x7f000000, 0x7f000001, 0x7f400000, 0x7f800000,
        0xff800000, 0x7f800001, 0xff800001, 0x7fbfffff, 0x7fc00000, 0xffc00000, 0x7fffffff,
        0xffffffff, 0x43e80000, 0x43e80001, 0x43e7ffff, 0x476fffff, 0x47700000, 0x47700001};
    uint64_t key = sb_rng_key(12, "small formats");
    for (size_t k = 0; k < codec_count; k++) {
        const codec *c = &codec_table[k];
        for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++)
            check_encode(c, sb_f32_from_bits(specials[i]));
        for (uint64_t i = 0; i < 1u << 18; i++) {
            uint64_t bits = sb_rng_u64(key, i);
            check_encode(c, sb_f32_from_bits((uint32_t)bits));
            /* the range of the small formats: exponents 2^-18 to 2^17, and few fraction bits */
            uint32_t exponent = 109 + (uint32_t)(bits >> 32) % 36;
            uint32_t kept = (uint32_t)(bits >> 40) % 24;
            check_encode(
                c, sb_f32_from_bits(((uint32_t)bits & 0x807fffffu & ~0u << kept) | exponent << 23));
        }
    }
}

TEST(test_landmarks_of_encoding)
{
    static const struct {
        double x;
        int saturated, unsaturated;
    } e4m3[] = {{0x1p-10, 0x00, 0x00}, {0x1.000002p-10, 0x01, 0x01},
                {0x3p-10, 0x02, 0x02}, {1.0625, 0x38, 0x38},
                {1.1875, 0x3a, 0x3a},  {432, 0x7e, 0x7e},
                {464, 0x7e, 0x7e},     {0x1.d00002p8, 0x7e, 0x7f},
                {-1e30, 0xfe, 0xff},   {(double)INFINITY, 0x7e, 0x7f},
                {-0.0, 0x80, 0x80},    {-0x1p-149, 0x80, 0x80}};
    for (size_t i = 0; i < sizeof e4m3 / sizeof e4m3[0]; i++) {
        assert_int_equal(sb_f32_to_e4m3((float)e4m3[i].x), e4m3[i].saturated);
        assert_int_equal(sb_f32_to_e4m3_unsaturated((float)e4m3[i].x), e4m3[i].unsaturated);
    }
    static const double ties[7][2] = {{0.25, 0}, {0.75, 2}, {1.25, 2}, {1.75, 4},
                                      {2.5, 4},  {3.5, 6},  {5, 6}};
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(sb_f32_to_e2m1((float)ties[i][0]), (int)ties[i][1]);
        assert_int_equal(sb_f32_to_e2m1((float)-ties[i][0]), (int)ties[i][1] + 8);
    }
    assert_int_equal(sb_f32_to_e2m1(-NAN), 7);
    assert_int_equal(sb_f32_to_e2m1(-INFINITY), 15);
    assert_int_equal(sb_f32_to_e5m2(61439.0f), 0x7b);
    assert_int_equal(sb_f32_to_e5m2(61440.0f), 0x7b);
    assert_int_equal(sb_f32_to_e5m2_ieee(61440.0f), 0x7c);
    assert_int_equal(sb_f32_to_ue4m3(-2.0f), 0x40);
    assert_int_equal(sb_f32_to_int4(-2.5f) & 15, 14);
    assert_int_equal(sb_f32_to_int4(9.0f), 7);
    assert_int_equal(sb_f32_to_int8(-1000.0f), 0x80);
    assert_int_equal(sb_f32_to_uint8(-3.0f), 0);
}

/* Powers of two, by hand, because the four ways differ on purpose. */
TEST(test_landmarks_of_scales)
{
    static const struct {
        float x;
        int nearest, up, exact, fp4, fp8;
    } rows[] = {{1.0f, 127, 127, 127, 125, 119},
                {0x1.7ffffep0f, 127, 128, 255, 125, 119},
                {1.5f, 128, 128, 255, 125, 119},
                {3.0f, 129, 129, 255, 126, 120},
                {1.7421875f, 128, 128, 255, 125, 119},
                {1.75f, 128, 128, 255, 126, 120},
                {0.0f, 0, 0, 0, 0, 0},
                {-0.0f, 0, 0, 0, 0, 0},
                {0x1p-149f, 0, 0, 255, 0, 0},
                {0x1p-127f, 0, 0, 0, 0, 0},
                {0x1.8p-127f, 1, 1, 255, 0, 0},
                {0x1p-126f, 1, 1, 1, 0, 0},
                {0x1p127f, 254, 254, 254, 252, 246},
                {0x1.8p127f, 255, 255, 255, 252, 246},
                {0x1.cp127f, 255, 255, 255, 255, 255},
                {-1.0f, 255, 255, 255, 255, 255},
                {INFINITY, 255, 255, 255, 255, 255},
                {-INFINITY, 255, 255, 255, 255, 255},
                {NAN, 255, 255, 255, 255, 255},
                {-0x1p-149f, 255, 255, 255, 255, 255}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(sb_f32_to_e8m0(rows[i].x), rows[i].nearest);
        assert_int_equal(sb_f32_to_e8m0_up(rows[i].x), rows[i].up);
        assert_int_equal(sb_f32_to_e8m0_exact(rows[i].x), rows[i].exact);
        assert_int_equal(sb_f32_to_e8m0_ct(rows[i].x, 2), rows[i].fp4);
        assert_int_equal(sb_f32_to_e8m0_ct(rows[i].x, 8), rows[i].fp8);
    }
}

/* --- arrays ----------------------------------------------------------------------------------- */
TEST(test_arrays_of_every_format)
{
    enum { N = 301 };
    static unsigned char bytes[2 + 4 * N];
    float values[N], back[N + 1];
    for (size_t i = 0; i < N; i++)
        values[i] = 4 * sb_rng_normal(sb_rng_key(6, "small arrays"), i);
    for (int f = 0; f < SB_FORMAT_COUNT; f++) {
        sb_format format = (sb_format)f;
        for (size_t n = 0; n <= N; n += n < 9 ? 1 : 73) {
            size_t size = (n * sb_format_bits(format) + 7) / 8;
            memset(bytes, 0xaa, sizeof bytes);
            back[n] = 77;
            sb_encode(format, values, n, bytes + 1);
            sb_decode(format, bytes + 1, n, back);
            assert_int_equal(bytes[0], 0xaa);
            assert_int_equal(bytes[1 + size], 0xaa);
            assert_true(back[n] == 77);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(sb_bits_f32(back[i]), sb_bits_f32(sb_round_to(format, values[i])));
                uint32_t code = sb_f32_to_code(format, values[i]);
                for (size_t bit = 0; bit < sb_format_bits(format); bit++) {
                    size_t at = i * sb_format_bits(format) + bit; /* sorted by significance */
                    assert_int_equal(bytes[1 + at / 8] >> at % 8 & 1, code >> bit & 1);
                }
            }
        }
    }
    /* the low half comes first; with an odd number the last high half is zero */
    float three[3] = {-8, -1, 7};
    sb_encode(SB_FORMAT_int4, three, 3, bytes);
    assert_int_equal(bytes[0], 0xf8);
    assert_int_equal(bytes[1], 0x07);
}

TEST(test_names_are_those_of_the_container)
{
    unsigned named = 0;
    for (int f = 0; f < SB_FORMAT_COUNT; f++) {
        sb_format format = (sb_format)f;
        assert_int_equal(sb_format_bytes(format), sb_format_bits(format) / 8);
        assert_int_equal(sb_format_is_plain(format), f < 3);
        for (unsigned d = 0; d < SB_DTYPE_COUNT; d++)
            if (strcmp(sb_dtype_name((sb_dtype)d), sb_format_name(format)) == 0) {
                named++;
                assert_int_equal(sb_dtype_bits((sb_dtype)d), sb_format_bits(format));
            }
    }
    assert_int_equal(named, 9); /* all but ue4m3, int4, uint4 */
    assert_string_equal(sb_format_name(SB_FORMAT_ue4m3), "");
    assert_string_equal(sb_format_name(SB_FORMAT_int4), "");
    assert_string_equal(sb_format_name(SB_FORMAT_uint4), "");
    assert_string_equal(sb_format_name(SB_FORMAT_e2m1), "F4");
    assert_string_equal(sb_format_name(SB_FORMAT_e4m3), "F8_E4M3");
}

TEST_GROUP(setup, NULL)
