/* ops_norm.c - tests of the norms with a weight. */
#include "ref/ops/knob.h"
#include "tests/unit/ops.h"

#include <math.h>

static float mean_root(const float *x, size_t n, float eps)
{
    float mean = plain_dot(x, 1, x, 1, n) / (float)n;
    return plain_rsqrt(mean + eps);
}

OP_TEST(rmsnorm)
{
    static const char *const settings[] = {"",
                                           "act=bf16",
                                           "act=f16",
                                           "act=bf16 params=act",
                                           "act=bf16 norm_weight=act",
                                           "act=f16 norm_weight=act",
                                           "act=bf16 plain_norm=act",
                                           "act=f16 plain_norm=act params=act"};
    static const size_t widths[] = {1, 2, 17, 96, 333};
    enum { T = 3 };
    for (size_t s = 0; s < 2 * COUNT(settings); s++)
        for (size_t i = 0; i < COUNT(widths); i++) {
            const char *setting = settings[s / 2];
            sb_knobs k = test_knobs(setting);
            size_t n = widths[i];
            const int plain = s % 2 == 1, inner = plain && SB_IS(&k, plain_norm, act);
            const float *in = i == 1 ? test_hostile("x", T * n) : test_normal("x", T * n, 0, 3);
            sb_matrix weight = test_matrix(SB_FORMAT_f32, test_normal("w", n, 0, 0.4f), 1, n);
            const float *w = plain_param(&k, &weight, 0);
            float *out = test_output(T * n), *want = test_copy(NULL, T * n);
            for (size_t e = T * n; e-- > 0;) {
                float r = mean_root(in + e / n * n, n, 1e-6f);
                float x = in[e] * r, factor = 1.0f + w[e % n];
                factor = SB_IS(&k, norm_weight, act) ? sb_act(&k, factor) : factor;
                factor = plain ? w[e % n] : factor;
                x = inner ? sb_act(&k, x) : x;
                want[e] = sb_act(&k, x * factor);
            }
            RUN(rmsnorm, &k, .in = in, .weight = &weight, .eps = 1e-6f, .rows = T, .n = n,
                .out = out, .plain = plain);
            test_written("rmsnorm", out, T * n);
            test_same(setting, out, want, T * n);
        }
}

/* A zero row stays zero; eps is added to the mean (with n = 4 and ss = 4 eps, half of the radicand
 * is eps). */
OP_TEST(rmsnorm_of_zeros)
{
    static const float in[8] = {0, 0, 0, 0, 0x1p-10f, -0x1p-10f, 0x1p-10f, 0x1p-10f};
    static const float weight[4] = {0, 0, 3, -1}, zero[4] = {0, 0, 0, -0.0f};
    const float r = plain_rsqrt(0x1p-19f);
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

OP_TEST(gated_rmsnorm)
{
    static const char *const settings[] = {"", "act=bf16", "act=f16", "act=bf16 gated_norm=act",
                                           "act=f16 gated_norm=act params=act"};
    static const size_t widths[] = {1, 2, 31, 64};
    enum { T = 2, HEADS = 3 };
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

/* Norm before gate, plain weight: the norm does not cancel a huge z. */
OP_TEST(gated_rmsnorm_norm_before_gate)
{
    static const float in[2] = {2, -2}, z[2] = {100, 0}, weight[2] = {3, 5};
    sb_knobs exact = test_knobs("");
    sb_matrix w = test_matrix(SB_FORMAT_bf16, weight, 1, 2);
    float *out = test_output(2);
    RUN(gated_rmsnorm, &exact, .in = in, .z = z, .weight = &w, .eps = 1e-20f, .rows = 1, .heads = 1,
        .n = 2, .out = out);
    assert_true(out[0] == 300.0f && out[1] == 0.0f);
}
