/* test_bulk.c - the loops over many weights give the same results as the functions of the formats
 * for one weight.
 *
 * Every comparison is also run with one bit spoiled, and must find it. */
#include "tests/lib/suite.h"

#include <stdio.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/e2m1_forms.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "tools/make/bulk.h"

enum { COUNT = 4096, ROUNDS = 64 };

/* Finite numbers: every BF16 code in turn, and binary32 numbers next to it. */
static void draw(uint32_t round, float *out)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t code = round * (COUNT / 4) + i / 4, bits = code << 16;
        bits = i % 4 == 0 ? bits : i % 4 == 1 ? bits + 1 : i % 4 == 2 ? bits - 1 : bits + 0x8000u;
        if ((bits & 0x7f800000u) == 0x7f800000u)
            bits &= 0x80ffffffu;
        out[i] = sb_f32_from_bits(bits);
    }
}

/* The number of differences, and a description of the first. */
static size_t wrong;
static char first[128];

static void same(float got, float expected, float of)
{
    if (sb_bits_f32(got) != sb_bits_f32(expected) && wrong++ == 0)
        snprintf(first, sizeof first, "%a: %a, expected %a", (double)of, (double)got,
                 (double)expected);
}

static void same_code(unsigned got, unsigned expected, float of)
{
    if (got != expected && wrong++ == 0)
        snprintf(first, sizeof first, "%a: %02x, expected %02x", (double)of, got, expected);
}

/* Flips the lowest bit of a value if `plant`. */
static void spoil(int plant, float *value)
{
    *value = sb_f32_from_bits(sb_bits_f32(*value) ^ (plant ? 1u : 0u));
}

/* Asserts that `compare` finds nothing in any round, and exactly `found` values if it spoils
 * some. */
static void check(void (*compare)(uint32_t round, int plant), uint32_t rounds, size_t found)
{
    for (uint32_t round = 0; round < rounds; round++) {
        wrong = 0;
        compare(round, 0);
        if (wrong)
            fail_msg("%zu values are wrong, first %s", wrong, first);
    }
    wrong = 0;
    compare(0, 1);
    if (wrong != found)
        fail_msg("a value was spoiled, and %zu are found wrong, not %zu", wrong, found);
}

static void compare_bf16(uint32_t round, int plant)
{
    static float x[COUNT], y[COUNT];
    static unsigned char codes[2 * COUNT], expected[2 * COUNT];
    const size_t n = COUNT - round; /* another length in each round */
    draw(round, x);
    draw(round, y);
    sb_bulk_bf16(y, n);
    sb_bulk_bf16_codes(x, n, codes);
    sb_encode(SB_FORMAT_bf16, x, n, expected);
    codes[n] ^= plant ? 1 : 0;
    spoil(plant, &y[COUNT - 1 - round]);
    for (size_t i = 0; i < 2 * n; i++)
        same_code(codes[i], expected[i], x[i / 2]);
    for (size_t i = 0; i < COUNT; i++)
        same(y[i], i < n ? sb_round_to(SB_FORMAT_bf16, x[i]) : x[i], x[i]);
}

TEST(test_bf16)
{
    check(compare_bf16, ROUNDS, 2);
}

static void compare_e4m3(uint32_t round, int plant)
{
    static float x[COUNT];
    static unsigned char codes[COUNT];
    draw(round, x);
    sb_bulk_e4m3(x, COUNT, codes);
    codes[77] ^= plant ? 1 : 0;
    for (size_t i = 0; i < COUNT; i++)
        same_code(codes[i], sb_f32_to_e4m3(x[i]), x[i]);
}

TEST(test_e4m3)
{
    check(compare_e4m3, ROUNDS, 1);
}

static void compare_e2m1(uint32_t round, int plant)
{
    static float x[COUNT], steps[COUNT / SB_BULK_FP4_GROUP], largest[COUNT / SB_BULK_FP4_GROUP];
    static unsigned char codes[COUNT / 2];
    draw(round, x);
    for (size_t g = 0; g < COUNT / SB_BULK_FP4_GROUP; g++)
        steps[g] = round % 2 ? 1.0f : 0.5f + sb_rng_uniform(round, g);
    sb_bulk_e2m1(x, steps, COUNT / SB_BULK_FP4_GROUP, codes);
    sb_bulk_largest(x, COUNT / SB_BULK_FP4_GROUP, largest);
    codes[5] ^= plant ? 0x20 : 0; /* the code of element 11 */
    spoil(plant, &largest[3]);
    for (size_t i = 0; i < COUNT; i++) {
        const float q = x[i] / steps[i / SB_BULK_FP4_GROUP];
        const unsigned code = (unsigned)codes[i / 2] >> (i % 2 * 4) & 15u;
        same_code(code, sb_e2m1_compressed_tensors(q), q);
        assert_int_equal(sb_e2m1_compressed_tensors(q), sb_e2m1_modelopt(q));
    }
    for (size_t i = 0; i < COUNT; i += SB_BULK_FP4_GROUP) {
        float most = 0;
        for (size_t k = i; k < i + SB_BULK_FP4_GROUP; k++)
            most = x[k] > most ? x[k] : -x[k] > most ? -x[k] : most;
        same(largest[i / SB_BULK_FP4_GROUP], most, x[i]);
    }
}

TEST(test_e2m1)
{
    check(compare_e2m1, ROUNDS, 2);
}

static void compare_arithmetic(uint32_t pass, int plant)
{
    static float x[COUNT], y[COUNT], z[COUNT];
    const uint32_t round = pass / 2;
    const float by = 0.001f + sb_rng_uniform(7, round);
    const size_t n = COUNT - round;
    float largest, most = 0;
    draw(round, x);
    draw(round, y);
    sb_bulk_scale(y, n, 0.25f, by);
    sb_bulk_bf16_quotients(x, n, by, pass % 2 ? 0.0f : -0.0f, z);
    sb_bulk_largest_of(x, n, &largest);
    spoil(plant, &y[0]);
    spoil(plant, &z[n - 1]);
    spoil(plant, &largest);
    for (size_t i = 0; i < n; i++) {
        float product = by * x[i], quotient = sb_round_to(SB_FORMAT_bf16, x[i] / by);
        same(y[i], 0.25f + product, x[i]);
        same(z[i], pass % 2 && quotient == 0 ? 0.0f : quotient, x[i]);
        most = x[i] > most ? x[i] : -x[i] > most ? -x[i] : most;
    }
    same(largest, most, x[0]);
}

TEST(test_arithmetic)
{
    check(compare_arithmetic, 2 * ROUNDS, 3);
}
