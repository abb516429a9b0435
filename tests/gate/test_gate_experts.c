/* test_gate_experts.c - vectors of routed experts, of the shared expert and of their sum. They are
 * compared with formulas in 300 bits. Plain kernels pass, and kernels with mistakes of real kernels
 * fail. */
#include "tests/lib/suite.h"

#include <math.h>
#include <mpfr.h>
#include <stdlib.h>
#include <string.h>

#include "ref/formats/format.h"
#include "tests/gate/check_op.h"

#define EXPERTS "rows=3,experts=4,slots=2,hidden=160,inner=128"
#define SHARED "rows=3,hidden=160,inner=128"
#define FEW_EXPERTS "rows=3,experts=3,slots=2,hidden=160,inner=32"
#define NARROW_SHARED "rows=3,hidden=160,inner=32"

typedef enum layer { GATE, UP, DOWN } layer;

/* Mistakes of a kernel beyond those of enum check_fault. */
typedef enum slip {
    NO_SLIP,
    HALVES,    /* up is in front of gate */
    COLLAPSED, /* up takes the factor of gate, in one expert */
    REVERSED,  /* weights go to the slots in reverse order */
    NO_GATE    /* the shared expert without its gate */
} slip;

static int shared(const sb_gate_case *c)
{
    return strcmp(c->op->name, "shared_expert") == 0;
}

static uint32_t size_of(const sb_gate_case *c, const char *name)
{
    return (uint32_t)sb_gate_size(c, name);
}

/* One row of a layer of an expert: cols values. */
static void weight_row(const sb_gate_case *c, layer of, uint32_t expert, uint32_t row, int fault,
                       slip how, double *values)
{
    static const char *const prefix[] = {"gate_proj.", "up_proj.", "down_proj."};
    const uint32_t hidden = size_of(c, "hidden"), inner = size_of(c, "inner");
    check_weight w = {.c = c,
                      .prefix = shared(c)    ? prefix[of]
                                : of == DOWN ? "w2_"
                                             : "w13_",
                      .rows = of == DOWN  ? hidden
                              : shared(c) ? inner
                                          : 2 * inner,
                      .cols = of == DOWN ? inner : hidden,
                      .expert = expert,
                      .fault = fault};
    if (!shared(c) && of != DOWN) {
        uint32_t half = (of == UP) != (how == HALVES);
        row += half * inner;
        w.factor = how == COLLAPSED && expert == 1 ? 0 : half;
    }
    for (uint32_t i = 0; i < w.cols; i++)
        values[i] = check_value(&w, row, i);
}

static float dot(const double *w, const float *x, size_t n, int backwards)
{
    float sum[4] = {0};
    for (size_t i = 0; i < n; i++) {
        size_t at = backwards ? n - 1 - i : i;
        sum[backwards ? i % 4 : 0] += (float)w[at] * x[at];
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* down( silu(gate x) up x ) in binary32. */
static void run_mlp(const sb_gate_case *c, uint32_t expert, const float *x, int fault, slip how,
                    int backwards, float *out)
{
    const uint32_t hidden = size_of(c, "hidden"), inner = size_of(c, "inner");
    double *row = calloc(hidden + inner, sizeof *row);
    float *h = calloc(inner, sizeof *h);
    for (uint32_t i = 0; i < inner; i++) {
        weight_row(c, GATE, expert, i, fault, how, row);
        float gate = dot(row, x, hidden, backwards);
        weight_row(c, UP, expert, i, fault, how, row);
        h[i] = gate / (1.0f + expf(-gate)) * dot(row, x, hidden, backwards);
    }
    for (uint32_t i = 0; i < hidden; i++) {
        weight_row(c, DOWN, expert, i, fault, how, row);
        out[i] = dot(row, h, inner, backwards);
    }
    free(row);
    free(h);
}

static void run_token(const sb_gate_case *c, size_t t, const float *x, int fault, slip how,
                      int backwards, float *out)
{
    const uint32_t hidden = size_of(c, "hidden");
    float *f = calloc(hidden, sizeof *f);
    if (shared(c)) {
        float *gate = sb_gate_values(c, "shared_expert_gate.weight"), logit = 0;
        for (uint32_t i = 0; i < hidden; i++)
            logit += gate[i] * x[i];
        run_mlp(c, 0, x, fault, how, backwards, f);
        for (uint32_t i = 0; i < hidden; i++)
            out[i] = how == NO_GATE ? f[i] : f[i] / (1.0f + expf(-logit));
        free(gate);
        free(f);
        return;
    }
    const uint32_t slots = size_of(c, "slots");
    const int32_t *ids = (const int32_t *)(const void *)sb_gate_input(c, "topk_ids")->data;
    const float *weights = (const float *)(const void *)sb_gate_input(c, "topk_weights")->data;
    for (uint32_t s = 0; s < slots; s++) {
        uint32_t slot = backwards ? slots - 1 - s : s;
        float w = weights[t * slots + (how == REVERSED ? slots - 1 - slot : slot)];
        run_mlp(c, (uint32_t)ids[t * slots + slot], x, fault, how, backwards, f);
        for (uint32_t i = 0; i < hidden; i++)
            out[i] += w * f[i];
    }
    free(f);
}

static float *run(const sb_gate_case *c, int fault, slip how, int backwards)
{
    const uint32_t rows = size_of(c, "rows"), hidden = size_of(c, "hidden");
    float *x = sb_gate_values(c, "x"), *out = calloc((size_t)rows * hidden, sizeof *out);
    for (uint32_t t = 0; t < rows; t++)
        run_token(c, t, x + (size_t)t * hidden, fault, how, backwards, out + (size_t)t * hidden);
    free(x);
    return out;
}

/* --- the real values, in 300 bits ------------------------------------------------------------- */

static void sum_of(const sb_gate_case *c, layer of, uint32_t expert, uint32_t row, mpfr_t *x,
                   size_t n, double *scratch, mpfr_t sum)
{
    mpfr_t product;
    mpfr_init2(product, 300);
    mpfr_set_zero(sum, 1);
    weight_row(c, of, expert, row, CHECK_NO_FAULT, NO_SLIP, scratch);
    for (size_t i = 0; i < n; i++) {
        mpfr_mul_d(product, x[i], scratch[i], MPFR_RNDN);
        mpfr_add(sum, sum, product, MPFR_RNDN);
    }
    mpfr_clear(product);
}

/* y becomes y / (1 + e^-x) */
static void times_sigmoid(mpfr_t y, mpfr_t x)
{
    mpfr_t e;
    mpfr_init2(e, 300);
    mpfr_neg(e, x, MPFR_RNDN);
    mpfr_exp(e, e, MPFR_RNDN);
    mpfr_add_ui(e, e, 1, MPFR_RNDN);
    mpfr_div(y, y, e, MPFR_RNDN);
    mpfr_clear(e);
}

/* The output of one MLP, out[hidden]. */
static void real_mlp(const sb_gate_case *c, uint32_t expert, mpfr_t *x, mpfr_t *out)
{
    const uint32_t hidden = size_of(c, "hidden"), inner = size_of(c, "inner");
    double *scratch = calloc(hidden + inner, sizeof *scratch);
    mpfr_t *h = calloc(inner, sizeof *h), gate, up;
    mpfr_inits2(300, gate, up, (mpfr_ptr)0);
    for (uint32_t i = 0; i < inner; i++) {
        mpfr_init2(h[i], 300);
        sum_of(c, GATE, expert, i, x, hidden, scratch, gate);
        sum_of(c, UP, expert, i, x, hidden, scratch, up);
        mpfr_mul(h[i], gate, up, MPFR_RNDN);
        times_sigmoid(h[i], gate);
    }
    for (uint32_t i = 0; i < hidden; i++)
        sum_of(c, DOWN, expert, i, h, inner, scratch, out[i]);
    for (uint32_t i = 0; i < inner; i++)
        mpfr_clear(h[i]);
    mpfr_clears(gate, up, (mpfr_ptr)0);
    free(h);
    free(scratch);
}

/* Checks all columns of the first token. */
static void check_real(const sb_gate_case *c)
{
    const uint32_t hidden = size_of(c, "hidden"), slots = shared(c) ? 1 : size_of(c, "slots");
    float *values = sb_gate_values(c, "x");
    float *gate = shared(c) ? sb_gate_values(c, "shared_expert_gate.weight") : NULL;
    mpfr_t *x = calloc(hidden, sizeof *x), *f = calloc(hidden, sizeof *f),
           *y = calloc(hidden, sizeof *y), logit;
    mpfr_init2(logit, 300);
    mpfr_set_zero(logit, 1);
    for (uint32_t i = 0; i < hidden; i++) {
        mpfr_inits2(300, x[i], f[i], y[i], (mpfr_ptr)0);
        mpfr_set_d(x[i], (double)values[i], MPFR_RNDN);
        mpfr_set_zero(y[i], 1);
        if (gate)
            mpfr_set_d(y[i], (double)values[i] * (double)gate[i], MPFR_RNDN);
        mpfr_add(logit, logit, y[i], MPFR_RNDN);
        mpfr_set_zero(y[i], 1);
    }
    double size = 0;
    for (uint32_t s = 0; s < slots; s++) {
        uint32_t expert = 0;
        double w = 1;
        if (!gate) {
            expert = ((const uint32_t *)(const void *)sb_gate_input(c, "topk_ids")->data)[s];
            w = (double)((const float *)(const void *)sb_gate_input(c, "topk_weights")->data)[s];
        }
        real_mlp(c, expert, x, f);
        for (uint32_t i = 0; i < hidden; i++) {
            mpfr_mul_d(f[i], f[i], w, MPFR_RNDN);
            mpfr_add(y[i], y[i], f[i], MPFR_RNDN);
            size = fmax(size, fabs(mpfr_get_d(f[i], MPFR_RNDN)));
        }
    }
    const double allowed = (strncmp(c->format, "nvfp4", 5) == 0 ? 0x1p-42 : 0x1p-80) * size;
    for (uint32_t i = 0; i < hidden; i++) {
        if (gate)
            times_sigmoid(y[i], logit);
        mpfr_sub_d(y[i], y[i], c->output[0].real[i].hi, MPFR_RNDN);
        mpfr_sub_d(y[i], y[i], c->output[0].real[i].lo, MPFR_RNDN);
        if (!(fabs(mpfr_get_d(y[i], MPFR_RNDN)) <= allowed))
            fail_msg("%s %s %s: column %u is off by %g", c->op->name, c->format,
                     sb_gate_regime_name(c->regime), i, mpfr_get_d(y[i], MPFR_RNDN));
        mpfr_clears(x[i], f[i], y[i], (mpfr_ptr)0);
    }
    mpfr_clear(logit);
    free(x);
    free(f);
    free(y);
    free(values);
    free(gate);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void check_kernels(const sb_gate_case *c)
{
    for (int backwards = 0; backwards < 2; backwards++) {
        double worst;
        float *got = run(c, CHECK_NO_FAULT, NO_SLIP, backwards);
        size_t outside = check_outside(c, "fp32", got, &worst);
        if (outside)
            fail_msg("%s %s %s: a plain kernel fails in %zu elements, %g of the bound", c->op->name,
                     c->format, sb_gate_regime_name(c->regime), outside, worst);
        for (size_t i = 0; i < c->output[0].count; i++)
            got[i] = sb_round_to(SB_FORMAT_bf16, got[i]);
        assert_int_equal(check_outside_rounded(c, "fp32", SB_FORMAT_bf16, got), 0);
        free(got);
    }
}

static void every_regime(const char *op, const char *const *formats, const char *shape)
{
    for (size_t f = 0; formats[f]; f++)
        for (int regime = 0; regime < SB_GATE_REGIMES; regime++) {
            sb_gate_case *c =
                check_case(op, formats[f], shape, (sb_gate_regime)regime, SB_DTYPE_BF16);
            check_contract(c);
            check_kernels(c);
            if (regime == SB_GATE_REGIME_normal) {
                check_mistakes(c);
                check_real(c);
            }
            sb_gate_case_free(c);
        }
}

TEST(test_experts)
{
    every_regime("experts", sb_gate_op_experts()->formats, FEW_EXPERTS);
}

TEST(test_shared_expert)
{
    every_regime("shared_expert", sb_gate_op_shared_expert()->formats, NARROW_SHARED);
}

TEST(test_shapes)
{
    static const char *const ops[] = {"experts", "shared_expert"};
    for (size_t o = 0; o < 2; o++) {
        const char *const *shapes = sb_gate_op_find(ops[o])->shapes;
        for (size_t s = 0; shapes[s]; s++) {
            sb_gate_case *c = check_case(ops[o], "fp8-block", shapes[s], SB_GATE_REGIME_normal,
                                         s % 2 ? SB_DTYPE_F32 : SB_DTYPE_F16);
            check_contract(c);
            sb_gate_case_free(c);
        }
    }
}

static const struct {
    const char *op, *format;
    int fault;
    slip how;
    sb_gate_regime regime;
} faults[] = {
    {"experts", "bf16", CHECK_NO_FAULT, HALVES, SB_GATE_REGIME_normal},
    {"experts", "nvfp4-ct", CHECK_NO_FAULT, HALVES, SB_GATE_REGIME_normal},
    {"experts", "nvfp4-ct", CHECK_OTHER_HALF, NO_SLIP, SB_GATE_REGIME_normal},
    {"experts", "fp8-block", CHECK_OTHER_HALF, NO_SLIP, SB_GATE_REGIME_normal},
    {"experts", "int4-ct", CHECK_OTHER_HALF, NO_SLIP, SB_GATE_REGIME_normal},
    {"experts", "nvfp4-ct", CHECK_OTHER_STACK, NO_SLIP, SB_GATE_REGIME_normal},
    {"experts", "fp8-tensor", CHECK_OTHER_STACK, NO_SLIP, SB_GATE_REGIME_normal},
    {"experts", "fp8-block", CHECK_OTHER_STACK, NO_SLIP, SB_GATE_REGIME_normal},
    {"experts", "nvfp4-ct", CHECK_NO_FAULT, COLLAPSED, SB_GATE_REGIME_normal},
    {"experts", "nvfp4-modelopt", CHECK_NO_FAULT, COLLAPSED, SB_GATE_REGIME_normal},
    {"experts", "fp8-tensor", CHECK_NO_FAULT, COLLAPSED, SB_GATE_REGIME_normal},
    {"experts", "nvfp4-ct", CHECK_INVERTED, NO_SLIP, SB_GATE_REGIME_normal},
    {"experts", "nvfp4-modelopt", CHECK_INVERTED, NO_SLIP, SB_GATE_REGIME_normal},
    {"experts", "nvfp4-ct", CHECK_NIBBLES, NO_SLIP, SB_GATE_REGIME_normal},
    {"experts", "nvfp4-ct", CHECK_SUBNORMAL, NO_SLIP, SB_GATE_REGIME_subnormal},
    {"experts", "nvfp4-ct", CHECK_HALF_SCALE, NO_SLIP, SB_GATE_REGIME_least},
    {"experts", "nvfp4-modelopt", CHECK_HALF_SCALE, NO_SLIP, SB_GATE_REGIME_tiny},
    {"experts", "fp8-block", CHECK_HALF_SCALE, NO_SLIP, SB_GATE_REGIME_least},
    {"experts", "nvfp4-ct", CHECK_PADS, NO_SLIP, SB_GATE_REGIME_padding},
    {"experts", "bf16", CHECK_NO_FAULT, REVERSED, SB_GATE_REGIME_normal},
    {"shared_expert", "bf16", CHECK_NO_FAULT, NO_GATE, SB_GATE_REGIME_normal},
    {"shared_expert", "nvfp4-modelopt", CHECK_INVERTED, NO_SLIP, SB_GATE_REGIME_normal},
    {"shared_expert", "int4-awq", CHECK_WORDS, NO_SLIP, SB_GATE_REGIME_normal},
    {"shared_expert", "fp8-block", CHECK_CLAMP, NO_SLIP, SB_GATE_REGIME_normal},
};

TEST(test_faults_of_kernels_show)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        sb_gate_case *c = check_case(faults[i].op, faults[i].format,
                                     strcmp(faults[i].op, "experts") == 0 ? EXPERTS : SHARED,
                                     faults[i].regime, SB_DTYPE_BF16);
        float *got = run(c, faults[i].fault, faults[i].how, 0);
        size_t outside = check_outside(c, "bf16_mma", got, NULL);
        for (size_t e = 0; e < c->output[0].count; e++)
            got[e] = sb_round_to(SB_FORMAT_bf16, got[e]);
        size_t rounded = check_outside_rounded(c, "bf16_mma+bf16", SB_FORMAT_bf16, got);
        if (!outside || !rounded)
            fail_msg("%s %s %s: fault %d, slip %d passes: %zu and %zu elements outside",
                     faults[i].op, faults[i].format, sb_gate_regime_name(faults[i].regime),
                     faults[i].fault, (int)faults[i].how, outside, rounded);
        free(got);
        sb_gate_case_free(c);
    }
}

/* --- the sum of experts ----------------------------------------------------------------------- */

static float *run_combine(const sb_gate_case *c, int backwards)
{
    const uint32_t rows = size_of(c, "rows"), slots = size_of(c, "slots"), n = size_of(c, "n");
    float *expert = sb_gate_values(c, "expert_out"), *weights = sb_gate_values(c, "topk_weights"),
          *shared_out = sb_gate_values(c, "shared_out"), *logit = sb_gate_values(c, "shared_logit"),
          *out = calloc((size_t)rows * n, sizeof *out);
    for (size_t t = 0; t < rows; t++)
        for (size_t i = 0; i < n; i++) {
            float y = backwards ? shared_out[t * n + i] / (1.0f + expf(-logit[t])) : 0;
            for (size_t s = 0; s < slots; s++) {
                size_t slot = backwards ? slots - 1 - s : s;
                y += expert[(t * slots + slot) * n + i] * weights[t * slots + slot];
            }
            if (!backwards)
                y += shared_out[t * n + i] * (1.0f / (1.0f + expf(-logit[t])));
            out[t * n + i] = y;
        }
    free(expert);
    free(weights);
    free(shared_out);
    free(logit);
    return out;
}

TEST(test_moe_combine)
{
    const char *const *shapes = sb_gate_op_moe_combine()->shapes;
    for (int regime = 0; regime < SB_GATE_REGIMES; regime++)
        for (size_t s = 0; s == 0 || shapes[s - 1]; s++) {
            sb_gate_case *c = check_case("moe_combine", NULL, s ? shapes[s - 1] : NULL,
                                         (sb_gate_regime)regime, SB_DTYPE_BF16);
            check_contract(c);
            for (int backwards = 0; backwards < 2; backwards++) {
                float *got = run_combine(c, backwards);
                assert_int_equal(check_outside(c, "fp32", got, NULL), 0);
                for (size_t i = 0; i < c->output[0].count; i++)
                    got[i] = sb_round_to(SB_FORMAT_bf16, got[i]);
                assert_int_equal(check_outside_rounded(c, "fp32", SB_FORMAT_bf16, got), 0);
                free(got);
            }
            if (s == 0 && regime == SB_GATE_REGIME_normal)
                check_mistakes(c);
            sb_gate_case_free(c);
        }
}

TEST(test_more_slots_than_experts)
{
    const sb_gate_request r = {
        .op = "experts", .shape = "experts=2,slots=3", .input = SB_DTYPE_BF16};
    sb_error err = {{0}};
    sb_gate_case *c = NULL;
    assert_int_equal(sb_gate_case_make(&r, &c, &err), SB_ERR_USAGE);
}

TEST(test_rows_in_other_batches)
{
    check_batches("experts", "rows=3,experts=3,slots=2,hidden=32,inner=32");
    check_batches("shared_expert", "rows=3,hidden=32,inner=32");
    check_batches("moe_combine", "rows=3,n=5");
    check_batches("swiglu", "rows=3,n=5");
    check_batches("act_quant_fp8", "rows=3,k=130");
}
