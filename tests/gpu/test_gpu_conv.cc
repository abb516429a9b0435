/* test_gpu_conv.cc - the convolution: outputs within the bound of the reference, states with its
 * bits, and the bits of a row do not depend on the rest of the call. */
#include "tests/gpu/gpu_op.h"
#include "tests/lib/suite.h"

enum { TAPS = 4 };

enum { CHANNELS = 320, BACK = TAPS - 1, KEPT = BACK * CHANNELS, MOST = 65 };

static const sb_matrix *weights()
{
    static sb_matrix matrix;
    matrix =
        test_matrix(SB_FORMAT_bf16, test_normal("w", CHANNELS * TAPS, 0.0f, 1.0f), CHANNELS, TAPS);
    return &matrix;
}

/* The first `rows` of 65 rows. */
static sb_conv_args call_of(size_t rows)
{
    sb_conv_args a = {};
    a.in = bf16_values("u", MOST * CHANNELS, 0.0f, 2.0f);
    a.weight = weights();
    a.rows = rows;
    a.form = SB_FORM_verify;
    a.state = bf16_values("state", KEPT, 0.0f, 2.0f);
    a.trail = test_output(rows * KEPT);
    a.out = test_output(rows * CHANNELS);
    return a;
}

TEST_WITH(test_values, NULL, test_release)
{
    for (const size_t rows : call_rows)
        for (uint64_t seed = 0; seed < SCHEDULES; seed++) {
            const sb_conv_args mine = call_of(rows), theirs = call_of(rows);
            const sb_knobs knobs = sm121();
            is_within(SB_OP_conv, mine, seed);
            assert_int_equal(sb_conv_fast(&knobs, &theirs), SB_OK);
            assert_true(same_bits(mine.trail, theirs.trail, rows * KEPT));
        }
}

/* 65 rows in one call, and in calls of `width`, have the same bits. */
static bool same_in_calls_of(size_t width, const float *whole, const float *last)
{
    sb_conv_args a = call_of(MOST);
    a.trail = nullptr;
    for (size_t row = 0; row < MOST; row += width) {
        sb_conv_args part = a;
        part.in += row * CHANNELS;
        part.out += row * CHANNELS;
        part.rows = row + width <= MOST ? width : MOST - row;
        runs(SB_OP_conv, part, width);
    }
    return same_bits(a.out, whole, MOST * CHANNELS) && same_bits(a.state, last, KEPT);
}

TEST_WITH(test_rows, NULL, test_release)
{
    const sb_conv_args a = call_of(MOST);
    runs(SB_OP_conv, a, 0);
    for (size_t width = 1; width <= 9; width++)
        assert_true(same_in_calls_of(width, a.out, a.state));
}

TEST_WITH(test_faults, NULL, test_release)
{
    for (const char *fault : {"conv_tail", "conv_silu", "conv_state", "conv_stretch"})
        catches(fault, SB_OP_conv, call_of(17));
}
