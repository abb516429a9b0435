/* ops.h - the tests of operations: one test_<op> for each op of ops.def, and structured cases.
 *
 * test_<op> compares with a plain computation (tests/lib/plain.h) written from the op's clause, bit
 * for bit, under every knob that the op reads. An op of ops.def without a test is a link error. */
#ifndef SB_TESTS_UNIT_OPS_H
#define SB_TESTS_UNIT_OPS_H

#include "tests/lib/cmocka.h"

#include "ref/base/bytes.h"
#include "ref/ops/op.h"
#include "ref/run/backend.h"
#include "tests/lib/plain.h"
#include "tests/lib/poison.h"

/* The body of a test in any file; test_ops.c registers it. */
#define OP_TEST(name) void test_##name(void **state __attribute__((unused)))

#define SB_OP(name, clause) void test_##name(void **state);
#include "ref/ops/ops.def"
#undef SB_OP

#define STRUCTURED_TESTS(X)                                                                        \
    X(rounding_to_the_activation_type)                                                             \
    X(outputs_may_be_inputs)                                                                       \
    X(linear_of_hostile_values)                                                                    \
    X(linear_with_row_map)                                                                         \
    X(rmsnorm_of_zeros)                                                                            \
    X(elementwise_of_hostile_values)                                                               \
    X(split_gate_order)                                                                            \
    X(router_ties)                                                                                 \
    X(router_sums)                                                                                 \
    X(router_keeps_all)                                                                            \
    X(router_of_nan)                                                                               \
    X(moe_dot_and_slots)                                                                           \
    X(conv_taps)                                                                                   \
    X(conv_splits)                                                                                 \
    X(conv_trail)                                                                                  \
    X(conv_of_nan)                                                                                 \
    X(gates_extremes)                                                                              \
    X(gates_that_stop)                                                                             \
    X(l2norm_of_zeros)                                                                             \
    X(l2norm_reads_queries_then_keys)                                                              \
    X(gated_rmsnorm_norm_before_gate)                                                              \
    X(rope_at_position_0)                                                                          \
    X(rope_pairs)                                                                                  \
    X(rope_streams)                                                                                \
    X(rope_far_out)                                                                                \
    X(delta_rule_by_hand)                                                                          \
    X(delta_rule_head_map)                                                                         \
    X(delta_rule_trail)                                                                            \
    X(delta_rule_zero_keys)                                                                        \
    X(delta_rule_of_nan)                                                                           \
    X(chunk_is_recurrent)                                                                          \
    X(chunk_without_beta_decays)                                                                   \
    X(chunk_boundaries)                                                                            \
    X(chunk_fla)                                                                                   \
    X(chunk_fla_is_the_rule)                                                                       \
    X(chunk_fla_by_hand)                                                                           \
    X(attention_to_itself)                                                                         \
    X(attention_head_map)                                                                          \
    X(attention_is_causal)                                                                         \
    X(attention_over_long_context)                                                                 \
    X(attention_of_nan)                                                                            \
    X(flash_divides_at_the_end)                                                                    \
    X(scores_in_binary16)                                                                          \
    X(cache_in_binary16)                                                                           \
    X(angles_in_a_chain)                                                                           \
    X(frequencies_of_torch)                                                                        \
    X(norm_weight_is_rounded)                                                                      \
    X(experts_in_eager_order)                                                                      \
    X(routed_experts_that_stay_wide)                                                               \
    X(weights_inside_down_proj)                                                                    \
    X(shared_gate_in_one_sum)                                                                      \
    X(outputs_that_stay_wide)                                                                      \
    X(silu_of_each_mlp)

#define DECLARE(name) void test_##name(void **state);
STRUCTURED_TESTS(DECLARE)
#undef DECLARE

/* Runs an op of the reference backend: RUN(linear, &knobs, .weight = &w, ...). */
#define RUN(op, knobs, ...)                                                                        \
    assert_int_equal(sb_backend_ref()->ops.op((knobs), &(const sb_##op##_args){__VA_ARGS__}), SB_OK)

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Row `row` of a parameter after the conversion of K-2, in a new array. */
float *plain_param(const sb_knobs *knobs, const sb_matrix *matrix, uint32_t row);

#endif
