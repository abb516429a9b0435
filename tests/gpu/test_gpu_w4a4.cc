/* test_gpu_w4a4.cc - linear layers of E2M1 weights with E2M1 inputs, in the emulator. */
#include "ref/formats/format.h"
#include "tests/gpu/lowbit_checks.h"
#include "tests/lib/suite.h"

namespace
{

const lowbit_kind kinds[] = {
    {"K 320", SB_CONTAINER_nvfp4_ct, 40, 320, 1, 16, {SB_DIVISOR, 3100.0f}, {SB_DIVISOR, 620.0f}},
    {"K 96", SB_CONTAINER_nvfp4_ct, 17, 96, 1, 16, {SB_DIVISOR, 7000.0f}, {SB_DIVISOR, 91.0f}},
    {"multipliers",
     SB_CONTAINER_nvfp4_modelopt,
     24,
     256,
     1,
     16,
     {SB_MULTIPLIER, 0.0002f},
     {SB_MULTIPLIER, 0.0017f}},
    {"ten units",
     SB_CONTAINER_nvfp4_ct,
     16,
     1280,
     1,
     16,
     {SB_DIVISOR, 3100.0f},
     {SB_DIVISOR, 500.0f}},
    {"K 16", SB_CONTAINER_nvfp4_ct, 9, 16, 1, 16, {SB_DIVISOR, 3100.0f}, {SB_DIVISOR, 500.0f}},
    {"25 units",
     SB_CONTAINER_nvfp4_ct,
     16,
     3200,
     1,
     16,
     {SB_DIVISOR, 3100.0f},
     {SB_DIVISOR, 500.0f}},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

TEST(test_chain)
{
    check_chain(kinds, KINDS);
}

TEST(test_bound)
{
    check_bound(kinds, KINDS);
}

TEST(test_single)
{
    check_single(&kinds[1]);
    check_single(&kinds[4]);
}

/* T-52: "a group with a scale of 0 as nothing", while a group of zeros counts with its scales:
 * beside the largest such scale, other groups lose nearly all of their bits. With a scale of 0 the
 * exact sums are the same, but their bound is small, and the outputs with the large scale are
 * outside. */
TEST(test_empty_group)
{
    static const lowbit_kind kind = {
        "K 64", SB_CONTAINER_nvfp4_ct, 16, 64, 1, 16, {SB_DIVISOR, 1.0f}, {SB_DIVISOR, 512.0f}};
    test_layer l = make_layer(&kind, 1, 71, false, false);
    check_room r = open_room(&l, 72);
    float *with = r.other;
    for (uint32_t n = 0; n < 16; n++) {
        memset(l.data + n * 32, 0, 8);
        memset(l.scales + 4 * n, 0x01, 4);
        l.scales[4 * n] = 0x7e;
    }
    for (uint32_t i = 0; i < 2 * 64; i++)
        r.in[i] = sb_f32_to_bf16(i % 64 < 16 ? 5.25f : 0x1p-16f * sb_rng_normal(3, i));
    repack(&l);
    assert_true(multiply(&l, r.in, 2, 1, 0, 1, with));
    assert_true(as_chain(&l, r.in, 2, 1, with));
    assert_true(worst_of_bound(&l, r.in, 2, with) <= SB_BOUND_SLACK);
    for (uint32_t n = 0; n < 16; n++)
        l.scales[4 * n] = 0;
    repack(&l);
    assert_true(multiply(&l, r.in, 2, 1, 0, 1, r.out));
    assert_true(worst_of_bound(&l, r.in, 2, r.out) <= SB_BOUND_SLACK);
    assert_true(worst_of_bound(&l, r.in, 2, with) > 2.0);
    close_room(&r);
    drop_layer(&l);
}

TEST(test_places)
{
    check_places(&kinds[0]);
}

TEST(test_faults)
{
    for (const char *fault : {"tile_tail", "lowbit_lanes", "tile_barrier", "w4a4_scales"})
        check_fault(&kinds[0], fault);
    check_fault(&kinds[5], "tile_ring");
}

TEST(test_poison)
{
    for (const lowbit_kind &kind : kinds)
        check_poison(&kind);
}

/* "A block scale of an FP4 or FP8 format with its sign bit set has no value". The unit itself
 * ignores the sign. */
TEST(test_signed_scale)
{
    test_layer l = make_layer(&kinds[0], 1, 51, false, false);
    check_room r = open_room(&l, 52);
    l.scales[5 * 20 + 7] |= 0x80;
    repack(&l);
    assert_true(multiply(&l, r.in, 2, 1, 0, 0, r.out));
    for (uint32_t i = 0; i < 80; i++)
        assert_int_equal(isnan(r.out[i]) != 0, i % 40 == 5);
    assert_true(as_chain(&l, r.in, 2, 0, r.out));
    close_room(&r);
    drop_layer(&l);
}

/* Y-54: "which have been multiplied with each other before, if there are two", if the product is a
 * number. */
TEST(test_factors)
{
    const struct {
        sb_factor weight, input;
        bool good;
        float x, y;
    } cases[] = {{{SB_DIVISOR, 3.0f}, {SB_DIVISOR, 5.0f}, true, 1.0f, 15.0f},
                 {{SB_MULTIPLIER, 3.0f}, {SB_DIVISOR, 5.0f}, true, 3.0f, 5.0f},
                 {{SB_MULTIPLIER, 0x1p-60f}, {SB_MULTIPLIER, 0x1p-66f}, true, 0x1p-126f, 1.0f},
                 {{SB_MULTIPLIER, 0x1p-60f}, {SB_MULTIPLIER, 0x1p-67f}, false, 0x1p-127f, 1.0f},
                 {{SB_DIVISOR, 0x1p70f}, {SB_DIVISOR, 0x1p60f}, false, 1.0f, INFINITY}};
    for (const auto &c : cases) {
        sb_matrix m = sb_matrix();
        float x = 0.0f, y = 0.0f;
        m.quant.factor = c.weight;
        m.quant.input = c.input;
        assert_true(sb_lowbit_factor(&m, SB_SCHEME_nvfp4, &x, &y) == c.good);
        assert_true(same_or_nan(x, c.x) && same_or_nan(y, c.y));
    }
}

} // namespace
