/* test_gpu_delta.cc - the delta rule: outputs and states within the bound, the trail, and the bits
 * of a row, which do not depend on the rest of the call. */
#include "tests/gpu/delta_call.h"
#include "tests/lib/suite.h"

/* The heads of the test models and of a large one, and odd ones. */
static const shape small = {2, 4, 32, 32}, odd = {1, 3, 24, 40};
static const shape shapes[] = {{1, 2, 64, 64}, {1, 1, 128, 128}, odd, {1, 1, 72, 16}};

static sb_delta_rule_args scaled_call(const shape &s, size_t rows)
{
    return call_of(s, rows, true, 1.0 / sqrt(static_cast<double>(s.dk)));
}

TEST_WITH(test_values, NULL, test_release)
{
    for (const size_t rows : call_rows)
        for (uint64_t seed = 0; seed < SCHEDULES; seed++)
            is_within(SB_OP_delta_rule, scaled_call(small, rows), seed);
    for (const shape &s : shapes)
        for (const size_t rows : {size_t(1), size_t(9)})
            is_within(SB_OP_delta_rule, scaled_call(s, rows), rows);
}

/* In calls of `width`: the outputs, the states after each row and the last state equal those of one
 * call. */
static bool same_in_calls_of(size_t width, const sb_delta_rule_args &whole)
{
    const size_t values = odd.v_heads * odd.dv;
    const size_t state = odd.v_heads * odd.dk * odd.dv;
    sb_delta_rule_args a = scaled_call(odd, whole.rows);
    for (size_t row = 0; row < whole.rows; row += width) {
        sb_delta_rule_args part = rest_of(a, row);
        part.rows = row + width <= whole.rows ? width : whole.rows - row;
        runs(SB_OP_delta_rule, part, width);
    }
    return same_bits(a.out, whole.out, whole.rows * values) &&
           same_bits(a.trail, whole.trail, whole.rows * state) &&
           same_bits(a.state, whole.state, state);
}

TEST_WITH(test_rows, NULL, test_release)
{
    const sb_delta_rule_args a = scaled_call(odd, 19);
    runs(SB_OP_delta_rule, a, 0);
    for (size_t width = 1; width <= 9; width++)
        assert_true(same_in_calls_of(width, a));
}

TEST_WITH(test_faults, NULL, test_release)
{
    for (const char *fault :
         {"delta_tail", "delta_lanes", "delta_padding", "delta_barrier", "delta_barrier2"})
        catches(fault, SB_OP_delta_rule, scaled_call(odd, 17));
}
