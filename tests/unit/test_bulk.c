/* test_bulk.c - the loops over many weights give what the functions of the formats give one by one.
 */
#include "tests/lib/cmocka.h"

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/e2m1_forms.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "tools/make/bulk.h"

enum { COUNT = 4096, ROUNDS = 64 };

/* Finite numbers: every BF16 code in its turn, and the binary32 numbers beside it. */
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

static void same(float got, float expected, float of)
{
    if (sb_bits_f32(got) != sb_bits_f32(expected))
        fail_msg("%a: %a, expected %a", (double)of, (double)got, (double)expected);
}

static void test_bf16(void **state)
{
    float x[COUNT], y[COUNT];
    unsigned char codes[2 * COUNT], expected[2 * COUNT];
    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        size_t n = COUNT - round; /* every length */
        draw(round, x);
        draw(round, y);
        sb_bulk_bf16(y, n);
        sb_bulk_bf16_codes(x, n, codes);
        sb_encode(SB_FORMAT_bf16, x, n, expected);
        assert_memory_equal(codes, expected, 2 * n);
        for (size_t i = 0; i < n; i++)
            same(y[i], sb_round_to(SB_FORMAT_bf16, x[i]), x[i]);
        for (size_t i = n; i < COUNT; i++)
            same(y[i], x[i], x[i]);
    }
}

static void test_e4m3(void **state)
{
    float x[COUNT];
    unsigned char codes[COUNT];
    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        draw(round, x);
        sb_bulk_e4m3(x, COUNT, codes);
        for (size_t i = 0; i < COUNT; i++)
            if (codes[i] != sb_f32_to_e4m3(x[i]))
                fail_msg("%a: %02x, expected %02x", (double)x[i], codes[i], sb_f32_to_e4m3(x[i]));
    }
}

static void check_fp4(const float *x, const float *steps, const unsigned char *codes)
{
    for (size_t i = 0; i < COUNT; i++) {
        float q = x[i] / steps[i / SB_BULK_FP4_GROUP];
        unsigned pair = codes[i / 2], code = pair >> (i % 2 * 4) & 15u;
        if (code != sb_e2m1_compressed_tensors(q) || code != sb_e2m1_modelopt(q))
            fail_msg("%a: %u, expected %u", (double)q, code, sb_e2m1_compressed_tensors(q));
    }
}

static void test_e2m1(void **state)
{
    float x[COUNT], steps[COUNT / SB_BULK_FP4_GROUP], largest[COUNT / SB_BULK_FP4_GROUP];
    unsigned char codes[COUNT / 2];
    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        draw(round, x);
        for (size_t g = 0; g < COUNT / SB_BULK_FP4_GROUP; g++)
            steps[g] = round % 2 ? 1.0f : 0.5f + sb_rng_uniform(round, g);
        sb_bulk_e2m1(x, steps, COUNT / SB_BULK_FP4_GROUP, codes);
        check_fp4(x, steps, codes);
        sb_bulk_largest(x, COUNT / SB_BULK_FP4_GROUP, largest);
        for (size_t i = 0; i < COUNT; i++)
            assert_true(largest[i / SB_BULK_FP4_GROUP] >= x[i] &&
                        largest[i / SB_BULK_FP4_GROUP] >= -x[i]);
    }
}

static void test_arithmetic(void **state)
{
    float x[COUNT], y[COUNT], z[COUNT];
    (void)state;
    for (uint32_t pass = 0; pass < 2 * ROUNDS; pass++) {
        uint32_t round = pass / 2;
        float by = 0.001f + sb_rng_uniform(7, round), largest;
        size_t n = COUNT - round;
        draw(round, x);
        draw(round, y);
        sb_bulk_scale(y, n, 0.25f, by);
        sb_bulk_bf16_quotients(x, n, by, pass % 2 ? 0.0f : -0.0f, z);
        for (size_t i = 0; i < n; i++) {
            float product = by * x[i], quotient = sb_round_to(SB_FORMAT_bf16, x[i] / by);
            same(y[i], 0.25f + product, x[i]);
            same(z[i], pass % 2 && quotient == 0 ? 0.0f : quotient, x[i]);
        }
        sb_bulk_largest_of(x, n, &largest);
        int found = 0;
        for (size_t i = 0; i < n; i++) {
            assert_true(largest >= x[i] && largest >= -x[i]);
            found |= largest == x[i] || largest == -x[i];
        }
        assert_true(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_e4m3),
        cmocka_unit_test(test_e2m1),
        cmocka_unit_test(test_arithmetic),
    };
    return cmocka_run_group_tests_name("loops over weights", tests, NULL, NULL);
}
