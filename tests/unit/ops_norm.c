/* ops_norm.c - tests of the norms and of the gates. */
#include "tests/unit/ops.h"

#include <math.h>

static float mean_root(const float *x, size_t n, float eps)
{
    float mean = plain_dot(x, 1, x, 1, n) / (float)n;
    return plain_rsqrt(mean + eps);
}

void test_rmsnorm(void **state)
{
    static const char *const settings[] = {"", "act=bf16", "act=f16", "act=bf16 params=act"};
    static const size_t widths[] = {1, 2, 17, 96, 333};
    enum { T = 3 };
    (void)state;
    for (size_t s = 0; s < COUNT(settings); s++)
        for (size_t i = 0; i < COUNT(widths); i++) {
            sb_knobs k = test_knobs(settings[s]);
            size_t n = widths[i];
            const float *in = i == 1 ? test_hostile("x", T * n) : test_normal("x", T * n, 0, 3);
            sb_matrix weight = test_matrix(SB_FORMAT_f32, test_normal("w", n, 0, 0.4f), 1, n);
            const float *w = plain_param(&k, &weight, 0);
            float *out = test_output(T * n), *want = test_copy(NULL, T * n);
            for (size_t e = T * n; e-- > 0;) {
                float r = mean_root(in + e / n * n, n, 1e-6f);
                float x = in[e] * r, factor = 1.0f + w[e % n];
                want[e] = sb_act(&k, x * factor);
            }
            RUN(rmsnorm, &k, .in = in, .weight = &weight, .eps = 1e-6f, .rows = T, .n = n,
                .out = out);
            test_written("rmsnorm", out, T * n);
            test_same(settings[s], out, want, T * n);
        }
}

/* A zero row stays zero; eps is added to the mean (with n = 4, ss = 4 eps, half of the root is
 * eps). */
void test_rmsnorm_of_zeros(void **state)
{
    static const float in[8] = {0, 0, 0, 0, 0x1p-10f, -0x1p-10f, 0x1p-10f, 0x1p-10f};
    static const float weight[4] = {0, 0, 3, -1}, zero[4] = {0, 0, 0, -0.0f};
    const float r = plain_rsqrt(0x1p-19f);
    (void)state;
    sb_knobs exact = test_knobs("");
    sb_matrix w = test_matrix(SB_FORMAT_bf16, weight, 1, 4);
    float *out = test_output(8);
    RUN(rmsnorm, &exact, .in = in, .weight = &w, .eps = 0x1p-20f, .rows = 2, .n = 4, .out = out);
    for (size_t i = 0; i < 4; i++)
        assert_true(out[i] == zero[i]);
    assert_true(out[4] == r * 0x1p-10f && out[5] == -out[4] && out[6] == 4 * out[4]);
    assert_true(out[7] == 0);
    static const float nan_in[4] = {1, NAN, 1, 1};
    RUN(rmsnorm, &exact, .in = nan_in, .weight = &w, .eps = 1e-6f, .rows = 1, .n = 4, .out = out);
    for (size_t i = 0; i < 4; i++)
        assert_true(isnan(out[i]));
}

void test_gated_rmsnorm(void **state)
{
    static const char *const settings[] = {"", "act=bf16", "act=f16", "act=bf16 gated_norm=act",
                                           "act=f16 gated_norm=act params=act"};
    static const size_t widths[] = {1, 2, 31, 64};
    enum { T = 2, HEADS = 3 };
    (void)state;
    for (size_t s = 0; s < COUNT(settings); s++)
        for (size_t i = 0; i < COUNT(widths); i++) {
            sb_knobs k = test_knobs(settings[s]);
            size_t n = widths[i], all = T * HEADS * n;
            int inner = SB_IS(&k, gated_norm, act);
            const float *in = i == 1 ? test_hostile("o", all) : test_normal("o", all, 0, 3);
            const float *z = i == 1 ? test_hostile("z", all) : test_normal("z", all, 0, 3);
            sb_matrix weight = test_matrix(SB_FORMAT_f32, test_normal("w", n, 1, 0.2f), 1, n);
            const float *w = plain_param(&k, &weight, 0);
            float *out = test_output(all), *want = test_copy(NULL, all);
            for (size_t e = 0; e < all; e++) {
                float normed = in[e] * mean_root(in + e / n * n, n, 1e-5f);
                normed = inner ? sb_act(&k, normed) : normed;
                float p = w[e % n] * normed;
                p = inner ? sb_act(&k, p) : p;
                want[e] = sb_act(&k, p * plain_silu(z[e]));
            }
            RUN(gated_rmsnorm, &k, .in = in, .z = z, .weight = &weight, .eps = 1e-5f, .rows = T,
                .heads = HEADS, .n = n, .out = out);
            test_written("gated_rmsnorm", out, all);
            test_same(settings[s], out, want, all);
        }
}

/* Norm before gate, plain weight: a huge z does not disappear in the norm. */
void test_gated_rmsnorm_norm_before_gate(void **state)
{
    static const float in[2] = {2, -2}, z[2] = {100, 0}, weight[2] = {3, 5};
    (void)state;
    sb_knobs exact = test_knobs("");
    sb_matrix w = test_matrix(SB_FORMAT_bf16, weight, 1, 2);
    float *out = test_output(2);
    RUN(gated_rmsnorm, &exact, .in = in, .z = z, .weight = &w, .eps = 1e-20f, .rows = 1, .heads = 1,
        .n = 2, .out = out);
    assert_true(out[0] == 300.0f && out[1] == 0.0f);
}

void test_l2norm(void **state)
{
    static const size_t shapes[][4] = {
        {1, 1, 1, 0}, {3, 2, 7, 5}, {2, 3, 64, 11}}; /* T nK dk rest */
    /* never rounded to the activation type; K-16 divides if the recurrent form follows */
    static const char *const settings[] = {"", "act=bf16", "q_scale=by_form"};
    (void)state;
    for (size_t s = 0; s < 2 * COUNT(settings); s++)
        for (size_t i = 0; i < COUNT(shapes); i++) {
            size_t T = shapes[i][0], heads = shapes[i][1], dk = shapes[i][2];
            size_t stride = 2 * heads * dk + shapes[i][3], n = T * heads * dk;
            sb_knobs knobs = test_knobs(settings[s / 2]);
            int divides = SB_IS(&knobs, q_scale, by_form) && s % 2;
            const float *in = test_normal("qkv", T * stride, 0, 0.3f);
            float *q = test_output(n), *k = test_output(n);
            float *want_q = test_copy(NULL, n), *want_k = test_copy(NULL, n);
            float scale = plain_power((double)dk, divides ? 0.5L : -0.5L);
            for (size_t e = 0; e < n; e++) {
                size_t t = e / (heads * dk), head = e / dk % heads, j = e % dk;
                const float *x = in + t * stride + head * dk, *y = x + heads * dk;
                float of_q = plain_rsqrt(plain_dot(x, 1, x, 1, dk) + 1e-6f);
                float of_k = plain_rsqrt(plain_dot(y, 1, y, 1, dk) + 1e-6f);
                float unit = x[j] * of_q;
                want_q[e] = divides ? unit / scale : unit * scale;
                want_k[e] = y[j] * of_k;
            }
            RUN(l2norm, &knobs, .qkv = in, .rows = T, .stride = stride, .heads = heads, .dk = dk,
                .eps = 1e-6f, .recurrent = s % 2, .q = q, .k = k);
            test_written("q", q, n);
            test_written("k", k, n);
            test_same("q", q, want_q, n);
            test_same("k", k, want_k, n);
        }
}

/* "eps is added to the sum, not to the mean": with ss = 1e-6 the norm is halved, whatever dk. */
void test_l2norm_of_zeros(void **state)
{
    float in[32] = {0}, expected[8] = {0}; /* one head of width 8, queries then keys, two rows */
    (void)state;
    sb_knobs exact = test_knobs("");
    in[16] = in[24] = 0x1p-10f;
    float *q = test_output(16), *k = test_output(16);
    RUN(l2norm, &exact, .qkv = in, .rows = 2, .stride = 16, .heads = 1, .dk = 8, .eps = 0x1p-20f,
        .q = q, .k = k);
    for (size_t i = 0; i < 8; i++)
        assert_true(q[i] == 0 && k[i] == 0);
    expected[0] = 0x1p-10f * plain_rsqrt(0x1p-19f);
    test_same("k", k + 8, expected, 8);
    expected[0] *= plain_rsqrt(8);
    test_same("q", q + 8, expected, 8);
}

void test_l2norm_reads_queries_then_keys(void **state)
{
    enum { HEADS = 3 };
    static const float in[2 * HEADS + 1] = {1, -1, 1, -1, -1, 1, 77}; /* dk = 1: signs remain */
    (void)state;
    sb_knobs exact = test_knobs("");
    float *q = test_output(HEADS), *k = test_output(HEADS);
    RUN(l2norm, &exact, .qkv = in, .rows = 1, .stride = 2 * HEADS + 1, .heads = HEADS, .dk = 1,
        .eps = 1e-20f, .q = q, .k = k);
    test_same("q", q, in, HEADS);
    test_same("k", k, in + HEADS, HEADS);
}

void test_gates(void **state)
{
    static const char *const settings[] = {"", "act=bf16", "softplus=log1p_exp",
                                           "act=bf16 beta=act",
                                           "act=f16 beta=act params=act softplus=log1p_exp"};
    enum { T = 40, HEADS = 5, ALL = T * HEADS };
    (void)state;
    for (size_t s = 0; s < COUNT(settings); s++) {
        sb_knobs k = test_knobs(settings[s]);
        const float *a = test_normal("a", ALL, 0, 8), *b = test_normal("b", ALL, 0, 3);
        sb_matrix a_log =
            test_matrix(SB_FORMAT_f32, test_normal("A_log", HEADS, 0, 1.5f), 1, HEADS);
        sb_matrix dt = test_matrix(SB_FORMAT_f32, test_normal("dt_bias", HEADS, 0, 9), 1, HEADS);
        const float *log_speed = plain_param(&k, &a_log, 0), *bias = plain_param(&k, &dt, 0);
        float *g = test_output(ALL), *beta = test_output(ALL), want_g[ALL], want_beta[ALL];
        for (size_t e = 0; e < ALL; e++) {
            float x = a[e] + bias[e % HEADS], soft = plain_softplus(x);
            if (SB_IS(&k, softplus, log1p_exp))
                soft = x > 20 ? x : plain_log1p(plain_exp(x));
            want_g[e] = -plain_exp(log_speed[e % HEADS]) * soft;
            want_beta[e] = plain_sigmoid(b[e]);
            if (SB_IS(&k, beta, act))
                want_beta[e] = sb_act(&k, want_beta[e]);
        }
        RUN(gates, &k, .a = a, .b = b, .a_log = &a_log, .dt_bias = &dt, .rows = T, .heads = HEADS,
            .g = g, .beta = beta);
        test_written("g", g, ALL);
        test_written("beta", beta, ALL);
        test_same("g", g, want_g, ALL);
        test_same("beta", beta, want_beta, ALL);
    }
}

/* Far below, softplus(x) is e^x and never negative; far above it is x; NaN is not lost. */
void test_gates_extremes(void **state)
{
    static const float a[8] = {-200, -88, -30, 0, 21, 300, -0.0f, NAN}, zero[1] = {0};
    (void)state;
    sb_knobs exact = test_knobs("");
    sb_matrix none = test_matrix(SB_FORMAT_bf16, zero, 1, 1);
    float *g = test_output(8), *beta = test_output(8);
    RUN(gates, &exact, .a = a, .b = a, .a_log = &none, .dt_bias = &none, .rows = 8, .heads = 1,
        .g = g, .beta = beta);
    assert_int_equal(sb_bits_f32(g[0]), 0x80000000u);
    assert_true(g[1] == -plain_exp(-88) && g[1] < 0);
    assert_true(g[2] == -plain_exp(-30));
    assert_true(g[3] == -(float)logl(2) && g[6] == g[3]);
    assert_true(g[4] == -21.0f && g[5] == -300.0f);
    assert_true(beta[0] == 0 && beta[3] == 0.5f && beta[5] == 1);
    assert_int_equal(sb_bits_f32(beta[7]), 0x7fc00000u);
    assert_true(isnan(g[7]));
}
