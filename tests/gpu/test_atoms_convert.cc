/* test_atoms_convert.cc - compares the packed conversions of gpu/atom/convert.h with ref/formats.
 * From small formats: every code. Into small formats: both neighbours and both sides of every
 * midpoint between two values, and random numbers. SAMEBIT_CASES is the number of random ones
 * (default 200000). */
#include <stdlib.h>

#include "gpu/atom/convert.h"
#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "tests/lib/suite.h"

namespace
{

/* The code of x in each of the two formats by ref/formats, except for NaN: H-11. */
uint32_t to_bf16(float x)
{
    return x == x ? sb_f32_to_bf16(x) : 0x7fff;
}
uint32_t to_e4m3(float x)
{
    return x == x ? sb_f32_to_e4m3(x) : 0x7f;
}
uint32_t to_e2m1(float x)
{
    return sb_f32_to_e2m1(x);
}
uint32_t half_of(float x)
{
    return x == x ? sb_f32_to_f16(x) : 0x7fff;
}

TEST(test_out)
{
    for (uint32_t two = 0; two < 0x10000; two++) {
        float low = sb_e4m3_to_f32((uint8_t)two), high = sb_e4m3_to_f32((uint8_t)(two >> 8));
        assert_int_equal(sb_cvt_f16x2_e4m3x2(two), half_of(low) | half_of(high) << 16);
        assert_int_equal(sb_cvt_bf16x2_e4m3x2(two), to_bf16(low) | to_bf16(high) << 16);
        float value[4];
        uint32_t out[2];
        for (unsigned i = 0; i < 4; i++)
            value[i] = sb_e2m1_to_f32((uint8_t)(two >> 4 * i & 15));
        sb_cvt_bf16x4_e2m1x4(out, two | two << 16);
        assert_int_equal(out[0], to_bf16(value[0]) | to_bf16(value[1]) << 16);
        assert_int_equal(out[1], to_bf16(value[2]) | to_bf16(value[3]) << 16);
        assert_int_equal(sb_cvt_bf16x2_e2m1x2(two & 0xff), out[0]);
        uint32_t all[4];
        sb_cvt_bf16x8_e2m1x8(all, two | ~two << 16);
        assert_memory_equal(all, out, sizeof out);
        sb_cvt_bf16x4_e2m1x4(out, ~two);
        assert_memory_equal(all + 2, out, sizeof out);
        assert_int_equal(sb_cvt_f16x2_e2m1x2(two & 0xff), half_of(value[0]) | half_of(value[1])
                                                                                  << 16);
    }
    /* all of these are exact: no rounding above */
    for (uint32_t code = 0; code < 0x7f; code++) {
        float x = sb_e4m3_to_f32((uint8_t)code);
        assert_true(sb_f16_to_f32(sb_f32_to_f16(x)) == x && sb_bf16_to_f32(sb_f32_to_bf16(x)) == x);
    }
}

void into(float x, float y)
{
    assert_int_equal(sb_cvt_bf16x2_f32(x, y), to_bf16(x) | to_bf16(y) << 16);
    assert_int_equal(sb_cvt_e4m3x2_f32(x, y), to_e4m3(x) | to_e4m3(y) << 8);
    assert_int_equal(sb_cvt_e2m1x2_f32(x, y), to_e2m1(x) | to_e2m1(y) << 4);
}

/* Checks x and its neighbours, of both signs. */
void around(uint32_t bits)
{
    for (uint32_t near = bits ? bits - 1 : 0; near <= bits + 1; near++) {
        into(sb_f32_from_bits(near), -sb_f32_from_bits(near));
        into(-sb_f32_from_bits(near), 1.0f);
    }
}

TEST(test_middles)
{
    for (uint32_t code = 0; code < 0x7f; code++) {
        float x = sb_e4m3_to_f32((uint8_t)code), next = sb_e4m3_to_f32((uint8_t)(code + 1));
        around(sb_bits_f32(x));
        around(sb_bits_f32(code == 0x7e ? 464.0f : (x + next) / 2));
    }
    for (uint8_t code = 0; code < 8; code++) {
        float x = sb_e2m1_to_f32(code),
              next = code == 7 ? 8.0f : sb_e2m1_to_f32((uint8_t)(code + 1));
        around(sb_bits_f32(x));
        around(sb_bits_f32((x + next) / 2));
    }
    for (uint32_t code = 0; code < 0x8000; code++)
        for (uint32_t low = 0x7fff; low <= 0x8001; low++)
            into(sb_f32_from_bits(code << 16 | low), sb_f32_from_bits(code << 16 | 0x80000000u));
}

TEST(test_random)
{
    const char *text = getenv("SAMEBIT_CASES");
    unsigned long most = text ? strtoul(text, NULL, 10) : 0;
    for (uint64_t i = 0; i < (most ? most : 200000); i++) {
        uint64_t bits = sb_rng_u64(46, i);
        into(sb_f32_from_bits((uint32_t)bits), sb_rng_normal(46, i));
    }
}

} // namespace
