/* ops_attention.c - tests of attention over the cache, and of the rounding to the activation
 * type in all ops. */
#include "ref/fast/fast.h"
#include "ref/formats/format.h"
#include "ref/ops/knob.h"
#include "tests/unit/ops.h"

#include <math.h>
#include <string.h>

/* R-12 for one row of one head, positions from the last to the first. */
static void plain_attend(const sb_knobs *k, const sb_attention_args *a, size_t t, size_t j,
                         float *out)
{
    size_t n = a->first + t + 1, stride = a->kv_heads * a->hd, kv = j * a->kv_heads / a->heads;
    const float *q = a->q + (t * a->heads + j) * a->hd;
    float *p = test_copy(NULL, n), scale = plain_power((double)a->hd, -0.5L), most = -INFINITY;
    int inner = SB_IS(k, scores, act), flash = SB_IS(k, scores, flash);
    float *wide = test_copy(q, a->hd);
    for (size_t i = 0; i < a->hd && SB_IS(k, scores, f16); i++)
        wide[i] = sb_round_to(SB_FORMAT_f16, q[i]);
    for (size_t u = n; u-- > 0;) {
        p[u] = plain_dot(a->keys + u * stride + kv * a->hd, 1, wide, 1, a->hd);
        p[u] = inner ? sb_act(k, p[u]) : p[u];
        p[u] *= scale;
        p[u] = inner ? sb_act(k, p[u]) : p[u];
        most = p[u] > most ? p[u] : most;
    }
    for (size_t u = 0; u < n; u++)
        p[u] = plain_exp(p[u] - most);
    float total = plain_sum(p, n);
    for (size_t u = 0; u < n; u++) {
        p[u] /= flash ? 1.0f : total;
        p[u] = inner || flash ? sb_act(k, p[u]) : p[u];
        p[u] = SB_IS(k, scores, f16) ? sb_round_to(SB_FORMAT_f16, p[u]) : p[u];
    }
    for (size_t i = 0; i < a->hd; i++) {
        float sum = plain_dot(a->values + kv * a->hd + i, stride, p, 1, n);
        out[i] = sb_act(k, flash ? sum / total : sum);
    }
}

static void check_attention(const char *settings, sb_attention_args a)
{
    sb_knobs k = test_knobs(settings);
    size_t n = a.rows * a.heads * a.hd;
    float *want = test_copy(NULL, n);
    a.out = test_output(n);
    for (size_t row = 0; row < a.rows * a.heads; row++)
        plain_attend(&k, &a, row / a.heads, row % a.heads, want + row * a.hd);
    assert_int_equal(sb_backend_ref()->ops.attention(&k, &a), SB_OK);
    test_written("attention", a.out, n);
    test_same(settings, a.out, want, n);
}

static sb_attention_args draw(size_t T, size_t first, size_t heads, size_t kv, size_t hd)
{
    size_t cache = (first + T) * kv * hd;
    return (sb_attention_args){.q = test_normal("q", T * heads * hd, 0, 1.5f),
                               .keys = test_normal("keys", cache, 0, 1.5f),
                               .values = test_normal("values", cache, 0, 1),
                               .rows = T,
                               .first = first,
                               .heads = heads,
                               .kv_heads = kv,
                               .hd = hd};
}

OP_TEST(attention)
{
    static const char *const settings[] = {"",
                                           "act=bf16",
                                           "act=bf16 scores=act",
                                           "act=f16 scores=act",
                                           "scores=act",
                                           "act=bf16 scores=flash",
                                           "act=f16 scores=flash",
                                           "scores=flash",
                                           "scores=f16",
                                           "act=bf16 scores=f16"};
    for (size_t s = 0; s < COUNT(settings); s++) {
        check_attention(settings[s], draw(1, 0, 1, 1, 1));
        check_attention(settings[s], draw(5, 0, 6, 2, 7));
        check_attention(settings[s], draw(3, 9, 4, 1, 16));
        check_attention(settings[s], draw(2, 30, 3, 3, 33));
    }
    sb_attention_args a = draw(4, 3, 2, 1, 8);
    a.values = test_hostile("values", 7 * 8);
    check_attention("", a);
    a.q = test_hostile("q", 4 * 2 * 8);
    a.keys = test_hostile("keys", 7 * 8);
    check_attention("", a);
}

/* The first position attends only to itself: p = 1, and the output is the value. */
OP_TEST(attention_to_itself)
{
    enum { HEADS = 4, KV = 2, HD = 5 };
    sb_knobs exact = test_knobs("");
    sb_attention_args a = draw(1, 0, HEADS, KV, HD);
    a.out = test_output(HEADS * HD);
    assert_int_equal(sb_backend_ref()->ops.attention(&exact, &a), SB_OK);
    for (size_t j = 0; j < HEADS; j++)
        test_same("value", a.out + j * HD, a.values + j / 2 * HD, HD);
    a.out = test_output(HEADS * HD);
    a.q = test_copy(NULL, HEADS * HD); /* a zero query weights all positions equally */
    a.first = 1;
    static const float keys[2 * KV * HD] = {1, 2, 3}, values[2 * KV * HD] = {8, [KV * HD] = 4};
    a.keys = keys;
    a.values = values;
    assert_int_equal(sb_backend_ref()->ops.attention(&exact, &a), SB_OK);
    assert_true(a.out[0] == 6 && a.out[HD] == 6 && a.out[1] == 0 && a.out[2 * HD] == 0);
}

/* "query head j uses key/value head floor(j / (nQ / nKV))": 6 query heads over 2 key/value heads;
 * each value identifies its head. */
OP_TEST(attention_head_map)
{
    static const float q[6] = {100, 100, 100, -100, -100, -100};
    static const float keys[4] = {1, 1, -1, -1},
                       values[4] = {10, 11, 20, 21}; /* 2 positions, 2 heads */
    static const float expected[6] = {10, 10, 10, 21, 21, 21};
    sb_knobs exact = test_knobs("");
    float *out = test_output(6);
    RUN(attention, &exact, .q = q, .keys = keys, .values = values, .rows = 1, .first = 1,
        .heads = 6, .kv_heads = 2, .hd = 1, .out = out);
    test_same("attended", out, expected, 6); /* exp(-200) is 0 */
}

/* u <= t: later positions do not change a row. */
OP_TEST(attention_is_causal)
{
    enum { T = 6, HEADS = 2, HD = 4 };
    sb_knobs exact = test_knobs("");
    sb_attention_args a = draw(T, 2, HEADS, 1, HD);
    a.out = test_output(T * HEADS * HD);
    assert_int_equal(sb_backend_ref()->ops.attention(&exact, &a), SB_OK);
    for (size_t t = 0; t < T; t++) {
        float *keys = test_copy(a.keys, (T + 2) * HD), *values = test_copy(a.values, (T + 2) * HD);
        sb_attention_args b = a;
        b.keys = keys;
        b.values = values;
        b.out = test_output(T * HEADS * HD);
        for (size_t i = (t + 3) * HD; i < (T + 2) * HD; i++)
            keys[i] = values[i] = NAN;
        assert_int_equal(sb_backend_ref()->ops.attention(&exact, &b), SB_OK);
        test_same("rows before", b.out, a.out, (t + 1) * HEADS * HD);
        assert_true(t + 1 == T || isnan(b.out[(t + 1) * HEADS * HD]));
    }
}

OP_TEST(attention_over_long_context)
{
    check_attention("", draw(2, 298, 2, 1, 16));
    check_attention("act=bf16 scores=act", draw(1, 299, 2, 2, 8));
}

OP_TEST(attention_of_nan)
{
    static const float q[2] = {1, 1}, bad[6] = {1, 1, NAN, 1, 1, 1}, good[6] = {1, 2, 3, 4, 5, 6};
    sb_knobs exact = test_knobs("");
    for (int in_keys = 0; in_keys < 2; in_keys++) {
        float *out = test_output(2);
        RUN(attention, &exact, .q = q, .keys = in_keys ? bad : good, .values = in_keys ? good : bad,
            .rows = 1, .first = 2, .heads = 1, .kv_heads = 1, .hd = 2, .out = out);
        assert_int_equal(sb_bits_f32(out[0]), 0x7fc00000u);
        assert_true(in_keys ? isnan(out[1]) : fabsf(out[1] - 1) < 1e-6f);
    }
}

/* One output of every op that ends in R. `act` alone changes only this final rounding of the exact
 * result. */
static size_t all_outputs(const sb_knobs *k, float *out)
{
    enum { N = 12 };
    static const uint32_t token = 1, position = 3;
    static const float logit = 0.3f;
    const float *a = test_normal("a", 64, 0, 1), *b = test_normal("b", 64, 0, 1);
    const float *g = test_normal("g", 4, -1, 0.1f);
    sb_matrix w = test_matrix(SB_FORMAT_f32, test_normal("w", N * N, 0, 1), N, N), row = w,
              taps = w;
    float *o = out;
    row.rows = 1;
    taps.rows = 6;
    taps.cols = 2;
    RUN(embed, k, .table = &w, .tokens = &token, .rows = 1, .out = o);
    RUN(linear, k, .weight = &w, .in = a, .rows = 2, .out = o += N);
    RUN(rmsnorm, k, .in = a, .weight = &row, .eps = 1e-6f, .rows = 1, .n = N, .out = o += 2 * N);
    RUN(conv, k, .in = a, .weight = &taps, .rows = 2, .state = test_copy(b, 6), .out = o += N);
    RUN(gated_rmsnorm, k, .in = a, .z = b, .weight = &row, .eps = 1e-6f, .rows = 1, .heads = 1,
        .n = N, .out = o += N);
    RUN(attention, k, .q = a, .keys = b, .values = a, .rows = 2, .heads = 2, .kv_heads = 1, .hd = 3,
        .out = o += N);
    RUN(attn_gate, k, .in = a, .gate = b, .count = N, .out = o += N);
    RUN(swiglu, k, .gate = a, .up = b, .count = N, .out = o += N);
    RUN(moe_combine, k, .expert_out = a, .weights = b, .shared_out = b, .shared_logit = logit,
        .kept = 2, .n = N, .out = o += N);
    RUN(add, k, .a = a, .b = b, .count = N, .out = o += N);
    for (int chunk = 0; chunk < 2; chunk++) {
        sb_delta_rule_args d = {.q = a,
                                .k = b,
                                .v = a,
                                .v_stride = 6,
                                .g = g,
                                .beta = b,
                                .rows = 2,
                                .k_heads = 1,
                                .v_heads = 2,
                                .dk = 2,
                                .dv = 3,
                                .state = test_copy(b, 12),
                                .out = o += N};
        assert_int_equal((chunk ? sb_delta_rule_chunk_fast : sb_delta_rule_fast)(k, &d), SB_OK);
    }
    memcpy(o += N, a, N * sizeof *a);
    RUN(rope, k, .x = o, .rows = 1, .heads = 1, .hd = N, .rd = N, .theta = 1e4,
        .position = {&position, &position, &position});
    return (size_t)(o + N - out);
}

OP_TEST(rounding_to_the_activation_type)
{
    static const char *const types[] = {"act=bf16", "act=f16"};
    enum { ROOM = 512 };
    sb_knobs exact = test_knobs("");
    float *plain = test_output(ROOM), *narrow = test_output(ROOM);
    size_t n = all_outputs(&exact, plain), changed = 0;
    test_written("outputs", plain, n);
    for (size_t i = 0; i < COUNT(types); i++) {
        sb_knobs knobs = test_knobs(types[i]);
        float want[ROOM];
        assert_int_equal(all_outputs(&knobs, narrow), n);
        for (size_t e = 0; e < n; e++) {
            want[e] = sb_act(&knobs, plain[e]);
            changed += want[e] != plain[e];
        }
        test_same(types[i], narrow, want, n);
    }
    assert_true(changed > n);
}
