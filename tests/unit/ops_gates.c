/* ops_gates.c - tests of the inputs of the delta rule: the norm of queries and keys and the
 * gates, in all the forms of engines. */
#include "ref/ops/knob.h"
#include "tests/unit/ops.h"

#include <math.h>
#include <string.h>

static int says(const sb_knobs *k, sb_knob knob, const char *value)
{
    return strcmp(sb_knob_value_name(k->value[knob]), value) == 0;
}

/* K-33, K-5: true if the knob rounds in this form of call. */
static int rounds(const sb_knobs *k, sb_knob knob, sb_form form)
{
    return says(k, knob, "act") || (says(k, knob, "act_prompt") && form == SB_FORM_prompt) ||
           (says(k, knob, "act_decode") && form == SB_FORM_decode);
}

static float plain_sqrt(float x)
{
    return (float)sqrtl((long double)x);
}

/* The factor of x under K-32, or its divisor if *divides. */
static float plain_norm(const sb_knobs *k, sb_form form, const float *x, size_t dk, float eps,
                        int *divides)
{
    static const char *const of_vllm[] = {"reciprocal", "divide", "rsqrt"};
    const char *name = sb_knob_value_name(k->value[SB_KNOB_l2norm]);
    float ss = plain_dot(x, 1, x, 1, dk), squares[64];
    name = strcmp(name, "vllm") == 0 ? of_vllm[form] : name;
    *divides = strcmp(name, "divide") == 0;
    if (*divides)
        return plain_sqrt(ss + eps);
    if (strcmp(name, "reciprocal") == 0)
        return 1.0f / plain_sqrt(ss + eps);
    if (strcmp(name, "max_norm") == 0)
        return 1.0f / fmaxf(plain_sqrt(ss), eps);
    if (strcmp(name, "rms_sum") == 0)
        return 1.0f / plain_sqrt(ss / (float)dk + eps / (float)dk);
    if (strcmp(name, "rms_mean") == 0)
        return plain_rsqrt(ss / (float)dk + eps);
    if (strcmp(name, "no_eps") == 0)
        return ss == 0 ? 0 : plain_rsqrt(ss);
    if (strcmp(name, "act") != 0)
        return plain_rsqrt(ss + eps);
    for (size_t i = 0; i < dk; i++)
        squares[i] = sb_act(k, x[i] * x[i]);
    return sb_act(k, plain_rsqrt(sb_act(k, sb_act(k, plain_sum(squares, dk)) + eps)));
}

/* Element j of a normalised vector. */
static float plain_unit(const sb_knobs *k, sb_form form, const float *x, size_t dk, size_t j,
                        float eps)
{
    int divides;
    float n = plain_norm(k, form, x, dk, eps, &divides), y = divides ? x[j] / n : x[j] * n;
    if (strncmp(sb_knob_value_name(k->value[SB_KNOB_l2norm]), "rms_", 4) == 0)
        y *= plain_power((double)dk, -0.5L);
    return rounds(k, SB_KNOB_l2norm_round, form) || says(k, SB_KNOB_l2norm, "act") ? sb_act(k, y)
                                                                                   : y;
}

/* Vectors of usual size, vectors around 2^-12 and zero vectors, for which eps matters. */
static float *vectors(size_t count, size_t dk)
{
    float *x = test_copy(test_normal("qkv", count, 0, 0.3f), count);
    for (size_t i = 0; i < count; i++)
        x[i] *= i / dk % 3 == 1 ? 0x1p-12f : i / dk % 7 == 5 ? 0.0f : 1.0f;
    return x;
}

static void check_l2norm(const char *settings, sb_form form, int recurrent, size_t T, size_t heads,
                         size_t dk, size_t rest)
{
    size_t stride = 2 * heads * dk + rest, n = T * heads * dk;
    sb_knobs knobs = test_knobs(settings);
    int divides = SB_IS(&knobs, q_scale, by_form) && recurrent;
    int leaves = SB_IS(&knobs, q_scale, output) ||
                 (!recurrent &&
                  (SB_IS(&knobs, delta_rule, chunk_fla) || SB_IS(&knobs, delta_rule, prompt_fla)));
    const float *in = vectors(T * stride, dk);
    float *q = test_output(n), *k = test_output(n);
    float *want_q = test_copy(NULL, n), *want_k = test_copy(NULL, n);
    float scale = leaves ? 1 : plain_power((double)dk, divides ? 0.5L : -0.5L);
    for (size_t e = 0; e < n; e++) {
        size_t t = e / (heads * dk), head = e / dk % heads, j = e % dk;
        const float *x = in + t * stride + head * dk, *y = x + heads * dk;
        float unit = plain_unit(&knobs, form, x, dk, j, 1e-6f);
        want_q[e] = divides ? unit / scale : unit * scale;
        want_k[e] = plain_unit(&knobs, form, y, dk, j, 1e-6f);
    }
    RUN(l2norm, &knobs, .qkv = in, .rows = T, .stride = stride, .heads = heads, .dk = dk,
        .eps = 1e-6f, .recurrent = recurrent, .form = form, .q = q, .k = k);
    test_written("q", q, n);
    test_written("k", k, n);
    test_same(settings, q, want_q, n);
    test_same(settings, k, want_k, n);
}

OP_TEST(l2norm)
{
    static const size_t shapes[][4] = {
        {1, 1, 1, 0}, {3, 2, 7, 5}, {2, 3, 64, 11}}; /* T nK dk rest */
    /* Only K-32 and K-33 round to the activation type. K-16 divides if the recurrent form
     * follows. */
    static const char *const settings[] = {"",
                                           "act=bf16",
                                           "q_scale=by_form",
                                           "q_scale=output",
                                           "delta_rule=chunk_fla",
                                           "delta_rule=prompt_fla act=bf16 l2norm_round=act",
                                           "act=bf16 l2norm_round=act",
                                           "act=bf16 l2norm_round=act_prompt",
                                           "l2norm=reciprocal",
                                           "l2norm=divide",
                                           "l2norm=max_norm",
                                           "l2norm=rms_sum",
                                           "l2norm=rms_mean",
                                           "l2norm=no_eps",
                                           "l2norm=act",
                                           "act=bf16 l2norm=act",
                                           "act=f16 l2norm=act q_scale=by_form",
                                           "l2norm=vllm act=bf16 l2norm_round=act_prompt"};
    for (size_t s = 0; s < COUNT(settings); s++)
        for (size_t i = 0; i < COUNT(shapes); i++)
            for (int call = 0; call < 6; call++)
                check_l2norm(settings[s], (sb_form)(call % 3), call / 3, shapes[i][0], shapes[i][1],
                             shapes[i][2], shapes[i][3]);
}

/* "eps is added to the sum, not to the mean": with ss = 1e-6 the norm is halved, for every dk. */
OP_TEST(l2norm_of_zeros)
{
    float in[32] = {0}, expected[8] = {0}; /* one head of width 8, queries then keys, two rows */
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

OP_TEST(l2norm_reads_queries_then_keys)
{
    enum { HEADS = 3 };
    static const float in[2 * HEADS + 1] = {1, -1, 1, -1, -1, 1, 77}; /* dk = 1: signs remain */
    sb_knobs exact = test_knobs("");
    float *q = test_output(HEADS), *k = test_output(HEADS);
    RUN(l2norm, &exact, .qkv = in, .rows = 1, .stride = 2 * HEADS + 1, .heads = HEADS, .dk = 1,
        .eps = 1e-20f, .q = q, .k = k);
    test_same("q", q, in, HEADS);
    test_same("k", k, in + HEADS, HEADS);
}

/* log(1 + e^x) as K-4 defines it, with the roundings of each form. */
static float plain_steps(const sb_knobs *k, sb_form form, float x)
{
    int is_vllm = says(k, SB_KNOB_softplus, "vllm");
    int abs = says(k, SB_KNOB_softplus, "log_exp_abs") || (is_vllm && form == SB_FORM_prompt);
    if (says(k, SB_KNOB_softplus, "single"))
        return plain_softplus(x);
    if (x > 20)
        return x;
    if (says(k, SB_KNOB_softplus, "log1p_exp"))
        return plain_log1p(plain_exp(x));
    float sum = 1 + plain_exp(abs ? -fabsf(x) : x);
    float y = (float)logl((long double)sum);
    return abs && x > 0 ? x + y : y;
}

static void check_gates(const char *settings, sb_form form)
{
    enum { T = 40, HEADS = 5, ALL = T * HEADS };
    sb_knobs k = test_knobs(settings);
    const float *a = test_normal("a", ALL, 0, 8), *b = test_normal("b", ALL, 0, 3);
    sb_matrix a_log = test_matrix(SB_FORMAT_f32, test_normal("A_log", HEADS, 0, 1.5f), 1, HEADS);
    sb_matrix dt = test_matrix(SB_FORMAT_f32, test_normal("dt_bias", HEADS, 0, 9), 1, HEADS);
    sb_knobs of_a_log = k;
    if (says(&k, SB_KNOB_a_log, "stored"))
        of_a_log = test_knobs("");
    const float *log_speed = plain_param(&of_a_log, &a_log, 0), *bias = plain_param(&k, &dt, 0);
    float *g = test_output(ALL), *beta = test_output(ALL), want_g[ALL], want_beta[ALL];
    for (size_t e = 0; e < ALL; e++) {
        float soft = plain_steps(&k, form, a[e] + bias[e % HEADS]);
        want_g[e] = -plain_exp(log_speed[e % HEADS]) * soft;
        want_beta[e] = plain_sigmoid(b[e]);
        if (rounds(&k, SB_KNOB_beta, form))
            want_beta[e] = sb_act(&k, want_beta[e]);
    }
    RUN(gates, &k, .a = a, .b = b, .a_log = &a_log, .dt_bias = &dt, .rows = T, .heads = HEADS,
        .form = form, .g = g, .beta = beta);
    test_written("g", g, ALL);
    test_written("beta", beta, ALL);
    test_same(settings, g, want_g, ALL);
    test_same(settings, beta, want_beta, ALL);
}

OP_TEST(gates)
{
    static const char *const settings[] = {"",
                                           "act=bf16",
                                           "softplus=log1p_exp",
                                           "softplus=log_exp",
                                           "softplus=log_exp_abs",
                                           "softplus=vllm",
                                           "act=bf16 beta=act",
                                           "act=bf16 beta=act_decode",
                                           "act=bf16 beta=act_prompt",
                                           "act=bf16 params=act a_log=stored",
                                           "act=bf16 params=plain_act",
                                           "act=f16 beta=act params=act softplus=log1p_exp"};
    for (size_t s = 0; s < COUNT(settings); s++)
        for (int form = 0; form < 3; form++)
            check_gates(settings[s], (sb_form)form);
}

/* Below -17, log(1 + e^x) from the rounded sum gives no decay; log1p still gives the small
 * decay. */
OP_TEST(gates_that_stop)
{
    static const float a[3] = {-16, -18, -30}, zero[1] = {0};
    static const char *const stop[] = {"softplus=log_exp", "softplus=log_exp_abs", "softplus=vllm"};
    sb_matrix none = test_matrix(SB_FORMAT_bf16, zero, 1, 1);
    for (size_t s = 0; s <= COUNT(stop); s++) {
        sb_knobs k = test_knobs(s < COUNT(stop) ? stop[s] : "softplus=log1p_exp");
        float *g = test_output(3), *beta = test_output(3);
        RUN(gates, &k, .a = a, .b = a, .a_log = &none, .dt_bias = &none, .rows = 3, .heads = 1,
            .g = g, .beta = beta);
        assert_true(g[0] < 0);
        assert_int_equal(g[1] == 0 && g[2] == 0, s < COUNT(stop));
    }
}

/* Far below 0, softplus(x) is e^x and never negative; far above, softplus(x) is x; NaN remains
 * NaN. */
OP_TEST(gates_extremes)
{
    static const float a[8] = {-200, -88, -30, 0, 21, 300, -0.0f, NAN}, zero[1] = {0};
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
