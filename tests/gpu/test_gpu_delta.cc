/* test_gpu_delta.cc - the delta rule: outputs and states within the bound, the trail, and a row's
 * bits whatever else is in the call. */
#include "tests/gpu/gpu_op.h"

#include <math.h>

struct shape {
    size_t k_heads, v_heads, dk, dv;
};
/* Those of the test models and of a large one, and odd ones. */
static const shape small = {2, 4, 32, 32}, odd = {1, 3, 24, 40};
static const shape shapes[] = {{1, 2, 64, 64}, {1, 1, 128, 128}, odd, {1, 1, 72, 16}};

enum { MOST = 65 };

static float *keys_of(const char *name, const shape &s, double size)
{
    float *x =
        test_copy(test_normal(name, MOST * s.k_heads * s.dk, 0.0f, 1.0f), MOST * s.k_heads * s.dk);
    for (size_t row = 0; row < MOST * s.k_heads; row++) {
        double squares = 0.0;
        for (size_t i = 0; i < s.dk; i++)
            squares +=
                static_cast<double>(x[row * s.dk + i]) * static_cast<double>(x[row * s.dk + i]);
        for (size_t i = 0; i < s.dk; i++)
            x[row * s.dk + i] =
                static_cast<float>(static_cast<double>(x[row * s.dk + i]) / sqrt(squares) * size);
    }
    return x;
}

/* A call of `rows` of 65 rows; values lie between queries and keys, as the convolution leaves them.
 */
static sb_delta_rule_args call_of(const shape &s, size_t rows)
{
    const size_t gates = MOST * s.v_heads, state = s.v_heads * s.dk * s.dv;
    sb_delta_rule_args a = {};
    a.q = keys_of("q", s, 1.0 / sqrt(static_cast<double>(s.dk)));
    a.k = keys_of("k", s, 1.0);
    a.v_stride = s.v_heads * s.dv + 7;
    a.v = bf16_values("v", MOST * a.v_stride, 0.0f, 1.0f) + 3;
    float *g = test_copy(test_normal("g", gates, 0.0f, 1.0f), gates);
    float *beta = test_copy(test_normal("beta", gates, 0.0f, 2.0f), gates);
    for (size_t i = 0; i < gates; i++) {
        g[i] = -fabsf(g[i]) * (i % 3 ? 0.01f : 1.0f);
        beta[i] = 1.0f / (1.0f + expf(-beta[i]));
    }
    a.g = g;
    a.beta = beta;
    a.rows = rows;
    a.k_heads = s.k_heads;
    a.v_heads = s.v_heads;
    a.dk = s.dk;
    a.dv = s.dv;
    a.state = test_copy(test_normal("state", state, 0.0f, 0.1f), state);
    a.trail = test_output(rows * state);
    a.out = test_output(rows * s.v_heads * s.dv);
    return a;
}

static void test_values(void **)
{
    for (const size_t rows : call_rows)
        for (uint64_t seed = 0; seed < SCHEDULES; seed++)
            is_within(SB_OP_delta_rule, call_of(small, rows), seed);
    for (const shape &s : shapes)
        for (const size_t rows : {size_t(1), size_t(9)})
            is_within(SB_OP_delta_rule, call_of(s, rows), rows);
}

/* The rows in calls of `width`: outputs, states after each row, and the last state as in one call.
 */
static bool same_in_calls_of(size_t width, const sb_delta_rule_args &whole)
{
    const size_t keys = odd.k_heads * odd.dk, values = odd.v_heads * odd.dv;
    const size_t state = odd.v_heads * odd.dk * odd.dv;
    sb_delta_rule_args a = call_of(odd, whole.rows);
    for (size_t row = 0; row < whole.rows; row += width) {
        sb_delta_rule_args part = a;
        part.q += row * keys;
        part.k += row * keys;
        part.v += row * a.v_stride;
        part.g += row * odd.v_heads;
        part.beta += row * odd.v_heads;
        part.trail += row * state;
        part.out += row * values;
        part.rows = row + width <= whole.rows ? width : whole.rows - row;
        runs(SB_OP_delta_rule, part, width);
    }
    return same_bits(a.out, whole.out, whole.rows * values) &&
           same_bits(a.trail, whole.trail, whole.rows * state) &&
           same_bits(a.state, whole.state, state);
}

static void test_rows(void **)
{
    const sb_delta_rule_args a = call_of(odd, 19);
    runs(SB_OP_delta_rule, a, 0);
    for (size_t width = 1; width <= 9; width++)
        assert_true(same_in_calls_of(width, a));
}

static void test_faults(void **)
{
    for (const char *fault :
         {"delta_tail", "delta_lanes", "delta_padding", "delta_barrier", "delta_barrier2"})
        catches(fault, SB_OP_delta_rule, call_of(odd, 17));
}

int main()
{
    const CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_values, test_release),
        cmocka_unit_test_teardown(test_rows, test_release),
        cmocka_unit_test_teardown(test_faults, test_release),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
