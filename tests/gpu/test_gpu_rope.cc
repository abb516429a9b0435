/* test_gpu_rope.cc - rotary positions: the reference's bits, for one and for three position
 * streams, and what is not turned. */
#include "tests/gpu/op_test.h"

struct shape {
    size_t heads, hd, rd;
    bool streams;
};
static const shape shapes[] = {{4, 64, 16, true},
                               {4, 64, 16, false},
                               {3, 24, 24, true},
                               {2, 256, 64, true},
                               {1, 10, 2, false}};

enum { MOST = 65 };

static sb_rope_args call_of(const shape &s, size_t rows, size_t skipped)
{
    static uint32_t position[3][MOST];
    static const uint32_t section[3] = {3, 3, 2};
    sb_rope_args a = {};
    a.x = bf16_values("x", MOST * s.heads * s.hd, 0.0f, 1.5f) + skipped * s.heads * s.hd;
    a.rows = rows;
    a.heads = s.heads;
    a.hd = s.hd;
    a.rd = s.rd;
    a.theta = 1e7;
    a.section = s.streams ? section : nullptr;
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t t = 0; t < MOST; t++)
            position[i][t] = t % 5 == 4 ? 262143 - t - i : 3 * t + 100 * i;
        a.position[i] = position[i] + skipped;
    }
    return a;
}

static double check_shape(const shape &s, size_t rows, uint64_t seed)
{
    const sb_knobs knobs = knobs_of("sm121");
    const sb_rope_args mine = call_of(s, rows, 0), theirs = call_of(s, rows, 0);
    assert_int_equal(sb_rope_ref(&knobs, &theirs), SB_OK);
    if (!RUNS(seed, sb_gpu_rope(body, &knobs, &mine)) ||
        !same_bits(mine.x, theirs.x, MOST * s.heads * s.hd))
        return WRONG;
    return 0.0;
}

static void test_values(void **)
{
    for (const size_t rows : call_rows)
        for (uint64_t seed = 0; seed < SCHEDULES; seed++)
            assert_true(check_shape(shapes[0], rows, seed) == 0.0);
    for (const shape &s : shapes)
        for (const size_t rows : {size_t(1), size_t(9), size_t(65)})
            assert_true(check_shape(s, rows, rows) == 0.0);
}

static void test_rows(void **)
{
    const sb_knobs knobs = knobs_of("sm121");
    const shape &s = shapes[0];
    const size_t size = s.heads * s.hd;
    const sb_rope_args whole = call_of(s, MOST, 0);
    assert_true(RUNS(0, sb_gpu_rope(body, &knobs, &whole)));
    for (size_t width = 1; width <= 9; width++)
        for (size_t row = 0; row + width <= 20; row++) {
            const sb_rope_args part = call_of(s, width, row);
            assert_true(RUNS(row, sb_gpu_rope(body, &knobs, &part)));
            assert_true(same_bits(part.x, whole.x + row * size, width * size));
        }
}

static double check_streams()
{
    return check_shape(shapes[0], 9, 1);
}

static void test_faults(void **)
{
    for (const char *fault : {"rope_stream", "rope_pair", "rope_sign"})
        caught(fault, check_streams);
}

int main()
{
    const CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_values, test_release),
        cmocka_unit_test_teardown(test_rows, test_release),
        cmocka_unit_test_teardown(test_faults, test_release),
    };
    return run_op_tests(tests);
}
