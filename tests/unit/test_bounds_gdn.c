/* test_bounds_gdn.c - the bounds of linear attention under its knobs hold for plain binary32
 * programs with other orders of summation and for the reference, and they are tight enough to be
 * useful. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ref/fast/fast.h"
#include "ref/ops/knob.h"
#include "tests/lib/plain.h"
#include "tests/lib/poison.h"
#include "tests/lib/plain_dot.h"
#include "tools/judge/bound/bound.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { ROWS = 130, HEADS = 3, CHANNELS = 40, TAPS = 4, MOST = ROWS * CHANNELS, ORDERS = 3 };

static sb_ball first[2][MOST], second[2][MOST]; /* [0]: of the library, [1]: of the reference */
static const sb_arithmetic *const arithmetic[2] = {&sb_arithmetic_library,
                                                   &sb_arithmetic_reference};

static float sum_of(const float *a, size_t n, int order)
{
    static const float one = 1.0f;
    return dot(a, 1, &one, 0, n, order);
}

static float *values(const char *name, size_t count, float mean, float scale)
{
    return test_copy(test_normal(name, count, mean, scale), count);
}

static void round_all(const sb_knobs *k, float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = sb_act(k, x[i]);
}

/* Asserts that every element is in its ball; *most becomes the largest distance from a centre, in
 * radii. */
static void inside(const char *what, const float *got, const sb_ball *in, size_t count,
                   double *most)
{
    for (size_t i = 0; i < count; i++) {
        double error = fabs((double)got[i] - in[i].mid), radius = SB_BOUND_SLACK * in[i].rad;
        if (!(error <= radius))
            fail_msg("%s: element %zu is %.9g, allowed %.9g +- %.3g", what, i, (double)got[i],
                     in[i].mid, radius);
        if (error > 0.0)
            *most = fmax(*most, error / radius);
    }
}

/* T-16: "A bound says nothing if every recorded error is below 2^-13 of it" */
static void tight(const char *what, double most)
{
    printf("  %-70s worst %.4f of the bound\n", what, most);
    assert_true(most > 0x1p-13);
}

/* --- convolution ------------------------------------------------------------------------------ */

static void plain_conv(const sb_knobs *k, const float *w, const float *u, float *out, int order)
{
    int products = SB_IS(k, conv_product, act);
    for (size_t t = 0; t < ROWS; t++)
        for (size_t ch = 0; ch < CHANNELS; ch++) {
            float terms[TAPS] = {0};
            for (size_t j = 0; j < TAPS; j++)
                if (t + j >= TAPS - 1)
                    terms[j] = w[ch * TAPS + j] * u[(t + j - (TAPS - 1)) * CHANNELS + ch];
            if (products)
                round_all(k, terms, TAPS);
            float c = sum_of(terms, TAPS, order);
            c = SB_IS(k, conv_sum, act) ? sb_act(k, c) : c;
            out[t * CHANNELS + ch] = sb_act(k, c / (1.0f + expf(-c)));
        }
}

TEST_WITH(test_conv, NULL, test_release)
{
    static const char *const settings[] = {"", "conv_product=act", "act=bf16 conv_product=act",
                                           "act=bf16 conv_product=act conv_sum=act"};
    for (size_t s = 0; s < COUNT(settings); s++) {
        sb_knobs k = test_knobs(settings[s]);
        const float *w = test_normal("w", CHANNELS * TAPS, 0, 1), *u = test_normal("u", MOST, 0, 2);
        sb_matrix weight = test_matrix(SB_FORMAT_f32, w, CHANNELS, TAPS);
        sb_conv_args a = {.in = u,
                          .weight = &weight,
                          .rows = ROWS,
                          .state = test_copy(NULL, CHANNELS * (TAPS - 1)),
                          .out = test_copy(NULL, MOST)};
        double most = 0.0, own = 0.0;
        for (int i = 0; i < 2; i++)
            assert_int_equal(sb_bound_conv(arithmetic[i], &k, &a, first[i], NULL), SB_OK);
        for (int order = 0; order < ORDERS; order++) {
            plain_conv(&k, w, u, a.out, order);
            inside(settings[s], a.out, first[0], MOST, &most);
        }
        tight(settings[s], most);
        assert_int_equal(sb_conv_fast(&k, &a), SB_OK);
        inside(settings[s], a.out, first[1], MOST, &own);
    }
}

/* --- gates ------------------------------------------------------------------------------------ */

static float plain_softplus_form(const sb_knobs *k, float x)
{
    if (x > 20.0f)
        return x;
    if (SB_IS(k, softplus, log1p_exp) || SB_IS(k, softplus, single))
        return log1pf(expf(x));
    if (SB_IS(k, softplus, log_exp) || x <= 0.0f)
        return logf(1.0f + expf(x));
    return x + logf(1.0f + expf(-x));
}

TEST_WITH(test_gates, NULL, test_release)
{
    static const char *const settings[] = {"",
                                           "softplus=log1p_exp",
                                           "softplus=log_exp",
                                           "softplus=log_exp_abs",
                                           "act=bf16 beta=act",
                                           "act=bf16 params=act a_log=stored"};
    enum { ALL = ROWS * HEADS };
    for (size_t s = 0; s < COUNT(settings); s++) {
        sb_knobs k = test_knobs(settings[s]);
        const float *log_speed = test_normal("A_log", HEADS, 0, 1);
        float *bias = values("dt_bias", HEADS, 0, 3);
        sb_matrix a_log = test_matrix(SB_FORMAT_f32, log_speed, 1, HEADS);
        sb_matrix dt_bias = test_matrix(SB_FORMAT_f32, bias, 1, HEADS);
        sb_gates_args a = {.a = test_normal("a", ALL, 0, 12),
                           .b = test_normal("b", ALL, 0, 3),
                           .a_log = &a_log,
                           .dt_bias = &dt_bias,
                           .rows = ROWS,
                           .heads = HEADS,
                           .g = test_copy(NULL, ALL),
                           .beta = test_copy(NULL, ALL)};
        double most = 0.0, own = 0.0;
        for (int i = 0; i < 2; i++)
            assert_int_equal(sb_bound_gates(arithmetic[i], &k, &a, first[i], second[i]), SB_OK);
        if (SB_IS(&k, params, act))
            round_all(&k, bias, HEADS);
        for (size_t e = 0; e < ALL; e++) {
            float x = a.a[e] + bias[e % HEADS];
            a.g[e] = -(expf(log_speed[e % HEADS]) * plain_softplus_form(&k, x));
            a.beta[e] = 1.0f / (1.0f + expf(-a.b[e]));
            a.beta[e] = SB_IS(&k, beta, act) ? sb_act(&k, a.beta[e]) : a.beta[e];
        }
        inside(settings[s], a.g, first[0], ALL, &most);
        inside(settings[s], a.beta, second[0], ALL, &most);
        tight(settings[s], most);
        assert_int_equal(sb_gates_fast(&k, &a), SB_OK);
        inside(settings[s], a.g, first[1], ALL, &own);
        inside(settings[s], a.beta, second[1], ALL, &own);
    }
}

/* --- l2norm ----------------------------------------------------------------------------------- */

enum { DK = 32 };

/* The norm of one vector under K-32, in binary32. */
static void plain_l2norm(const sb_knobs *k, const float *x, float *out, int order)
{
    float ss = dot(x, 1, x, 1, DK, order), root = 1.0f / sqrtf((float)DK), squares[DK];
    for (size_t i = 0; i < DK; i++) {
        float y = x[i] * (1.0f / sqrtf(ss + 1e-6f));
        if (SB_IS(k, l2norm, divide))
            y = x[i] / sqrtf(ss + 1e-6f);
        if (SB_IS(k, l2norm, max_norm))
            y = x[i] * (1.0f / fmaxf(sqrtf(ss), 1e-6f));
        if (SB_IS(k, l2norm, rms_sum))
            y = x[i] * (1.0f / sqrtf(ss / DK + 1e-6f / DK)) * root;
        if (SB_IS(k, l2norm, rms_mean))
            y = x[i] * (1.0f / sqrtf(ss / DK + 1e-6f)) * root;
        if (SB_IS(k, l2norm, no_eps))
            y = ss == 0.0f ? 0.0f : x[i] * (1.0f / sqrtf(ss));
        if (SB_IS(k, l2norm, act)) {
            for (size_t j = 0; j < DK; j++)
                squares[j] = sb_act(k, x[j] * x[j]);
            float sum = sb_act(k, sb_act(k, sum_of(squares, DK, order)) + 1e-6f);
            y = sb_act(k, x[i] * sb_act(k, 1.0f / sqrtf(sum)));
        }
        out[i] = SB_IS(k, l2norm_round, act) ? sb_act(k, y) : y;
    }
}

static void check_l2norm(const char *settings)
{
    enum { N = ROWS * DK };
    sb_knobs k = test_knobs(settings);
    float *in = values("qkv", 2 * N, 0, 0.3f), scale = 1.0f / sqrtf((float)DK);
    for (size_t i = 0; i < 2 * N; i++)
        in[i] *= i / DK % 3 == 1 ? 0x1p-12f : i / DK % 7 == 5 ? 0.0f : 1.0f;
    sb_l2norm_args a = {.qkv = in,
                        .rows = ROWS,
                        .stride = (size_t)2 * DK,
                        .heads = 1,
                        .dk = DK,
                        .eps = 1e-6f,
                        .q = test_copy(NULL, N),
                        .k = test_copy(NULL, N)};
    double most = 0.0, own = 0.0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(sb_bound_l2norm(arithmetic[i], &k, &a, first[i], second[i]), SB_OK);
    for (int order = 0; order < ORDERS; order++) {
        for (size_t t = 0; t < ROWS; t++) {
            plain_l2norm(&k, in + 2 * t * DK, a.q + t * DK, order);
            plain_l2norm(&k, in + (2 * t + 1) * DK, a.k + t * DK, order);
            for (size_t i = 0; i < DK && !SB_IS(&k, q_scale, output); i++)
                a.q[t * DK + i] *= scale;
        }
        inside(settings, a.q, first[0], N, &most);
        inside(settings, a.k, second[0], N, &most);
    }
    tight(settings, most);
    assert_int_equal(sb_l2norm_fast(&k, &a), SB_OK);
    inside(settings, a.q, first[1], N, &own);
    inside(settings, a.k, second[1], N, &own);
}

TEST_WITH(test_l2norm, NULL, test_release)
{
    static const char *const settings[] = {
        "l2norm=rsqrt",    "l2norm=reciprocal",   "l2norm=divide",
        "l2norm=max_norm", "l2norm=rms_sum",      "l2norm=rms_mean",
        "l2norm=no_eps",   "act=bf16 l2norm=act", "act=bf16 l2norm_round=act",
        "q_scale=output"};
    for (size_t s = 0; s < COUNT(settings); s++)
        check_l2norm(settings[s]);
}
