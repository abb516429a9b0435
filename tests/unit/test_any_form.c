/* test_any_form.c - T-67: an engine whose form of the delta rule is unknown. Beside the rows of
 * `exact`, chunks are accepted, too; mistakes of either form are not. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/checkpoint.h"
#include "tests/lib/forced_run.h"
#include "tests/lib/plain.h"
#include "tools/judge/fault/mistakes.h"
#include "tools/judge/sim/sim.h"

static sb_model *model_of(const char *preset)
{
    return test_model_open(test_checkpoint("test_any_form", preset, "plain", "bf16", "text"));
}

/* A plain binary32 engine, compared with rows. */
static forced_run run_of(const sb_model *model, const char *sim, const sb_knobs *engine,
                         const sb_knobs *judge, sb_op_table *ops)
{
    const sb_sim *found = NULL;
    sb_error err = {{0}};
    assert_int_equal(sb_sim_find(sim, &found, &err), SB_OK);
    *ops = found->backend.ops;
    return (forced_run){.model = model,
                        .ops = ops,
                        .knobs = engine,
                        .judge = judge,
                        .states = SB_CAPTURE_ALL_STATES,
                        .any_form = 1,
                        .prompt = 44,
                        .decoded = 1};
}

static void finish(const char *what, forced_run *run, sb_verdict verdict)
{
    forced_run_all(run);
    const sb_op_verdict *v = &run->verdicts.ops[SB_OP_delta_rule];
    printf("%-24s %s, %zu elements, %.3g of the bound, median %.2g\n", what,
           sb_verdict_name(v->verdict), v->compared, v->worst, v->median);
    if (v->verdict != verdict)
        fail_msg("%s: %s, expected %s: %s", what, sb_verdict_name(v->verdict),
                 sb_verdict_name(verdict), run->verdicts.reason);
    if (verdict == SB_VERDICT_FAIL)
        assert_string_equal(run->verdicts.first_failure.op, "delta_rule");
}

/* Chunks are outside the bound of rows and within the bound of any form; rows are within both. */
TEST(test_forms)
{
    static const struct {
        const char *what, *preset, *act, *engine;
        int any_form;
        sb_verdict verdict;
    } runs[] = {
        {"rows", "T4", "act=f32", "delta_rule=recurrent", 1, SB_VERDICT_WITHIN},
        {"chunks", "T6", "act=f32", "delta_rule=by_call", 1, SB_VERDICT_WITHIN},
        {"chunks, rows claimed", "T6", "act=f32", "delta_rule=by_call", 0, SB_VERDICT_FAIL},
        {"rows, bf16", "T6", "act=bf16", "delta_rule=recurrent", 1, SB_VERDICT_WITHIN},
        {"chunks, bf16", "T6", "act=bf16", "delta_rule=by_call", 1, SB_VERDICT_WITHIN},
        {"chunks, bf16, rows claimed", "T6", "act=bf16", "delta_rule=by_call", 0, SB_VERDICT_FAIL},
        {"chunks, f16", "T6", "act=f16", "delta_rule=by_call", 1, SB_VERDICT_WITHIN},
        {"chunks, f16, rows claimed", "T6", "act=f16", "delta_rule=by_call", 0, SB_VERDICT_FAIL},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        sb_model *model = model_of(runs[i].preset);
        sb_knobs rows = test_knobs("delta_rule=recurrent"), engine = test_knobs(runs[i].engine);
        sb_error err = {{0}};
        assert_int_equal(sb_knobs_set(&rows, runs[i].act, &err), SB_OK);
        assert_int_equal(sb_knobs_set(&engine, runs[i].act, &err), SB_OK);
        sb_op_table ops;
        forced_run run = run_of(model, "sequential", &engine, &rows, &ops);
        run.any_form = runs[i].any_form;
        run.decoded = 0;
        finish(runs[i].what, &run, runs[i].verdict);
        sb_verdicts_free(&run.verdicts);
        sb_model_close(model);
    }
}

TEST(test_mistakes)
{
    static const char *const names[] = {"decay_after_prediction", "state_kept_whole",
                                        "state_dropped"};
    sb_model *model = model_of("T4");
    sb_knobs rows = test_knobs("delta_rule=recurrent"), chunks = test_knobs("delta_rule=chunk64");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        sb_op_table ops;
        const sb_planted *m = sb_planted_find(sb_mistakes, names[i]);
        const sb_knobs *engine = strcmp(m->where, "delta_rule") == 0 ? &rows : &chunks;
        forced_run run = run_of(model, "sequential", engine, &rows, &ops);
        m->plant(&ops);
        finish(names[i], &run, SB_VERDICT_FAIL);
        sb_verdicts_free(&run.verdicts);
    }
    sb_model_close(model);
}

/* Moves one element of the prompt's output by a multiple of its bound. */
typedef struct move {
    double by;
    size_t done;
} move;

static sb_status move_one(void *ctx, const sb_op_call *call)
{
    move *m = ctx;
    sb_status status = sb_op_run(call);
    if (status || m->done || strcmp(call->name, "linear_attn.core_out") != 0 || call->rows < 31)
        return status;
    const sb_delta_rule_args *a = call->args;
    float *x = a->out + 30 * a->v_heads * a->dv + 3;
    *x = (float)((double)*x + m->by);
    m->done++;
    return SB_OK;
}

TEST(test_one_element)
{
    sb_model *model = model_of("T4");
    sb_knobs rows = test_knobs("delta_rule=recurrent"), chunks = test_knobs("delta_rule=by_call");
    double bound = 0.0;
    for (int i = 0; i < 3; i++) {
        static const double times[] = {0.0, 2.0, 0.5};
        sb_op_table ops;
        move m = {.by = i ? times[i] * bound : 1.0};
        forced_run run = run_of(model, "sequential", &chunks, &rows, &ops);
        run.hook = move_one;
        run.ctx = &m;
        finish(i == 0   ? "one element"
               : i == 1 ? "by two bounds"
                        : "by half a bound",
               &run, i < 2 ? SB_VERDICT_FAIL : SB_VERDICT_WITHIN);
        assert_int_equal(m.done, 1);
        if (i < 2) {
            const sb_place *at = &run.verdicts.first_failure;
            assert_int_equal(at->token, 30);
            assert_int_equal(at->element[0], 3);
            bound = at->bound;
        }
        sb_verdicts_free(&run.verdicts);
    }
    sb_model_close(model);
}

/* The engine's g, moved by a fraction of itself. */
static sb_status move_g(void *ctx, const sb_op_call *call)
{
    const double *by = ctx;
    sb_status status = sb_op_run(call);
    if (status || call->op != SB_OP_gates)
        return status;
    const sb_gates_args *a = call->args;
    for (size_t i = 0; i < a->rows * a->heads; i++)
        a->g[i] = (float)((double)a->g[i] * (1.0 + *by));
    return SB_OK;
}

/* T-91: "a later recorded value depends on it and was judged": g, through the delta rule, in rows
 * and in chunks, where an engine records everything but g. */
TEST(test_g_not_recorded)
{
    static const char *const engines[] = {"delta_rule=recurrent", "delta_rule=by_call"};
    static const double moved[] = {0.0, 0x1p-23, 0x1p-10};
    sb_model *model = model_of("T4");
    sb_knobs rows = test_knobs("delta_rule=recurrent");
    for (size_t e = 0; e < 2; e++)
        for (size_t i = 0; i < 3; i++) {
            char what[64];
            double by = moved[i];
            sb_knobs engine = test_knobs(engines[e]);
            sb_op_table ops;
            forced_run run = run_of(model, "sequential", &engine, &rows, &ops);
            run.hook = move_g;
            run.ctx = &by;
            run.taps = "*in_proj*,*conv,*beta,*linear_attn.q,*linear_attn.k,*core_out";
            snprintf(what, sizeof what, "g not recorded, %.2g, %s", by, engines[e] + 11);
            finish(what, &run, by > 0x1p-20 ? SB_VERDICT_FAIL : SB_VERDICT_WITHIN);
            assert_int_equal(run.verdicts.ops[SB_OP_delta_rule].values.not_judged, 0);
            assert_true(run.verdicts.ops[SB_OP_gates].compared > 0);
            if (by <= 0x1p-20)
                assert_int_equal(run.verdicts.ops[SB_OP_gates].verdict, SB_VERDICT_WITHIN);
            sb_verdicts_free(&run.verdicts);
        }
    sb_model_close(model);
}
