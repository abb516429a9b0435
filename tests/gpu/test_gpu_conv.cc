/* test_gpu_conv.cc - the convolution: the reference's outputs within the bound, its states bit by
 * bit, and a row's bits whatever else is in the call. */
#include "tests/gpu/op_test.h"

enum { TAPS = 4 };

enum { CHANNELS = 320, BACK = TAPS - 1, KEPT = BACK * CHANNELS, MOST = 65 };

struct calls {
    sb_conv_args mine, theirs;
};

/* The same call for both; `rows` of the 65 that there are. */
static calls call_of(size_t rows, const sb_matrix *weight)
{
    const float *in = bf16_values("u", MOST * CHANNELS, 0.0f, 2.0f);
    float *state = bf16_values("state", KEPT, 0.0f, 2.0f);
    sb_conv_args a = {};
    a.in = in;
    a.weight = weight;
    a.rows = rows;
    a.form = SB_FORM_verify;
    calls c = {a, a};
    for (sb_conv_args *one : {&c.mine, &c.theirs}) {
        one->state = test_copy(state, KEPT);
        one->trail = test_output(rows * KEPT);
        one->out = test_output(rows * CHANNELS);
    }
    return c;
}

static const sb_matrix *weights()
{
    static sb_matrix matrix;
    matrix =
        test_matrix(SB_FORMAT_bf16, test_normal("w", CHANNELS * TAPS, 0.0f, 1.0f), CHANNELS, TAPS);
    return &matrix;
}

static double check_rows(size_t rows, uint64_t seed, size_t *differ)
{
    static sb_ball mine[MOST * CHANNELS], theirs[MOST * CHANNELS];
    const sb_knobs knobs = knobs_of("sm121");
    const calls c = call_of(rows, weights());
    assert_int_equal(sb_bound_conv(own_arithmetic(), &knobs, &c.mine, mine, nullptr), SB_OK);
    assert_int_equal(sb_bound_conv(&sb_arithmetic_reference, &knobs, &c.mine, theirs, nullptr),
                     SB_OK);
    assert_int_equal(sb_conv_ref(&knobs, &c.theirs), SB_OK);
    if (!RUNS(seed, sb_gpu_conv(body, &knobs, &c.mine)) ||
        !same_bits(c.mine.state, c.theirs.state, KEPT) ||
        !same_bits(c.mine.trail, c.theirs.trail, rows * KEPT))
        return WRONG;
    return apart(c.mine.out, c.theirs.out, mine, theirs, rows * CHANNELS, differ);
}

static void test_values(void **)
{
    size_t differ = 0, all = 0;
    for (const size_t rows : call_rows)
        for (uint64_t seed = 0; seed < SCHEDULES; seed++) {
            assert_true(check_rows(rows, seed, &differ) <= 1.0);
            all += rows * CHANNELS;
        }
    printf("  %zu of %zu values differ\n", differ, all);
}

/* 65 rows in one call, and in calls of `width`: the same bits. */
static bool same_in_calls_of(size_t width, const float *whole, const float *last)
{
    const sb_knobs knobs = knobs_of("sm121");
    sb_conv_args a = call_of(MOST, weights()).mine;
    a.trail = nullptr;
    for (size_t row = 0; row < MOST; row += width) {
        sb_conv_args part = a;
        part.in += row * CHANNELS;
        part.out += row * CHANNELS;
        part.rows = row + width <= MOST ? width : MOST - row;
        if (!RUNS(width, sb_gpu_conv(body, &knobs, &part)))
            return false;
    }
    return same_bits(a.out, whole, MOST * CHANNELS) && same_bits(a.state, last, KEPT);
}

static void test_rows(void **)
{
    const sb_knobs knobs = knobs_of("sm121");
    const sb_conv_args a = call_of(MOST, weights()).mine;
    assert_true(RUNS(0, sb_gpu_conv(body, &knobs, &a)));
    for (size_t width = 1; width <= 9; width++)
        assert_true(same_in_calls_of(width, a.out, a.state));
}

static double check_17()
{
    size_t differ = 0;
    return check_rows(17, 1, &differ);
}

static void test_faults(void **)
{
    for (const char *fault : {"conv_tail", "conv_silu", "conv_state", "conv_stretch"})
        caught(fault, check_17);
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
