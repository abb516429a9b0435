/* ops_delta.c - tests of the gated delta rule, row by row: R-9. */
#include "tests/unit/ops_delta.h"

#include <math.h>
#include <string.h>

#include "ref/ops/knob.h"

delta_operands delta_draw(size_t T, size_t nK, size_t r, size_t dk, size_t dv, float decay)
{
    size_t nV = nK * r, stride = nV * dv + 3;
    float *k = test_copy(test_normal("k", T * nK * dk, 0, 1), T * nK * dk);
    float *q = test_copy(test_normal("q", T * nK * dk, 0, 1), T * nK * dk);
    float *g = test_copy(test_normal("g", T * nV, 0, 1), T * nV);
    float *beta = test_copy(test_normal("b", T * nV, 0, 2), T * nV);
    for (size_t e = 0; e < T * nK; e++) {
        float of_k = plain_rsqrt(plain_dot(k + e * dk, 1, k + e * dk, 1, dk) + 1e-6f);
        float of_q = plain_rsqrt(plain_dot(q + e * dk, 1, q + e * dk, 1, dk) * (float)dk);
        for (size_t i = 0; i < dk; i++) {
            k[e * dk + i] *= of_k;
            q[e * dk + i] *= of_q;
        }
    }
    for (size_t e = 0; e < T * nV; e++) {
        g[e] = -fabsf(g[e]) * decay;
        beta[e] = plain_sigmoid(beta[e]);
    }
    delta_operands o = {.initial = test_normal("S", nV * dk * dv, 0, 0.5f),
                        .state_size = nV * dk * dv,
                        .out_size = T * nV * dv};
    o.a = (sb_delta_rule_args){.q = q,
                               .k = k,
                               .v = test_normal("v", T * stride, 0, 1),
                               .v_stride = stride,
                               .g = g,
                               .beta = beta,
                               .rows = T,
                               .k_heads = nK,
                               .v_heads = nV,
                               .dk = dk,
                               .dv = dv};
    return o;
}

float delta_scaled(const sb_knobs *knobs, float o, size_t dk)
{
    return SB_IS(knobs, q_scale, output) ? o * plain_power((double)dk, -0.5L) : o;
}

void delta_kept(const sb_knobs *knobs, float *S, size_t n)
{
    for (size_t i = 0; i < n && SB_IS(knobs, delta_state, act); i++)
        S[i] = sb_act(knobs, S[i]);
}

/* R-9, one value column after the other: columns of S are independent. */
static void plain_delta(const sb_knobs *knobs, const sb_delta_rule_args *a, float *S, float *out)
{
    size_t dk = a->dk, dv = a->dv, r = a->v_heads / a->k_heads;
    float *column = test_copy(NULL, dk);
    for (size_t h = 0; h < a->v_heads; h++)
        for (size_t j = 0; j < dv; j++) {
            for (size_t i = 0; i < dk; i++)
                column[i] = S[(h * dk + i) * dv + j];
            for (size_t t = 0; t < a->rows; t++) {
                const float *k = a->k + (t * a->k_heads + h / r) * dk;
                const float *q = a->q + (t * a->k_heads + h / r) * dk;
                float shrink = plain_exp(a->g[t * a->v_heads + h]);
                for (size_t i = 0; i < dk; i++)
                    column[i] *= shrink;
                float seen = plain_dot(column, 1, k, 1, dk);
                float error = a->v[t * a->v_stride + h * dv + j] - seen;
                float d = error * a->beta[t * a->v_heads + h];
                for (size_t i = 0; i < dk; i++) {
                    float outer = k[i] * d;
                    column[i] += outer;
                }
                float read = delta_scaled(knobs, plain_dot(column, 1, q, 1, dk), dk);
                out[(t * a->v_heads + h) * dv + j] = sb_act(knobs, read);
            }
            for (size_t i = 0; i < dk; i++)
                S[(h * dk + i) * dv + j] = column[i];
        }
}

static void check_delta(const char *settings, delta_operands o)
{
    sb_knobs k = test_knobs(settings);
    float *S = test_copy(o.initial, o.state_size), *want_S = test_copy(o.initial, o.state_size);
    float *out = test_output(o.out_size), *want = test_copy(NULL, o.out_size);
    plain_delta(&k, &o.a, want_S, want);
    delta_kept(&k, want_S, o.state_size);
    o.a.state = S;
    o.a.out = out;
    assert_int_equal(sb_backend_ref()->ops.delta_rule(&k, &o.a), SB_OK);
    test_written("delta_rule", out, o.out_size);
    test_same("delta_rule", out, want, o.out_size);
    test_same("state", S, want_S, o.state_size);
}

OP_TEST(delta_rule)
{
    check_delta("", delta_draw(1, 1, 1, 1, 1, 0.1f));
    check_delta("", delta_draw(7, 2, 3, 5, 3, 0.3f));
    check_delta("act=bf16", delta_draw(4, 3, 1, 9, 2, 1));
    check_delta("act=f16", delta_draw(5, 1, 4, 16, 7, 30));
    check_delta("q_scale=output", delta_draw(5, 1, 2, 7, 3, 0.3f));
    check_delta("act=bf16 q_scale=output delta_state=act", delta_draw(5, 1, 2, 7, 3, 0.3f));
    check_delta("", delta_draw(3, 2, 2, 33, 65, 0.01f)); /* large enough for several threads */
    delta_operands o = delta_draw(6, 2, 2, 4, 4, 0.5f);
    o.a.k = test_hostile("k", 6 * 2 * 4);
    o.a.v = test_hostile("v", 6 * o.a.v_stride);
    check_delta("", o);
}

/* Slot t of the trail is the state after a call of the first t + 1 rows. The trail changes neither
 * outputs nor final state. */
static void check_trail(const char *settings)
{
    enum { T = 5 };
    delta_operands o = delta_draw(T, 2, 2, 5, 3, 0.3f);
    size_t size = o.state_size;
    sb_knobs exact = test_knobs(settings);
    float *last = test_copy(o.initial, size), *trail = test_output(T * size);
    float *out = test_output(o.out_size);
    o.a.state = last;
    o.a.trail = trail;
    o.a.out = out;
    assert_int_equal(sb_backend_ref()->ops.delta_rule(&exact, &o.a), SB_OK);
    test_written("trail", trail, T * size);
    o.a.trail = NULL;
    for (size_t rows = 1; rows <= T; rows++) {
        float *want = test_copy(o.initial, size), *head = test_output(o.out_size);
        o.a.rows = rows;
        o.a.state = want;
        o.a.out = head;
        assert_int_equal(sb_backend_ref()->ops.delta_rule(&exact, &o.a), SB_OK);
        test_same("trail", trail + (rows - 1) * size, want, size);
        test_same("out", out, head, rows * o.a.v_heads * o.a.dv);
    }
    test_same("state", last, trail + (T - 1) * size, size);
}

/* K-35: "the states kept between the rows of a verify; the verify itself goes on with the unrounded
 * states" */
OP_TEST(delta_rule_trail)
{
    check_trail("");
    check_trail("act=bf16 delta_state=act");
}

/* One row, one head, dk = dv = 1, by hand: {S, g, q, k, v, beta} -> {S, o}. */
OP_TEST(delta_rule_by_hand)
{
    static const float cases[][8] = {
        {4, 0, 2, 1, 1, 0.5f, 2.5f, 5},          /* m = 4, d = -1.5 */
        {4, -200, 2, 1, 1, 0.5f, 0.5f, 1},       /* decayed to 0 before the prediction: d = 0.5 */
        {4, 0, 2, 1, 1, 1, 1, 2},                /* beta 1: the state forgets its old value */
        {4, 0, 0.25f, 0.5f, 3, 1, 4.5f, 1.125f}, /* m = 2, d = 1 */
        {4, 0, 3, 1, 1, 0, 4, 12},               /* beta 0: nothing is written */
    };
    sb_knobs exact = test_knobs("");
    for (size_t i = 0; i < COUNT(cases); i++) {
        const float *c = cases[i];
        float S = c[0], *out = test_output(1);
        RUN(delta_rule, &exact, .g = c + 1, .q = c + 2, .k = c + 3, .v = c + 4, .beta = c + 5,
            .v_stride = 1, .rows = 1, .k_heads = 1, .v_heads = 1, .dk = 1, .dv = 1, .state = &S,
            .out = out);
        if (S != c[6] || *out != c[7])
            fail_msg("case %zu: S %g, o %g; expected %g, %g", i, (double)S, (double)*out,
                     (double)c[6], (double)c[7]);
    }
}

/* "whose query and key head is floor(h / r)": r = 3, all heads different, nothing is written. */
OP_TEST(delta_rule_head_map)
{
    static const float S[6] = {1, 2, 3, 4, 5, 6}, q[2] = {10, 1000}, zeros[6] = {0};
    static const float expected[6] = {10, 20, 30, 4000, 5000, 6000}, k[2] = {1, 0},
                       beta[6] = {0, 1, 1, 0, 1, 1};
    static const float v[6] = {9, 8, 7, 6, 5, 4}, written[6] = {1, 8, 7, 4, 5, 6};
    sb_knobs exact = test_knobs("");
    float *heads = test_copy(S, 6), *out = test_output(6);
    RUN(delta_rule, &exact, .q = q, .k = k, .v = v, .v_stride = 6, .g = zeros, .beta = zeros,
        .rows = 1, .k_heads = 2, .v_heads = 6, .dk = 1, .dv = 1, .state = heads, .out = out);
    test_same("o", out, expected, 6);
    test_same("S", heads, S, 6);
    RUN(delta_rule, &exact, .q = q, .k = k, .v = v, .v_stride = 6, .g = zeros, .beta = beta,
        .rows = 1, .k_heads = 2, .v_heads = 6, .dk = 1, .dv = 1, .state = heads, .out = out);
    test_same("S", heads, written, 6); /* the second key is 0: its value heads do not change */
}

OP_TEST(delta_rule_zero_keys)
{
    enum { DK = 3, DV = 2 };
    static const float g[2] = {-0.5f, -0.25f}, beta[2] = {1, 0.5f}, k[2 * DK] = {0};
    float want[DK * DV];
    sb_knobs exact = test_knobs("");
    const float *q = test_normal("q", 2 * DK, 0, 1), *v = test_normal("v", 2 * DV, 0, 1);
    const float *initial = test_normal("S", DK * DV, 0, 1);
    float *S = test_copy(initial, DK * DV), *out = test_output(2 * DV);
    RUN(delta_rule, &exact, .q = q, .k = k, .v = v, .v_stride = DV, .g = g, .beta = beta, .rows = 2,
        .k_heads = 1, .v_heads = 1, .dk = DK, .dv = DV, .state = S, .out = out);
    for (size_t i = 0; i < DK * DV; i++) {
        want[i] = initial[i] * plain_exp(-0.5f);
        want[i] *= plain_exp(-0.25f);
    }
    test_same("decayed state", S, want, DK * DV);
}

OP_TEST(delta_rule_of_nan)
{
    static const float one[2] = {1, 1}, v[2] = {NAN, 1}, zero[1] = {0};
    sb_knobs exact = test_knobs("");
    for (int chunk = 0; chunk < 2; chunk++) {
        float S[2] = {1, 1}, *out = test_output(2);
        sb_delta_rule_args a = {.q = one,
                                .k = one,
                                .v = v,
                                .v_stride = 2,
                                .g = zero,
                                .beta = one,
                                .rows = 1,
                                .k_heads = 1,
                                .v_heads = 1,
                                .dk = 1,
                                .dv = 2,
                                .state = S,
                                .out = out};
        const sb_op_table *ops = &sb_backend_ref()->ops;
        assert_int_equal(chunk ? ops->delta_rule_chunk(&exact, &a) : ops->delta_rule(&exact, &a),
                         SB_OK);
        assert_true(isnan(S[0]) && S[1] == 1.0f);
        assert_true(isnan(out[0]) && out[1] == 1.0f);
    }
}
