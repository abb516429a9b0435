/* test_gpu_linear.cc - linear layers on the bf16 atom: the bits of a plain program for every width
 * and position of a row, bounds, planted faults. */
#include "tests/lib/suite.h"

#include <initializer_list>

#include "tests/gpu/linear_bench.h"
#include "tests/gpu/linear_model.h"
#include "tests/gpu/schedules.h"
#include "tests/lib/check_all.h"
#include "tools/judge/bound/bound.h"

enum { MOST = 65 };

static void is_ok(const bench *b, sb_status status)
{
    if (status != SB_OK)
        fail_msg("%s", b->err.text);
}

/* --- the bits --------------------------------------------------------------------------------- */
/* Every container with odd shapes, in binary32 and rounded: the bits of the plain program. */
static void compare(layer_kind kind, uint32_t n, uint32_t k, uint32_t rows, uint32_t wide)
{
    bench b;
    bench_open(&b, kind, n, k, rows);
    float *out = static_cast<float *>(room_for(static_cast<size_t>(rows) * n, 4));
    float *expected = static_cast<float *>(room_for(static_cast<size_t>(rows) * n, 4));
    is_ok(&b, bench_run(&b, 0, rows, wide, rows, out));
    assert_true(linear_model(&b.of.matrix, b.in, rows, wide != 0, expected));
    for (size_t i = 0; i < static_cast<size_t>(rows) * n; i++)
        if (!same_or_nan(out[i], expected[i]))
            fail_msg("%s, %u x %u, %u rows: output %zu of row %zu is %a, not %a", layer_name(kind),
                     n, k, rows, i % n, i / n, static_cast<double>(out[i]),
                     static_cast<double>(expected[i]));
    free(out);
    free(expected);
    bench_close(&b);
}

TEST(test_bits)
{
    static const uint32_t shapes[][2] = {{24, 96}, {40, 320}, {8, 576}, {16, 1040}, {8, 2880}};
    static const uint32_t rows[] = {1, 3, 8, 9, 16, 17};
    for (uint32_t kind = 0; kind < LAYER_COUNT; kind++)
        for (uint32_t i = 0; i < 5; i++)
            compare(static_cast<layer_kind>(kind), shapes[i][0], shapes[i][1], rows[(kind + i) % 6],
                    (kind + i) % 2);
}

/* NaN and infinities in weights and inputs affect only their rows, and zeros do not hide them. */
TEST(test_hostile)
{
    enum { N = 24, K = 96, ROWS = 4 };
    static float out[ROWS * N], expected[ROWS * N];
    bench b;
    bench_open(&b, LAYER_nvfp4_ct, N, K, ROWS);
    b.of.scales[4 * (K / 16) + 2] = 0x7f; /* in row 4 */
    assert_int_equal(sb_pack_linear(&b.of.matrix, 0, 2 * b.shape.tile_bytes, b.tiles), SB_OK);
    b.in[1 * K + 50] = __uint_as_float(0x7f800000);
    b.in[2 * K + 95] = __uint_as_float(0x7fc00000);
    for (uint32_t i = 0; i < K; i++)
        b.in[3 * K + i] = i % 2 ? -0.0f : 0.0f;
    is_ok(&b, bench_run(&b, 0, ROWS, 1, 0, out));
    assert_true(linear_model(&b.of.matrix, b.in, ROWS, 1, expected));
    for (uint32_t i = 0; i < ROWS * N; i++) {
        const bool no_number = i % N == 4 || i / N == 2;
        assert_true(same_or_nan(out[i], expected[i]));
        assert_true((out[i] != out[i]) == (no_number || (i / N == 1 && out[i] != out[i])));
    }
    bench_close(&b);
}

/* --- independence of rows --------------------------------------------------------------------- */
/* Y-46: "no bit of it depends on what else is in the call" */
TEST(test_widths)
{
    static const layer_kind kinds[] = {LAYER_bf16, LAYER_nvfp4_ct, LAYER_fp8_block, LAYER_ct};
    static const uint32_t widths[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 64};
    enum { N = 40, K = 320 };
    static float all[MOST * N], some[MOST * N];
    for (const layer_kind kind : kinds) {
        bench b;
        bench_open(&b, kind, N, K, MOST);
        is_ok(&b, bench_run(&b, 0, MOST, 0, 0, all));
        for (const uint32_t width : widths)
            for (uint32_t first = 0; first + width <= MOST; first += check_all()  ? 1
                                                                     : width < 10 ? 11 - width
                                                                                  : 24) {
                is_ok(&b, bench_run(&b, first, width, 0, first, some));
                assert_memory_equal(some, all + first * N, width * N * sizeof(float));
            }
        bench_close(&b);
    }
}

TEST(test_schedules)
{
    static float first[17 * 40], other[17 * 40];
    bench b;
    bench_open(&b, LAYER_awq, 40, 320, 17);
    is_ok(&b, bench_run(&b, 0, 17, 1, 0, first));
    for (uint64_t seed = 1; seed <= SCHEDULES; seed++) {
        is_ok(&b, bench_run(&b, 0, 17, 1, seed, other));
        assert_memory_equal(first, other, sizeof first);
    }
    bench_close(&b);
}

/* --- the bound -------------------------------------------------------------------------------- */
/* The number of outputs outside the values that an evaluation on the unit may give. */
static uint32_t outside(const bench *b, const float *out, uint32_t rows, sb_linear_kind kind)
{
    const uint32_t n = b->shape.rows;
    sb_knobs knobs;
    assert_int_equal(sb_knobs_profile(&knobs, "sm121", nullptr), SB_OK);
    sb_ball *balls = static_cast<sb_ball *>(room_for(static_cast<size_t>(rows) * n, sizeof *balls));
    const sb_linear_args args = {&b->of.matrix, kind, b->in, rows, nullptr};
    assert_int_equal(sb_bound_linear(sb_arithmetic_of("sm120_f16"), &knobs, &args, balls, nullptr),
                     SB_OK);
    uint32_t beyond = 0;
    for (size_t i = 0; i < static_cast<size_t>(rows) * n; i++) {
        const double away = static_cast<double>(out[i]) - balls[i].mid;
        beyond += !((away < 0 ? -away : away) <= SB_BOUND_SLACK * balls[i].rad);
    }
    free(balls);
    return beyond;
}

TEST(test_bound)
{
    static float out[5 * 40];
    for (uint32_t kind = 0; kind < LAYER_COUNT; kind++)
        for (uint32_t wide = 0; wide < 2; wide++) {
            const sb_linear_kind as = wide ? SB_LINEAR_head : SB_LINEAR_layer;
            bench b;
            bench_open(&b, static_cast<layer_kind>(kind), 40, 320, 5);
            is_ok(&b, bench_run(&b, 0, 5, wide, 1, out));
            if (outside(&b, out, 5, as))
                fail_msg("%s: %u outputs of 200 are beyond their bounds",
                         layer_name(static_cast<layer_kind>(kind)), outside(&b, out, 5, as));
            out[77] += (out[77] < 0 ? -out[77] : out[77]) / 64 + 0.01f; /* such an error is
                                                                         * detected */
            assert_int_equal(outside(&b, out, 5, as), 1);
            bench_close(&b);
        }
}

/* --- faults ----------------------------------------------------------------------------------- */
/* Whether the launch fails, or the outputs differ from those of the right kernel. */
static bool caught(layer_kind kind, const char *what, uint32_t rows, uint32_t k = 320)
{
    static float right[17 * 40], wrong[17 * 40];
    bench b;
    bench_open(&b, kind, 40, k, rows);
    is_ok(&b, bench_run(&b, 0, rows, 1, 0, right));
    bool seen = false;
    plant(what);
    for (uint64_t seed = 0; seed < 3 && !seen; seed++)
        seen = bench_run(&b, 0, rows, 1, seed, wrong) != SB_OK ||
               memcmp(right, wrong, rows * 40 * sizeof(float)) != 0;
    plant("");
    bench_close(&b);
    return seen;
}

TEST(test_planted)
{
    assert_false(caught(LAYER_nvfp4_ct, "", 3));
    assert_true(caught(LAYER_nvfp4_ct, "linear_tail", 3));
    assert_true(caught(LAYER_bf16, "linear_lanes", 3));
    assert_true(caught(LAYER_nvfp4_ct, "linear_scales", 3));
    assert_true(caught(LAYER_fp8_block, "linear_tile", 3));
    assert_true(caught(LAYER_awq, "linear_barrier", 9));
    assert_true(caught(LAYER_ct8, "linear_padding", 3));
    assert_true(caught(LAYER_ct8, "linear_wait", 3));
    for (const layer_kind kind : {LAYER_bf16, LAYER_nvfp4_ct, LAYER_fp8_block, LAYER_awq}) {
        assert_true(caught(kind, "linear_ring", 3, 2880));
        assert_true(caught(kind, "linear_ring", 9, 2880));
    }
    assert_false(caught(LAYER_nvfp4_ct, "linear_ring", 3));    /* with one chunk per warp, there is
                                                                * no ring */
    assert_false(caught(LAYER_fp8_block, "linear_scales", 3)); /* without such scales */
}
