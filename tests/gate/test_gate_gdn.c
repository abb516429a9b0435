/* test_gate_gdn.c - vectors of the convolution, the gates of the delta rule and of norms: plain
 * binary32 kernels pass, broken ones fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <mpfr.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gate/held.h"
#include "tests/lib/suite.h"

/* Variants of the kernel: a right one, others with another order, then mistakes. */
enum {
    RIGHT,
    OTHER, /* sums from last to first, factors in another order, the other form of softplus */
    EX2,   /* e^x as 2^(x log2 e), both in binary32 */
    /* of the convolution */
    NO_SILU,
    NO_STATE,     /* starts from zeros */
    NEWEST_FIRST, /* the columns of the input state in reverse order */
    SHIFTED,      /* the output state is that of the row before */
    /* of the gates */
    WRONG_SIDE, /* takes softplus(x) as x below the threshold */
    NO_LIMIT,   /* log1p(e^x) everywhere */
    SHORT_SUM,  /* log(1 + e^x) with the sum rounded */
    PLAIN_A,    /* A_log instead of its exponential */
    TWICE_BETA, /* beta doubled, as for negative eigenvalues */
    /* of norms */
    EPS_OUTSIDE,    /* eps added to the root */
    EPS_ELSEWHERE,  /* added to the mean instead of the sum, and vice versa */
    OTHER_WEIGHT,   /* w instead of 1 + w, and vice versa */
    GATE_FIRST,     /* the gate is applied before the norm */
    GATE_IS_SIGMOID /* instead of silu */
};

typedef struct kernel {
    const sb_gate_case *c;
    int kind;
    size_t rows, n; /* n: channels, heads, or columns of a norm */
    float *in[4], *out[2];
} kernel;

static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

static float exponential(int kind, float x)
{
    return kind == EX2 ? exp2f(x * 0x1.715476p+0f) : expf(x);
}

static void conv_channel(const kernel *x, size_t ch, size_t width)
{
    size_t back = width - 1;
    const float *weight = x->in[1] + ch * width, *old = x->in[2] + ch * back;
    float *u = calloc(back + x->rows, sizeof *u);
    assert_non_null(u);
    for (size_t i = 0; i < back && x->kind != NO_STATE; i++)
        u[i] = old[x->kind == NEWEST_FIRST ? back - 1 - i : i];
    for (size_t t = 0; t < x->rows; t++)
        u[back + t] = x->in[0][t * x->n + ch];
    for (size_t t = 0; t < x->rows; t++) {
        float sum = 0.0f;
        for (size_t i = 0; i < width; i++) {
            size_t j = x->kind == OTHER ? width - 1 - i : i;
            sum = x->kind == OTHER ? fmaf(weight[j], u[t + j], sum) : sum + weight[j] * u[t + j];
        }
        x->out[0][t * x->n + ch] = x->kind == NO_SILU ? sum
                                   : x->kind == OTHER ? sum / (1.0f + expf(-sum))
                                                      : sum * sigmoid(sum);
    }
    for (size_t i = 0; i < back; i++)
        x->out[1][ch * back + i] = u[x->rows + i - (x->kind == SHIFTED)];
    free(u);
}

static void conv(const kernel *x)
{
    for (size_t ch = 0; ch < x->n; ch++)
        conv_channel(x, ch, sb_gate_size(x->c, "width"));
}

static float softplus(int kind, float x)
{
    if (kind == NO_LIMIT)
        return log1pf(expf(x));
    if (kind == SHORT_SUM)
        return logf(1.0f + expf(x));
    if (kind == WRONG_SIDE)
        return x < 20.0f ? x : log1pf(expf(x));
    if (kind == OTHER)
        return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
    return x > 20.0f ? x : log1pf(exponential(kind, x));
}

static void gates(const kernel *x)
{
    for (size_t at = 0; at < x->rows * x->n; at++) {
        size_t h = at % x->n;
        float speed = x->kind == PLAIN_A ? x->in[2][h] : exponential(x->kind, x->in[2][h]);
        x->out[0][at] = -speed * softplus(x->kind, x->in[0][at] + x->in[3][h]);
        x->out[1][at] = 1.0f / (1.0f + exponential(x->kind, -x->in[1][at])) *
                        (x->kind == TWICE_BETA ? 2.0f : 1.0f);
    }
}

/* The factor of a norm over y, from the mean of the squares or from their sum. */
static float shrink(const kernel *x, const float *y, int mean)
{
    float sum = 0.0f, n = (float)x->n;
    for (size_t i = 0; i < x->n; i++)
        sum += x->kind == OTHER ? y[x->n - 1 - i] * y[x->n - 1 - i] : y[i] * y[i];
    float eps = x->kind == EPS_OUTSIDE     ? 0.0f
                : x->kind != EPS_ELSEWHERE ? 1e-6f
                : mean                     ? 1e-6f / n
                                           : 1e-6f * n;
    float root = sqrtf((mean ? sum / n : sum) + eps);
    return 1.0f / (x->kind == EPS_OUTSIDE ? root + 1e-6f : root);
}

static void l2norm(const kernel *x)
{
    float scale = sb_gate_size(x->c, "scale") ? 1.0f / sqrtf((float)x->n) : 1.0f;
    for (size_t row = 0; row < x->rows; row++) {
        const float *y = x->in[0] + row * x->n;
        float r = shrink(x, y, 0);
        for (size_t i = 0; i < x->n; i++)
            x->out[0][row * x->n + i] = x->kind == OTHER ? y[i] * (r * scale) : y[i] * r * scale;
    }
}

static float gate_of(const kernel *x, size_t at)
{
    if (!x->in[2])
        return 1.0f;
    float z = x->in[2][at];
    return x->kind == GATE_IS_SIGMOID ? sigmoid(z)
           : x->kind == OTHER         ? z / (1.0f + expf(-z))
           : x->kind == EX2           ? z / (1.0f + exponential(EX2, -z))
                                      : z * sigmoid(z);
}

/* rmsnorm, or gated_rmsnorm if there is a z. */
static void norm(const kernel *x)
{
    float plain = (x->in[2] == NULL) == (x->kind == OTHER_WEIGHT) ? 0.0f : 1.0f;
    float *y = calloc(x->n, sizeof *y);
    assert_non_null(y);
    for (size_t row = 0; row < x->rows; row++) {
        for (size_t i = 0; i < x->n; i++)
            y[i] = x->in[0][row * x->n + i] *
                   (x->kind == GATE_FIRST ? gate_of(x, row * x->n + i) : 1.0f);
        float r = shrink(x, y, 1);
        for (size_t i = 0; i < x->n; i++) {
            float gate = x->kind == GATE_FIRST ? 1.0f : gate_of(x, row * x->n + i);
            float w = x->in[1][i] + plain;
            x->out[0][row * x->n + i] =
                x->kind == OTHER ? w * gate * (y[i] * r) : y[i] * r * w * gate;
        }
    }
    free(y);
}

static const struct op {
    const char *name, *columns, *inputs[4];
    void (*run)(const kernel *x);
} ops[] = {{"conv", "channels", {"x", "weight", "conv_state"}, conv},
           {"gates", "heads", {"a", "b", "A_log", "dt_bias"}, gates},
           {"l2norm", "dk", {"x"}, l2norm},
           {"rmsnorm", "n", {"x", "weight"}, norm},
           {"gated_rmsnorm", "n", {"x", "weight", "z"}, norm}};
enum { OPS = sizeof ops / sizeof *ops };

static const struct op *op_of(const char *name)
{
    size_t i = 0;
    while (strcmp(ops[i].name, name) != 0)
        i++;
    return &ops[i];
}

static kernel kernel_run(const sb_gate_case *c, int kind)
{
    const struct op *op = op_of(c->op->name);
    kernel x = {
        .c = c, .kind = kind, .rows = sb_gate_size(c, "rows"), .n = sb_gate_size(c, op->columns)};
    if (op->run == l2norm)
        x.rows *= sb_gate_size(c, "heads");
    for (size_t i = 0; i < 4 && op->inputs[i]; i++)
        assert_non_null(x.in[i] = sb_gate_values(c, op->inputs[i]));
    for (size_t o = 0; o < c->outputs; o++)
        assert_non_null(x.out[o] = calloc(c->output[o].count, sizeof(float)));
    op->run(&x);
    return x;
}

static void kernel_free(kernel *x)
{
    for (size_t i = 0; i < 4; i++)
        free(x->in[i]);
    free(x->out[0]);
    free(x->out[1]);
}

static double worst_of(const char *op, const char *shape, const char *regime, int kind,
                       size_t output)
{
    sb_gate_case *c = held_case(op, shape, regime, SB_DTYPE_BF16);
    kernel x = kernel_run(c, kind);
    double worst = held_worst(c, "fp32", output, x.out[output]);
    kernel_free(&x);
    sb_gate_case_free(c);
    return worst;
}

/* The share is 0.6: in regime cancellation, sums of conv are smaller than the roundings of their
 * terms, and softplus far below 0 is smaller than the least number. */
TEST(exact_lies_within_every_bound)
{
    for (size_t i = 0; i < OPS; i++)
        held_everywhere(ops[i].name, 0.6);
}

/* The right kernels pass, in binary32 and rounded to bfloat16. */
static double check_plain(const char *op, const char *shape, const char *regime)
{
    sb_gate_case *c = held_case(op, shape, regime, SB_DTYPE_BF16);
    double most = 0.0;
    for (int kind = RIGHT; kind <= OTHER; kind++) {
        kernel x = kernel_run(c, kind);
        for (size_t o = 0; o < c->outputs; o++) {
            double worst = held_worst(c, "fp32", o, x.out[o]);
            size_t outside = held_outside_bf16(c, "fp32", o, x.out[o]);
            most = fmax(most, worst);
            if (!(worst <= 1.0) || outside)
                fail_msg("%s %s %s: kernel %d: out.%s is at %g, %zu outside in bf16", op, shape,
                         regime, kind, c->output[o].name, worst, outside);
        }
        kernel_free(&x);
    }
    sb_gate_case_free(c);
    return most;
}

TEST(plain_kernels_pass)
{
    for (size_t i = 0; i < OPS; i++) {
        const sb_gate_op *op = sb_gate_op_find(ops[i].name);
        double most = 0.0;
        for (int g = 0; g < SB_GATE_REGIMES; g++)
            for (size_t s = 0; sb_gate_takes(op, (sb_gate_regime)g) && op->shapes[s]; s++)
                most = fmax(most, check_plain(op->name, op->shapes[s],
                                              sb_gate_regime_name((sb_gate_regime)g)));
        print_message("%s: error / bound at most %.3f\n", op->name, most);
    }
}

/* T-81: "exp has E = F + G |x|": such an exponential passes under the libraries that have it and if
 * no library is named. It fails under a library that promises more. A kernel that is wrong in every
 * library still fails. */
TEST(exponentials_that_round_their_argument)
{
    static const char *const names[] = {"gates", "gated_rmsnorm"};
    static const char *const regimes[] = {"normal", "negative", "huge"};
    static const char *const good[] = {"fp32", "fp32:triton", "fp32:cuda_fast", "bf16_mma"};
    for (size_t i = 0; i < 2; i++) {
        double other = 0.0;
        for (size_t r = 0; r < 3; r++) {
            sb_gate_case *c = held_case(names[i], NULL, regimes[r], SB_DTYPE_BF16);
            kernel x = kernel_run(c, EX2);
            for (size_t o = 0; o < c->outputs; o++)
                for (size_t a = 0; a < sizeof good / sizeof *good; a++)
                    assert_true(held_worst(c, good[a], o, x.out[o]) <= 1.0);
            other = fmax(other, held_worst(c, "fp32:sleef_u10", 0, x.out[0]));
            kernel_free(&x);
            x = kernel_run(c, i ? GATE_IS_SIGMOID : PLAIN_A);
            assert_true(held_worst(c, "fp32", 0, x.out[0]) > 100.0);
            kernel_free(&x);
            sb_gate_case_free(c);
        }
        print_message("%s: %.2f of the bound of sleef_u10\n", names[i], other);
        assert_true(i || other > 1.0); /* in the norm, the sum of squares has most of the bound */
    }
}

TEST(planted_mistakes_fail)
{
    static const struct {
        const char *op, *shape, *regime, *mistake;
        size_t output;
    } all[] = {
        {"conv", NULL, "normal", "taps_reversed", 0},
        {"conv", NULL, "normal", "conv_state_stale", 1},
        {"gates", NULL, "normal", "no_dt_bias", 0},
        {"l2norm", NULL, "tiny", "eps_on_mean", 0},
        {"l2norm", "scale=1", "normal", "query_unscaled", 0},
        {"rmsnorm", NULL, "normal", "norm_plain_weight", 0},
        {"gated_rmsnorm", NULL, "normal", "gated_norm_one_plus", 0},
        {"gated_rmsnorm", NULL, "normal", "gate_before_norm", 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        sb_gate_case *c = held_case(all[i].op, all[i].shape, all[i].regime, SB_DTYPE_BF16);
        double worst = held_mistake_in(c, "fp32", all[i].output, all[i].mistake);
        if (!(worst > 1.0))
            fail_msg("%s %s: %s is at %g", all[i].op, all[i].regime, all[i].mistake, worst);
        sb_gate_case_free(c);
    }
}

/* V-144: "is not one of them" - the forms of softplus */
TEST(broken_kernels_fail)
{
    static const struct {
        const char *op, *shape, *regime;
        int kind;
        size_t output;
        int passes; /* the inputs cannot show the mistake */
    } all[] = {
        {"conv", NULL, "normal", NO_SILU, 0, 0},
        {"conv", NULL, "normal", NO_STATE, 0, 0},
        {"conv", NULL, "normal", NEWEST_FIRST, 0, 0},
        {"conv", "width=2", "normal", NEWEST_FIRST, 0, 1},
        {"conv", NULL, "normal", SHIFTED, 1, 0},
        {"conv", "rows=1", "normal", SHIFTED, 1, 0},
        {"gates", NULL, "normal", WRONG_SIDE, 0, 0},
        {"gates", NULL, "huge", WRONG_SIDE, 0, 0},
        {"gates", NULL, "ties", NO_LIMIT, 0, 1},
        {"gates", NULL, "huge", NO_LIMIT, 0, 0},
        {"gates", NULL, "negative", SHORT_SUM, 0, 0},
        {"gates", NULL, "normal", PLAIN_A, 0, 0},
        {"gates", NULL, "normal", TWICE_BETA, 1, 0},
        {"l2norm", NULL, "tiny", EPS_OUTSIDE, 0, 0},
        {"l2norm", NULL, "normal", EPS_ELSEWHERE, 0, 1},
        {"l2norm", NULL, "tiny", EPS_ELSEWHERE, 0, 0},
        {"rmsnorm", NULL, "tiny", EPS_OUTSIDE, 0, 0},
        {"rmsnorm", NULL, "tiny", EPS_ELSEWHERE, 0, 0},
        {"rmsnorm", NULL, "normal", OTHER_WEIGHT, 0, 0},
        {"gated_rmsnorm", NULL, "tiny", EPS_OUTSIDE, 0, 0},
        {"gated_rmsnorm", NULL, "normal", OTHER_WEIGHT, 0, 0},
        {"gated_rmsnorm", NULL, "normal", GATE_FIRST, 0, 0},
        {"gated_rmsnorm", NULL, "normal", GATE_IS_SIGMOID, 0, 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        double worst = worst_of(all[i].op, all[i].shape, all[i].regime, all[i].kind, all[i].output);
        if ((worst <= 1.0) != all[i].passes)
            fail_msg("%s %s %s: kernel %d is at %g", all[i].op, all[i].shape ? all[i].shape : "",
                     all[i].regime, all[i].kind, worst);
    }
}

/* --- the real value, computed with MPFR ------------------------------------------------------- */

enum { BITS = 300 };

static void wide_sigmoid(mpfr_t y, const mpfr_t x)
{
    mpfr_neg(y, x, MPFR_RNDN);
    mpfr_exp(y, y, MPFR_RNDN);
    mpfr_add_ui(y, y, 1, MPFR_RNDN);
    mpfr_ui_div(y, 1, y, MPFR_RNDN);
}

static void wide_conv(const kernel *x, size_t i, mpfr_t y, mpfr_t t)
{
    size_t width = sb_gate_size(x->c, "width"), back = width - 1, ch = i % x->n;
    mpfr_set_zero(y, 1);
    for (size_t j = 0; j < width; j++) {
        size_t at = i / x->n + j;
        float u = at < back ? x->in[2][ch * back + at] : x->in[0][(at - back) * x->n + ch];
        mpfr_set_flt(t, u, MPFR_RNDN);
        mpfr_mul_d(t, t, (double)x->in[1][ch * width + j], MPFR_RNDN);
        mpfr_add(y, y, t, MPFR_RNDN);
    }
    wide_sigmoid(t, y);
    mpfr_mul(y, y, t, MPFR_RNDN);
}

static void wide_gates(const kernel *x, size_t i, mpfr_t y, mpfr_t t)
{
    mpfr_set_flt(y, x->in[0][i], MPFR_RNDN);
    mpfr_add_d(y, y, (double)x->in[3][i % x->n], MPFR_RNDN);
    mpfr_exp(y, y, MPFR_RNDN);
    mpfr_log1p(y, y, MPFR_RNDN);
    mpfr_set_flt(t, x->in[2][i % x->n], MPFR_RNDN);
    mpfr_exp(t, t, MPFR_RNDN);
    mpfr_mul(y, y, t, MPFR_RNDN);
    mpfr_neg(y, y, MPFR_RNDN);
}

static void wide_norm(const kernel *x, size_t i, mpfr_t y, mpfr_t t)
{
    int mean = op_of(x->c->op->name)->run == norm;
    const float *row = x->in[0] + i / x->n * x->n;
    mpfr_set_zero(y, 1);
    for (size_t j = 0; j < x->n; j++) {
        mpfr_set_flt(t, row[j], MPFR_RNDN);
        mpfr_fma(y, t, t, y, MPFR_RNDN);
    }
    if (mean)
        mpfr_div_ui(y, y, (unsigned long)x->n, MPFR_RNDN);
    mpfr_add_d(y, y, (double)1e-6f, MPFR_RNDN);
    mpfr_rec_sqrt(y, y, MPFR_RNDN);
    mpfr_mul_d(y, y, (double)row[i % x->n], MPFR_RNDN);
    if (mean) {
        mpfr_set_flt(t, x->in[1][i % x->n], MPFR_RNDN);
        mpfr_add_ui(t, t, x->in[2] ? 0 : 1, MPFR_RNDN);
        mpfr_mul(y, y, t, MPFR_RNDN);
    }
    if (x->in[2]) {
        mpfr_mul_d(y, y, (double)x->in[2][i], MPFR_RNDN);
        mpfr_t z;
        mpfr_init2(z, BITS);
        mpfr_set_flt(z, x->in[2][i], MPFR_RNDN);
        wide_sigmoid(t, z);
        mpfr_mul(y, y, t, MPFR_RNDN);
        mpfr_clear(z);
    }
}

static void wide_beta(const kernel *x, size_t i, mpfr_t y, mpfr_t t)
{
    mpfr_set_flt(t, x->in[1][i], MPFR_RNDN);
    wide_sigmoid(y, t);
}

static void check_wide(const char *op, const char *regime, size_t output,
                       void (*wide)(const kernel *x, size_t i, mpfr_t y, mpfr_t t))
{
    sb_gate_case *c = held_case(op, NULL, regime, SB_DTYPE_BF16);
    kernel x = kernel_run(c, RIGHT);
    mpfr_t y, t;
    mpfr_inits2(BITS, y, t, (mpfr_ptr)0);
    for (size_t i = 0; i < c->output[output].count; i++) {
        sb_dd real = c->output[output].real[i];
        wide(&x, i, y, t);
        double size = fabs(mpfr_get_d(y, MPFR_RNDN));
        mpfr_sub_d(y, y, real.hi, MPFR_RNDN);
        mpfr_sub_d(y, y, real.lo, MPFR_RNDN);
        double far = fabs(mpfr_get_d(y, MPFR_RNDN));
        if (!(far <= size * 0x1p-80 + 0x1p-1000))
            fail_msg("%s %s: element %zu is off by %g of %g", op, regime, i, far, size);
    }
    mpfr_clears(y, t, (mpfr_ptr)0);
    kernel_free(&x);
    sb_gate_case_free(c);
}

TEST(real_values_are_those_of_mpfr)
{
    static const char *const regimes[] = {"normal", "negative", "tiny", "least", "zeros"};
    for (size_t r = 0; r < sizeof regimes / sizeof *regimes; r++) {
        check_wide("conv", regimes[r], 0, wide_conv);
        check_wide("gates", regimes[r], 0, wide_gates);
        check_wide("gates", regimes[r], 1, wide_beta);
        check_wide("l2norm", regimes[r], 0, wide_norm);
        check_wide("rmsnorm", regimes[r], 0, wide_norm);
        check_wide("gated_rmsnorm", regimes[r], 0, wide_norm);
    }
    mpfr_free_cache();
}
