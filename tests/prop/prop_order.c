/* prop_order.c - results are defined by mathematics and do not depend on an order: of the terms of
 * a sum, the rows of a matrix, the experts of a layer, the rows of a batch. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/fast/dot/dot.h"
#include "ref/run/backend.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/plain.h"
#include "tests/lib/poison.h"
#include "tests/lib/record.h"

enum { K = 64, N = 40, T = 5, E = 8 };

#define RUN(op, knobs, ...)                                                                        \
    assert_int_equal(sb_backend_ref()->ops.op((knobs), &(const sb_##op##_args){__VA_ARGS__}), SB_OK)

/* A permutation of 0..n-1. */
static void permutation(const char *name, uint32_t *p, uint32_t n)
{
    uint64_t key = sb_rng_key(10, name);
    for (uint32_t i = 0; i < n; i++)
        p[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = sb_rng_below(key, i, i), other = p[j];
        p[j] = p[i - 1];
        p[i - 1] = other;
    }
}

/* Terms of very different size, in many orders: one result. */
TEST_WITH(test_order_of_terms, NULL, test_release)
{
    uint64_t key = sb_rng_key(11, "terms");
    for (uint32_t n = 1; n <= K; n += 7) {
        float a[K], b[K], first = 0;
        for (uint32_t i = 0; i < n; i++) {
            a[i] = sb_rng_normal(key, 2 * i) * (i % 3 ? 1.0f : 0x1p20f);
            b[i] = sb_rng_normal(key, 2 * i + 1) * (i % 5 ? 1.0f : 0x1p-20f);
        }
        for (int order = 0; order < 20; order++) {
            char name[32];
            uint32_t p[K];
            float x[K], y[K];
            snprintf(name, sizeof name, "order %d", order);
            permutation(name, p, n);
            for (uint32_t i = 0; i < n; i++) {
                x[i] = a[p[i]];
                y[i] = b[p[i]];
            }
            float sum = order % 2 ? sb_dot(x, y, n) : sb_dot(y, x, n);
            first = order ? first : sum;
            assert_int_equal(sb_bits_f32(sum), sb_bits_f32(first));
            assert_int_equal(sb_bits_f32(sum), sb_bits_f32(plain_dot(a, 1, b, 1, n)));
        }
    }
}

/* Permuted rows of a matrix permute the outputs; permuted columns and inputs leave the outputs
 * unchanged. */
TEST_WITH(test_order_of_rows_and_columns, NULL, test_release)
{
    uint32_t rows[N], cols[K];
    permutation("rows", rows, N);
    permutation("cols", cols, K);
    sb_knobs exact = test_knobs("");
    const float *w = test_normal("w", N * K, 0, 1), *x = test_normal("x", T * K, 0, 1);
    float *moved_w = test_copy(NULL, N * K), *moved_x = test_copy(NULL, T * K);
    for (size_t i = 0; i < N * K; i++)
        moved_w[i] = w[rows[i / K] * K + cols[i % K]];
    for (size_t i = 0; i < T * K; i++)
        moved_x[i] = x[i / K * K + cols[i % K]];
    sb_matrix plain = test_matrix(SB_FORMAT_bf16, w, N, K);
    sb_matrix moved = test_matrix(SB_FORMAT_bf16, moved_w, N, K);
    float *out = test_output(T * N), *out_moved = test_output(T * N), want[T * N];
    RUN(linear, &exact, .weight = &plain, .in = x, .rows = T, .out = out);
    RUN(linear, &exact, .weight = &moved, .in = moved_x, .rows = T, .out = out_moved);
    for (size_t i = 0; i < T * N; i++)
        want[i] = out[i / N * N + rows[i % N]];
    test_same("permuted", out_moved, want, T * N);
}

/* One sum over experts: their order does not matter, nor does an expert of weight 0. */
TEST_WITH(test_order_of_experts, NULL, test_release)
{
    uint32_t p[E];
    permutation("experts", p, E);
    sb_knobs exact = test_knobs("");
    const float *f = test_normal("f", E * K, 0, 1), *w = test_normal("w", E, 0.1f, 0.3f);
    const float *shared = test_normal("shared", K, 0, 1);
    float *f2 = test_copy(NULL, (E + 1) * K), w2[E + 1], *out = test_output(K),
          *out2 = test_output(K);
    for (size_t e = 0; e < E; e++) {
        memcpy(f2 + e * K, f + p[e] * K, K * sizeof *f);
        w2[e] = w[p[e]];
    }
    w2[E] = 0;
    memcpy(f2 + E * K, shared, K * sizeof *f);
    RUN(moe_combine, &exact, .expert_out = f, .weights = w, .shared_out = shared, .kept = E, .n = K,
        .out = out);
    for (size_t kept = E; kept <= E + 1; kept++) {
        RUN(moe_combine, &exact, .expert_out = f2, .weights = w2, .shared_out = shared,
            .kept = kept, .n = K, .out = out2);
        test_same("permuted experts", out2, out, K);
    }
}

/* For ops without state, each row of a batch gives the same as the row alone. */
TEST_WITH(test_rows_do_not_see_each_other, NULL, test_release)
{
    sb_knobs exact = test_knobs("");
    const float *x = test_normal("x", T * K, 0, 1);
    sb_matrix w = test_matrix(SB_FORMAT_f32, test_normal("w", N * K, 0, 1), N, K), row = w;
    float *all = test_output(T * K), *one = test_output(K);
    row.rows = 1;
    RUN(rmsnorm, &exact, .in = x, .weight = &row, .eps = 1e-6f, .rows = T, .n = K, .out = all);
    for (size_t t = 0; t < T; t++) {
        RUN(rmsnorm, &exact, .in = x + t * K, .weight = &row, .eps = 1e-6f, .rows = 1, .n = K,
            .out = one);
        test_same("rmsnorm", one, all + t * K, K);
    }
    RUN(linear, &exact, .weight = &w, .in = x, .rows = T, .out = all);
    for (size_t t = 0; t < T; t++) {
        RUN(linear, &exact, .weight = &w, .in = x + t * K, .rows = 1, .out = one);
        test_same("linear", one, all + t * N, N);
    }
}

/* Moves block p[i] of a tensor of n blocks to place i. */
static void permute_blocks(const test_folder *f, const char *name, const uint32_t *p, uint32_t n)
{
    test_tensor *t = test_folder_find(f, name);
    size_t block = (size_t)t->size / n;
    unsigned char *moved = malloc((size_t)t->size);
    assert_non_null(moved);
    for (uint32_t i = 0; i < n; i++)
        memcpy(moved + i * block, t->bytes + p[i] * block, block);
    memcpy(t->bytes, moved, (size_t)t->size);
    free(moved);
}

/* Experts and rows of the router stored in another order: the same hidden vectors. The order would
 * decide between equal logits, so the recipe without duplicated router rows is used. */
TEST(test_experts_in_another_order)
{
    static const char *const tensors[] = {"mlp.gate.weight", "mlp.experts.gate_up_proj",
                                          "mlp.experts.down_proj"};
    enum { ROWS = 12, H = 128 };
    float hidden[2][ROWS * H];
    uint32_t p[E], ids[ROWS];
    permutation("stored experts", p, E);
    test_draw_ids("experts", 384, ids, ROWS);
    const char *folders[2];
    folders[0] = test_checkpoint("prop_order", "T3", "plain", "bf16", "text");
    test_folder f = test_folder_load(folders[0]);
    for (unsigned layer = 0; layer < 4; layer++)
        for (size_t i = 0; i < 3; i++) {
            char name[128];
            snprintf(name, sizeof name, "model.layers.%u.%s", layer, tensors[i]);
            permute_blocks(&f, name, p, E);
        }
    folders[1] = test_folder_save(&f, "prop_order", "permuted");
    test_folder_free(&f);
    for (size_t i = 0; i < 2; i++) {
        sb_model *model = test_model_open(folders[i]);
        sb_session *session = test_session(model, NULL, NULL);
        test_feed(session, ids, ROWS);
        memcpy(hidden[i], sb_session_hidden(session), sizeof hidden[i]);
        sb_session_free(session);
        sb_model_close(model);
    }
    test_same("hidden", hidden[1], hidden[0], ROWS * H);
}
