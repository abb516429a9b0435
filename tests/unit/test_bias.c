/* test_bias.c - T-98: a constant error within the bounds is named, and round to nearest is not. */
#include "tests/lib/check_all.h"
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "ref/ops/values.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/forced_run.h"
#include "tests/lib/plain.h"
#include "tools/judge/bound/wide_fn.h"
#include "tools/judge/sim/sim.h"

static sb_model *model_of(const char *preset)
{
    return test_model_open(test_checkpoint("test_bias", preset, "mistakes", "bf16", "text"));
}

/* Every result of one op is off by `units` units of 2^-24: of itself, or of the mean magnitude of
 * its row. */
typedef struct off {
    sb_op op;
    float units;
    int absolute;
} off;

static sb_status move(void *ctx, const sb_op_call *call)
{
    const off *o = ctx;
    const sb_status status = sb_op_run(call);
    const sb_op_values v = sb_op_values_of(call->op, call->args);
    for (size_t i = 0; i < v.outputs && call->op == o->op && !status; i++) {
        const sb_op_value *out = &v.out[i];
        for (size_t row = 0; row < out->rows && out->data; row++) {
            float *x = out->data + row * out->stride, sum = 0;
            for (size_t k = 0; k < out->cols; k++)
                sum += x[k] < 0 ? -x[k] : x[k];
            const float by = o->units * 0x1p-24f;
            for (size_t k = 0; k < out->cols; k++)
                x[k] += by * (o->absolute ? sum / (float)out->cols : x[k]);
        }
    }
    return status;
}

typedef struct bias_run {
    const char *preset, *engine, *arithmetic, *functions, *knobs;
    off off;
    int declared;
} bias_run;

static void run_it(const bias_run *b, sb_verdicts *out)
{
    const sb_sim *sim = NULL;
    sb_error err = {{0}};
    sb_arithmetic ar;
    sb_model *model = model_of(b->preset);
    sb_knobs knobs = test_knobs(b->knobs);
    assert_int_equal(sb_sim_find(b->engine, &sim, &err), SB_OK);
    assert_int_equal(
        sb_arithmetic_with(sb_arithmetic_of(b->arithmetic), b->functions, 0, &ar, &err), SB_OK);
    off o = b->off;
    forced_run run = {.model = model,
                      .ops = &sim->backend.ops,
                      .knobs = &knobs,
                      .arithmetic = &ar,
                      .declared = b->declared,
                      .states = SB_CAPTURE_ALL_STATES,
                      .prompt = 70,
                      .decoded = 6,
                      .hook = o.units != 0 ? move : NULL,
                      .ctx = &o};
    forced_run_all(&run);
    *out = run.verdicts;
    sb_model_close(model);
}

static void print(const sb_verdicts *v)
{
    for (size_t i = 0; i < SB_OP_COUNT; i++)
        if (v->ops[i].bias.rows)
            printf(
                "  %-16s %5zu rows, %7.3f u, %7.3f u of the magnitude, worst %.3g, 10^%.2f to 1 %s\n",
                sb_op_name(i), v->ops[i].bias.rows, v->ops[i].bias.relative,
                v->ops[i].bias.absolute, v->ops[i].worst, v->ops[i].bias.odds,
                v->ops[i].bias.words);
}

/* Correct engines, some with the functions of a library, some on units that cut. */
TEST(test_round_to_nearest_has_no_bias)
{
    static const bias_run runs[] = {
        {"T1", "sequential", "library", "libm", "act=f32", {0}, 1},
        {"T1", "pairwise", "library", "libm", "act=f32", {0}, 1},
        {"T4", "fma", "library", "libm", "act=f32", {0}, 1},
        {"T4", "sequential", "library", "libm", "act=bf16", {0}, 1},
        {"T4", "libm", "library", "libm", "act=f32", {0}, 1},
        {"T4", "cuda", "library", "cuda", "act=f32", {0}, 1},
        {"T4", "ampere", "ampere_f16+order", "libm", "act=f32", {0}, 1},
        {"T4", "trunc13", "hopper_fp8_wgmma+order", "libm", "act=f32", {0}, 1},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        sb_verdicts v;
        if (!check_some(i, sizeof runs / sizeof *runs / 2))
            continue;
        run_it(&runs[i], &v);
        printf("%s, %s, %s:\n", runs[i].preset, runs[i].engine, runs[i].knobs);
        print(&v);
        if (v.verdict > SB_VERDICT_NEAR_TIE)
            fail_msg("%s: %s: %s", runs[i].engine, sb_verdict_name(v.verdict), v.reason);
        sb_verdicts_free(&v);
    }
}

/* 8 units: of each result, or of the mean magnitude. Where bounds let that pass, it is named. */
TEST(test_constant_errors_are_named)
{
    static const struct {
        sb_op op;
        const char *preset, *knobs;
        int absolute; /* also as an absolute error */
        int bias;     /* the relative error lies within the bounds */
    } rows[] = {
        {SB_OP_linear, "T4", "act=f32", 1, 1},        {SB_OP_rmsnorm, "T4", "act=f32", 1, 1},
        {SB_OP_conv, "T4", "act=f32", 1, 0},          {SB_OP_gates, "T4", "act=f32", 0, 0},
        {SB_OP_l2norm, "T4", "act=f32", 1, 1},        {SB_OP_rope, "T4", "act=f32", 0, 0},
        {SB_OP_gated_rmsnorm, "T4", "act=f32", 1, 1}, {SB_OP_attn_gate, "T4", "act=f32", 1, 0},
        {SB_OP_router, "T1", "act=f32", 0, 1},        {SB_OP_swiglu, "T4", "act=f32", 1, 0},
        {SB_OP_moe_combine, "T1", "act=f32", 1, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int absolute = 0; absolute <= rows[i].absolute; absolute++)
            for (int sign = -1; sign <= 1; sign += 2) {
                sb_verdicts v;
                /* in every check: one sign where only the bias fails */
                if (!check_all() && (absolute || !rows[i].bias || (sign > 0) != (i % 2 > 0)))
                    continue;
                const bias_run run = {rows[i].preset,
                                      "sequential",
                                      "library",
                                      "libm",
                                      rows[i].knobs,
                                      {rows[i].op, 8.0f * (float)sign, absolute},
                                      1};
                run_it(&run, &v);
                const sb_op_verdict *op = &v.ops[rows[i].op];
                printf("%s, %s by %d u: %s, worst %.3g, %zu rows, %.3g u, %.3g u: %s\n",
                       sb_op_name(rows[i].op), absolute ? "all" : "each", 8 * sign,
                       sb_verdict_name(op->verdict), op->worst, op->bias.rows, op->bias.relative,
                       op->bias.absolute, v.reason);
                if (op->verdict != SB_VERDICT_FAIL)
                    fail_msg("%s passes", sb_op_name(rows[i].op));
                assert_true(!rows[i].bias || absolute || op->worst < 1);
                sb_verdicts_free(&v);
            }
}

/* An engine that cuts fails where round to nearest is declared; undeclared it is a finding. */
TEST(test_cuts_are_named)
{
    for (int declared = 0; declared < 2; declared++) {
        sb_verdicts v;
        const bias_run run = {"T4", "ampere", "library", "libm", "act=f32", {0}, declared};
        run_it(&run, &v);
        print(&v);
        assert_int_equal(v.ops[SB_OP_linear].bias.direction, SB_BIAS_toward);
        assert_int_equal(v.ops[SB_OP_linear].verdict,
                         declared ? SB_VERDICT_FAIL : SB_VERDICT_WITHIN);
        if (declared)
            assert_non_null(strstr(v.reason, "bias: the results of linear are too small by"));
        sb_verdicts_free(&v);
    }
}

/* T-100: the tightest matrix unit that the results of an undeclared engine fit. */
TEST(test_units_that_fit_are_named)
{
    static const struct {
        const char *engine, *arithmetic, *tightest;
        int sums;
    } rows[] = {{"sequential", "library", NULL, 1},
                {"ampere", "library", "ampere_f16", 0},
                {"trunc13", "hopper_fp8_wgmma+order", "hopper_fp8_wgmma", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sb_verdicts v;
        const bias_run run = {"T4", rows[i].engine, rows[i].arithmetic, "libm", "act=f32", {0}, 0};
        run_it(&run, &v);
        printf("%s: %zu groups, sums %d, tightest %s\n", rows[i].engine, v.fit.groups, v.fit.sums,
               v.fit.tightest ? v.fit.tightest : "none");
        for (size_t k = 0; k < v.fit.count; k++)
            printf("  %-20s %d 10^%.1f to 1\n", v.fit.rows[k].name, v.fit.rows[k].fits,
                   v.fit.rows[k].odds);
        assert_int_equal(v.fit.sums, rows[i].sums);
        if (rows[i].tightest)
            assert_string_equal(v.fit.tightest, rows[i].tightest);
        sb_verdicts_free(&v);
    }
    /* results that are too large fit none */
    sb_verdicts v;
    const bias_run run = {"T4",      "sequential",         "library", "libm",
                          "act=f32", {SB_OP_linear, 8, 0}, 0};
    run_it(&run, &v);
    assert_false(v.fit.sums);
    assert_null(v.fit.tightest);
    sb_verdicts_free(&v);
}
