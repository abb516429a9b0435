/* test_int_dot.c - integer dot products of codes equal the sums of exact.h, in every kernel. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/base/rng.h"
#include "ref/formats/small_float.h"
#include "ref/fast/dot/dot.h"
#include "ref/fast/dot/int_dot.h"
#include "ref/fast/dot/row.h"

enum { MOST = 2064, ROWS = 8, INPUTS = 9 }; /* a kernel takes four rows; seven are used */

static const char *const isas[] = {"scalar", "avx2", "avx512", "avx512vnni"};

static uint64_t key, drawn;

static uint32_t draw(uint32_t n)
{
    return sb_rng_below(key, drawn++, n);
}

/* The kind of scales. */
typedef enum family {
    ORDINARY,  /* any scale with a value */
    LARGEST,   /* codes of 6 and scales of 448 */
    SUBNORMAL, /* scales below 2^-6 */
    CANCELLED, /* the second half is the first with the other sign */
    SPOILED,   /* some scales are NaN or otherwise without a value */
    FAMILIES
} family;

static struct {
    unsigned char codes[ROWS * MOST / 2], scales[ROWS * MOST / 16];
    sb_matrix w;
    unsigned char in[INPUTS * MOST];
    float in_scales[INPUTS * MOST / 16];
    double values[INPUTS * MOST];
    sb_codes_input x;
    sb_scalar factor;
} made;

static unsigned char draw_scale(family f, int of_weight)
{
    if (f == SPOILED && draw(200) == 0)
        return (unsigned char)(of_weight && draw(2) ? 0x80 + draw(128) : 0x7f);
    if (f == SUBNORMAL)
        return (unsigned char)draw(8);
    return f == LARGEST ? 0x7e : (unsigned char)draw(0x7f);
}

static float draw_factor(void)
{
    if (draw(3) == 0)
        return (float)(1u << draw(20));
    return (float)(1 + draw(1u << 20)) * 0x1p-24f;
}

static void draw_input(family f, uint32_t cols)
{
    for (size_t i = 0; i < (size_t)INPUTS * cols / 16; i++)
        made.in_scales[i] = sb_e4m3_to_f32(draw_scale(f, 0));
    for (size_t i = 0; i < (size_t)INPUTS * cols; i++) {
        made.in[i] = (unsigned char)(f == LARGEST ? 7 : draw(16));
        if (f == CANCELLED && i % cols >= cols / 2)
            made.in[i] = (unsigned char)(made.in[i - cols / 2] ^ (draw(400) ? 8u : 0u));
    }
    for (size_t i = 0; f == CANCELLED && i < (size_t)INPUTS * cols / 16; i++)
        made.in_scales[i] = 1;
    for (size_t i = 0; i < (size_t)INPUTS * cols; i++)
        made.values[i] = (double)sb_e2m1_to_f32(made.in[i]) * (double)made.in_scales[i / 16];
    made.x = (sb_codes_input){made.in, made.in_scales, 16, SB_FORMAT_e2m1, made.values};
}

static void draw_weight(family f, uint32_t cols)
{
    const size_t half = cols / 4;
    for (size_t i = 0; i < (size_t)ROWS * cols / 2; i++) {
        made.codes[i] = f == LARGEST ? 0x77 : (unsigned char)draw(256);
        if (f == CANCELLED && i % (cols / 2) >= half)
            made.codes[i] = made.codes[i - half];
    }
    for (size_t i = 0; i < (size_t)ROWS * cols / 16; i++)
        made.scales[i] = f == CANCELLED ? 0x38 : draw_scale(f, 1);
    made.w = (sb_matrix){.data = made.codes,
                         .format = SB_FORMAT_e2m1,
                         .rows = ROWS - 1,
                         .cols = cols,
                         .first_row = 1,
                         .quant = {.scales = made.scales,
                                   .scale_format = SB_FORMAT_e4m3,
                                   .block_rows = 1,
                                   .block_cols = 16,
                                   .scale_row = cols / 16,
                                   .scale_col = 1,
                                   .groups = cols / 16,
                                   .stored_rows = ROWS,
                                   .container = SB_CONTAINER_nvfp4_ct}};
    made.factor = (sb_scalar){{draw_factor(), draw_factor()}, {draw_factor(), draw_factor()}};
}

static void compare(family f, uint32_t cols, size_t count)
{
    float out[INPUTS * ROWS], expected[INPUTS * ROWS];
    assert_int_equal(sb_dot_select("exact", NULL), SB_OK);
    assert_false(sb_int_dot_read(&made.w, &made.x));
    assert_int_equal(sb_dot_matrix(&made.w, made.values, count, &made.factor, expected), SB_OK);
    for (size_t isa = 0; isa < sizeof isas / sizeof *isas; isa++) {
        if (sb_dot_select(isas[isa], NULL) != SB_OK)
            continue;
        assert_true(sb_int_dot_read(&made.w, &made.x));
        assert_int_equal(sb_int_dot_matrix(&made.w, &made.x, count, &made.factor, out), SB_OK);
        for (size_t i = 0; i < count * made.w.rows; i++)
            if (sb_bits_f32(out[i]) != sb_bits_f32(expected[i]))
                fail_msg("%s: family %d, %u columns, output %zu of %zu inputs: %a, expected %a",
                         isas[isa], (int)f, (unsigned)cols, i, count, (double)out[i],
                         (double)expected[i]);
    }
}

TEST(test_layers)
{
    static const uint32_t cols[] = {16, 32, 112, 128, 144, 256, 272, 528, 768, MOST};
    key = sb_rng_key(42, "ints");
    for (int round = 0; round < 8; round++)
        for (int f = 0; f < FAMILIES; f++)
            for (size_t c = 0; c < sizeof cols / sizeof *cols; c++) {
                if (f == CANCELLED && cols[c] % 32 != 0)
                    continue;
                draw_weight((family)f, cols[c]);
                draw_input((family)f, cols[c]);
                compare((family)f, cols[c], 1 + draw(INPUTS));
            }
    assert_int_equal(sb_dot_select("auto", NULL), SB_OK);
}

/* Layers and inputs that other kernels compute: sb_int_dot_read refuses them. */
TEST(test_not_read)
{
    key = sb_rng_key(42, "others");
    draw_weight(ORDINARY, 128);
    draw_input(ORDINARY, 128);
    assert_int_equal(sb_dot_select("auto", NULL), SB_OK);
    assert_true(sb_int_dot_read(&made.w, &made.x));
    sb_matrix w = made.w;
    sb_codes_input x = made.x;
    w.quant.block_cols = 32;
    assert_false(sb_int_dot_read(&w, &x));
    w = made.w;
    w.quant.scale_format = SB_FORMAT_e8m0;
    assert_false(sb_int_dot_read(&w, &x));
    w = made.w;
    w.format = SB_FORMAT_e4m3;
    assert_false(sb_int_dot_read(&w, &x));
    x.group = 32;
    assert_false(sb_int_dot_read(&made.w, &x));
    x = made.x;
    x.codes = NULL;
    assert_false(sb_int_dot_read(&made.w, &x));
}

static float exactly(int64_t sum, const sb_scalar *factor)
{
    sb_exact acc;
    sb_exact_clear(&acc);
    for (int part = 0; part < 64; part += 16) { /* by digits, without any function of int_dot.c */
        uint64_t size = sum < 0 ? 0 - (uint64_t)sum : (uint64_t)sum;
        double digit = (double)(size >> part & 0xffff) * (double)((uint64_t)1 << part);
        sb_exact_add_wide_product(&acc, sum < 0 ? -digit : digit, 0x1p-20);
    }
    return sb_exact_round_scaled(&acc, factor);
}

/* Ties, numbers next to ties, long sums; factors that are powers of two, and others. */
TEST(test_rounding)
{
    unsigned long ties = 0;
    key = sb_rng_key(42, "rounding");
    for (int i = 0; i < 40000; i++) {
        uint64_t head = (uint64_t)1 << 23 | draw(1u << 23), tail = 1;
        unsigned shift = 1 + draw(38);
        uint64_t sum = head << shift | tail << (shift - 1);
        sum += draw(2) ? draw(3) - 1 : 0;
        if (draw(8) == 0)
            sum = ((uint64_t)draw(1u << 30) << 32 | draw(~0u)) >> draw(40);
        sb_scalar factor = SB_SCALAR_ONE;
        if (draw(2))
            factor = (sb_scalar){{draw_factor(), draw(2) ? -draw_factor() : draw_factor()},
                                 {draw_factor(), draw_factor()}};
        if (draw(64) == 0)
            factor.mul[0] = draw(2) ? 0x1p-126f : 0;
        int64_t signed_sum = draw(2) ? -(int64_t)sum : (int64_t)sum;
        float found = sb_int_dot_round(signed_sum, &factor), want = exactly(signed_sum, &factor);
        if (sb_bits_f32(found) != sb_bits_f32(want))
            fail_msg("%lld * %a: %a, expected %a", (long long)signed_sum, (double)factor.mul[0],
                     (double)found, (double)want);
        ties += (float)(double)signed_sum != (double)signed_sum;
    }
    assert_true(ties > 20000);
}

/* Threads share the rows without a change of bits; a failed allocation is SB_ERR_MEMORY. */
TEST(test_threads_and_memory)
{
    float one[INPUTS * ROWS], many[INPUTS * ROWS];
    const int threads = (int)sb_threads();
    key = sb_rng_key(42, "threads");
    assert_int_equal(sb_dot_select("auto", NULL), SB_OK);
    draw_weight(ORDINARY, MOST);
    draw_input(ORDINARY, MOST);
    sb_threads_set(1);
    assert_int_equal(sb_int_dot_matrix(&made.w, &made.x, INPUTS, &made.factor, one), SB_OK);
    sb_threads_set(3);
    assert_int_equal(sb_int_dot_matrix(&made.w, &made.x, INPUTS, &made.factor, many), SB_OK);
    assert_memory_equal(one, many, sizeof(float) * INPUTS * made.w.rows);
    sb_threads_set((size_t)threads);
    for (unsigned long n = 1; n <= 3; n++) {
        sb_alloc_fail_at(n);
        assert_int_equal(sb_int_dot_matrix(&made.w, &made.x, 1, &made.factor, one), SB_ERR_MEMORY);
        sb_alloc_fail_at(0);
    }
}
