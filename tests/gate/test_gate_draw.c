/* test_gate_draw.c - the inputs of each regime are as docs/gates.md describes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "tests/gate/tiny_op.h"
#include "tests/lib/suite.h"
#include "tools/judge/gate/case.h"

enum { ROWS = 24, COLS = 400 };
static float v[ROWS * COLS], w[ROWS * COLS];

static const sb_dtype types[] = {SB_DTYPE_BF16, SB_DTYPE_F16, SB_DTYPE_F32};

static void draw(sb_gate_regime regime, sb_dtype input, uint64_t seed, const char *name,
                 sb_gate_role role, size_t rows, size_t cols, float *out)
{
    const sb_gate_case c = {.op = tiny_op(), .input = input, .regime = regime, .seed = seed};
    sb_gate_draw(&c, name, role, rows, cols, out);
}

static void drawn(sb_gate_regime regime, sb_gate_role role)
{
    draw(regime, SB_DTYPE_BF16, 42, "x", role, ROWS, COLS, v);
}

static float size_of(float x)
{
    return x < 0.0f ? -x : x;
}

TEST(all_values_are_numbers_of_their_type)
{
    for (int regime = 0; regime < SB_GATE_REGIMES; regime++)
        for (int role = 0; role <= SB_GATE_STATE; role++)
            for (size_t t = 0; t < 3; t++) {
                sb_format format = SB_FORMAT_f32;
                size_t nonzero = 0;
                draw((sb_gate_regime)regime, types[t], 7, "x", (sb_gate_role)role, ROWS, COLS, v);
                assert_true(sb_gate_format(types[t], &format));
                for (size_t i = 0; i < ROWS * COLS; i++) {
                    assert_true(sb_is_finite_f32(v[i]));
                    if (role != SB_GATE_STATE)
                        assert_true(sb_round_to(format, v[i]) == v[i]);
                    nonzero += v[i] != 0.0f;
                }
                assert_true(nonzero >= ROWS);
            }
}

TEST(a_value_depends_on_seed_and_name_and_on_nothing_else)
{
    const size_t bytes = sizeof v;
    draw(SB_GATE_REGIME_normal, SB_DTYPE_F32, 42, "x", SB_GATE_ACTIVATION, ROWS, COLS, v);
    draw(SB_GATE_REGIME_normal, SB_DTYPE_F32, 42, "x", SB_GATE_ACTIVATION, ROWS, COLS, w);
    assert_memory_equal(v, w, bytes);
    draw(SB_GATE_REGIME_normal, SB_DTYPE_F32, 42, "x", SB_GATE_ACTIVATION, 3, COLS, w);
    assert_memory_equal(v, w, 3 * COLS * sizeof *v);
    draw(SB_GATE_REGIME_normal, SB_DTYPE_F32, 43, "x", SB_GATE_ACTIVATION, ROWS, COLS, w);
    assert_memory_not_equal(v, w, bytes);
    draw(SB_GATE_REGIME_normal, SB_DTYPE_F32, 42, "y", SB_GATE_ACTIVATION, ROWS, COLS, w);
    assert_memory_not_equal(v, w, bytes);
}

/* The mean square is 1/cols up to a factor of 2: the standard deviation of weights is a power of
 * two. */
TEST(weights_have_the_order_of_their_columns)
{
    for (size_t cols = 1; cols <= COLS; cols = cols * 3 + 1) {
        double sum = 0.0;
        size_t rows = ROWS * COLS / cols;
        draw(SB_GATE_REGIME_normal, SB_DTYPE_F32, 1, "w", SB_GATE_WEIGHT, rows, cols, v);
        for (size_t i = 0; i < rows * cols; i++)
            sum += (double)v[i] * (double)v[i];
        sum *= (double)cols / (double)(rows * cols);
        assert_true(sum > 0.45 && sum < 2.2);
    }
}

TEST(negative_values_are_below_0_and_weights_above)
{
    for (int role = 0; role <= SB_GATE_LOGIT; role++) {
        drawn(SB_GATE_REGIME_negative, (sb_gate_role)role);
        for (size_t i = 0; i < ROWS * COLS; i++)
            assert_true(role == SB_GATE_WEIGHT ? v[i] > 0.0f : v[i] < 0.0f);
    }
}

TEST(ties_are_pairs_of_rows_of_few_values)
{
    drawn(SB_GATE_REGIME_ties, SB_GATE_ACTIVATION);
    for (size_t r = 0; r < ROWS; r += 2)
        assert_memory_equal(v + r * COLS, v + (r + 1) * COLS, COLS * sizeof *v);
    assert_memory_not_equal(v, v + 2 * COLS, COLS * sizeof *v);
    for (size_t i = 0; i < ROWS * COLS; i++)
        assert_true(size_of(v[i]) <= 1.5f && v[i] * 8.0f == (float)(int)(v[i] * 8.0f));
    drawn(SB_GATE_REGIME_ties, SB_GATE_LOGIT);
    size_t equal = 0;
    for (size_t i = 0; i < COLS; i++)
        equal += v[i] == v[0];
    assert_true(equal > COLS / 8);
}

static double largest(void)
{
    double most = 0.0;
    for (size_t i = 0; i < ROWS * COLS; i++)
        most = (double)size_of(v[i]) > most ? (double)size_of(v[i]) : most;
    return most;
}

TEST(tiny_least_and_huge_are_as_large_as_they_say)
{
    drawn(SB_GATE_REGIME_tiny, SB_GATE_ACTIVATION);
    assert_true(largest() > 1e-8 && largest() < 1e-7);
    drawn(SB_GATE_REGIME_least, SB_GATE_ACTIVATION);
    assert_true(largest() > 1e-23 && largest() < 1e-22);
    drawn(SB_GATE_REGIME_huge, SB_GATE_ACTIVATION);
    assert_true(largest() > 1e4 && largest() < 65504.0);
    for (int i = 0; i < 3; i++) {
        static const sb_gate_regime regimes[] = {SB_GATE_REGIME_tiny, SB_GATE_REGIME_least,
                                                 SB_GATE_REGIME_huge};
        drawn(regimes[i], SB_GATE_WEIGHT);
        assert_true(largest() > 0.05 && largest() < 0.5);
    }
}

static double block_largest(size_t row, size_t block)
{
    double most = 0.0;
    for (size_t i = 16 * block; i < 16 * block + 16; i++) {
        double x = (double)size_of(v[row * COLS + i]);
        most = x > most ? x : most;
    }
    return most;
}

/* The E4M3 scale is the block's largest value / 6, in units that make the largest scale of the
 * tensor 448. */
TEST(some_blocks_have_subnormal_scales_and_some_rows_only_such)
{
    drawn(SB_GATE_REGIME_subnormal, SB_GATE_WEIGHT);
    double unit = largest() / 448.0;
    for (size_t row = 0; row < ROWS; row++) {
        size_t small = 0;
        for (size_t block = 0; block < COLS / 16; block++) {
            double scale = block_largest(row, block) / unit;
            assert_true(scale > 0x1p-10); /* does not round to 0 */
            small += scale < 0x1p-6;
        }
        if (row % 2)
            assert_int_equal(small, COLS / 16);
        else
            assert_true(small > 3 && small < COLS / 16 - 3);
    }
}

TEST(zeros_are_rows_and_blocks_among_others)
{
    for (int role = 0; role <= SB_GATE_WEIGHT; role++) {
        size_t rows = 0, blocks = 0, wide = 0, half = 0;
        drawn(SB_GATE_REGIME_zeros, (sb_gate_role)role);
        for (size_t r = 0; r < ROWS; r++) {
            int zero[COLS / 16], in_row = 0;
            for (size_t b = 0; b < COLS / 16; b++)
                in_row += zero[b] = block_largest(r, b) == 0.0;
            rows += in_row == COLS / 16;
            for (size_t b = 0; b < COLS / 16 && in_row < COLS / 16; b++) {
                size_t first = b / 8 * 8, all = 0;
                for (size_t i = first; i < first + 8 && i < COLS / 16; i++)
                    all += zero[i] != 0;
                blocks += zero[b] && all < 8;
                half += b % 2 && zero[b] && zero[b - 1] && all < 8;
                wide += b == first && all == 8;
            }
        }
        assert_true(rows == ROWS / 3 && blocks > ROWS && half > 8 && wide > 8);
    }
}

TEST(narrow_arrays_are_not_all_zero)
{
    for (size_t cols = 1; cols <= COLS; cols++)
        for (uint64_t seed = 0; seed < 40; seed++) {
            size_t nonzero = 0;
            draw(SB_GATE_REGIME_zeros, SB_DTYPE_F32, seed, "x", SB_GATE_ACTIVATION, 1, cols, v);
            for (size_t i = 0; i < cols; i++)
                nonzero += v[i] != 0.0f;
            assert_true(nonzero > 0);
        }
}

TEST(one_hot_rows_have_one_value_each_in_another_column)
{
    size_t columns = 0, before = COLS;
    drawn(SB_GATE_REGIME_one_hot, SB_GATE_ACTIVATION);
    for (size_t r = 0; r < ROWS; r++) {
        size_t found = 0, at = 0;
        for (size_t i = 0; i < COLS; i++)
            if (v[r * COLS + i] != 0.0f) {
                found++;
                at = i;
            }
        assert_int_equal(found, 1);
        columns += at != before;
        before = at;
    }
    assert_int_equal(columns, ROWS);
}

/* Columns 64 apart, and rows 8 apart, have equal codes. */
TEST(index_codes_tell_rows_and_columns_apart)
{
    drawn(SB_GATE_REGIME_index, SB_GATE_ACTIVATION);
    for (size_t r = 0; r < 8; r++)
        for (size_t i = 0; i < 16; i++)
            for (size_t s = 0; s < 8; s++)
                for (size_t j = 0; j < 16; j++)
                    assert_true((v[r * COLS + i] == v[s * COLS + j]) == (r == s && i == j));
    for (size_t b = 1; b < 4; b++)
        for (size_t i = 0; i < 16; i++)
            assert_true(v[16 * b + i] != v[i]);
}

TEST(pairs_cancel_against_equal_weights)
{
    draw(SB_GATE_REGIME_cancellation, SB_DTYPE_BF16, 42, "x", SB_GATE_ACTIVATION, ROWS, COLS, v);
    draw(SB_GATE_REGIME_cancellation, SB_DTYPE_BF16, 42, "w", SB_GATE_WEIGHT, ROWS, COLS, w);
    for (size_t r = 0; r < ROWS; r++) {
        double sum = 0.0, size = 0.0;
        for (size_t i = 0; i < COLS; i++) {
            double term = (double)v[r * COLS + i] * (double)w[r * COLS + i];
            sum += term;
            size += term < 0.0 ? -term : term;
            assert_true(w[r * COLS + i] == w[r * COLS + (i ^ 1)]);
        }
        assert_true(sum != 0.0 && (sum < 0.0 ? -sum : sum) < size / 50.0);
    }
}
