/* test_forced.c - each op alone: a mistake fails in its own op only, another order of summation in
 * no op; one wrong element is named; an op that is not recorded does not pass. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ops/values.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/forced_run.h"
#include "tests/lib/plain.h"
#include "tools/judge/fault/mistakes.h"

static sb_model *model_of(const char *preset)
{
    return test_model_open(test_checkpoint("test_forced", preset, "mistakes", "bf16", "text"));
}

static void expect(const char *what, const forced_run *run, sb_verdict verdict)
{
    if (run->verdicts.verdict == verdict)
        return;
    forced_run_print(run);
    fail_msg("%s: %s, expected %s: %s", what, sb_verdict_name(run->verdicts.verdict),
             sb_verdict_name(verdict), run->verdicts.reason);
}

/* The engine is the reference. With its own arithmetic every bit is equal, in prefill, decode,
 * rounds and drafts. With another declared arithmetic the verdict is MISTRUSTED. */
TEST(test_reference)
{
    static const char *const presets[] = {"T1", "T3", "T4", "T5"};
    for (size_t i = 0; i < 4; i++) {
        sb_model *model = model_of(presets[i]);
        forced_run run = {.model = model,
                          .prompt = 9,
                          .decoded = 2,
                          .rounds = 4,
                          .arithmetic = &sb_arithmetic_reference,
                          .mtp = sb_model_has_mtp(model)};
        forced_run_all(&run);
        expect(presets[i], &run, SB_VERDICT_IDENTICAL);
        assert_int_equal(run.verdicts.skipped_taps, 0);
        for (size_t op = 0; op < SB_OP_COUNT; op++)
            assert_int_equal(run.verdicts.ops[op].values.not_judged, 0);
        sb_verdicts_free(&run.verdicts);
        run.arithmetic = &sb_arithmetic_library;
        forced_run_all(&run);
        expect("the reference in disguise", &run, SB_VERDICT_MISTRUSTED);
        sb_verdicts_free(&run.verdicts);
        sb_model_close(model);
    }
}

/* The names of all ops with verdict FAIL. */
static void failed_ops(const sb_verdicts *v, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t op = 0; op < SB_OP_COUNT; op++)
        if (v->ops[op].verdict == SB_VERDICT_FAIL && used + 32 < room)
            used +=
                (size_t)snprintf(text + used, room - used, "%s%s", used ? " " : "", sb_op_name(op));
}

/* States are recorded in both forms of the delta rule. Otherwise a wrong state fails in the op that
 * reads it. */
TEST(test_states)
{
    sb_model *model = model_of("T1");
    for (int i = 0; i < 2; i++) {
        sb_knobs knobs = test_knobs(i ? "delta_rule=by_call" : "delta_rule=recurrent");
        forced_run run = {.model = model,
                          .knobs = &knobs,
                          .states = SB_CAPTURE_ALL_STATES,
                          .prompt = 5,
                          .decoded = 2,
                          .rounds = 4,
                          .arithmetic = &sb_arithmetic_reference,
                          .mtp = 1};
        forced_run_all(&run);
        expect("states", &run, SB_VERDICT_IDENTICAL);
        sb_verdicts_free(&run.verdicts);
    }
    sb_model_close(model);
}

TEST(test_mistakes)
{
    sb_model *model = model_of("T1");
    sb_knobs by_call = test_knobs("delta_rule=by_call");
    for (size_t i = 0; sb_mistakes[i].name; i++) {
        const sb_planted *m = &sb_mistakes[i];
        sb_op_table ops = sb_backend_ref()->ops;
        char where[256];
        m->plant(&ops);
        forced_run run = {.model = model,
                          .ops = &ops,
                          .knobs = &by_call,
                          .states = SB_CAPTURE_ALL_STATES,
                          .prompt = 4,
                          .decoded = 2,
                          .rounds = 1,
                          .mtp = i % 4 == 0};
        forced_run_all(&run);
        failed_ops(&run.verdicts, where, sizeof where);
        if (strcmp(where, m->benign ? "" : m->where) != 0)
            fail_msg("%s: fails in \"%s\": %s", m->name, where, run.verdicts.reason);
        if (!m->benign) {
            assert_string_equal(run.verdicts.first_failure.op, m->where);
            printf("caught   %-22s %s\n", m->name, run.verdicts.first_failure.words);
        }
        expect(m->name, &run, m->benign ? SB_VERDICT_WITHIN : SB_VERDICT_FAIL);
        sb_verdicts_free(&run.verdicts);
    }
    sb_model_close(model);
}

/* Other orders of summation in several models and profiles. */
TEST(test_other_orders)
{
    static const char *const presets[] = {"T1", "T4", "T3", "T5"};
    static const char *const settings[] = {"delta_rule=recurrent", "delta_rule=chunk64",
                                           "act=bf16 delta_rule=by_call"};
    const char *all = getenv("CHECK_ALL"); /* 1: all models */
    for (size_t i = 0; i < (all && strcmp(all, "1") == 0 ? 4 : 2); i++) {
        sb_model *model = model_of(presets[i]);
        for (size_t j = 0; j < 3; j++) {
            sb_knobs knobs = test_knobs(settings[j]);
            sb_op_table ops = sb_backend_ref()->ops;
            sb_planted_find(sb_mistakes, "linear_sequential")->plant(&ops);
            forced_run run = {.model = model,
                              .ops = &ops,
                              .knobs = &knobs,
                              .prompt = 3,
                              .decoded = 1,
                              .rounds = 1,
                              .mtp = sb_model_has_mtp(model)};
            forced_run_all(&run);
            printf("%s %s: linear %.3f of the bound, median %.4f\n", presets[i], settings[j],
                   run.verdicts.ops[SB_OP_linear].worst, run.verdicts.ops[SB_OP_linear].median);
            expect(settings[j], &run, SB_VERDICT_WITHIN);
            sb_verdicts_free(&run.verdicts);
        }
        sb_model_close(model);
    }
}

/* The arithmetic declares an underflow at 2^100, so that its bounds let everything pass. The op
 * with another order of summation is MISTRUSTED, in binary32 and where few elements differ. */
TEST(test_bounds_for_nothing)
{
    static const char *const settings[] = {"delta_rule=recurrent", "act=bf16"};
    sb_arithmetic loose = sb_arithmetic_library;
    sb_model *model = model_of("T1");
    loose.underflow = 0x1p100;
    for (size_t i = 0; i < 2; i++)
        for (int wide = 0; wide < 2; wide++) {
            sb_knobs knobs = test_knobs(settings[i]);
            sb_op_table ops = sb_backend_ref()->ops;
            sb_planted_find(sb_mistakes, "linear_sequential")->plant(&ops);
            forced_run run = {.model = model,
                              .ops = &ops,
                              .knobs = &knobs,
                              .prompt = 2,
                              .arithmetic = wide ? &loose : &sb_arithmetic_library};
            forced_run_all(&run);
            const sb_op_verdict *v = &run.verdicts.ops[SB_OP_linear];
            printf("%s: %zu of %zu elements differ, %s\n", settings[i], v->compared - v->identical,
                   v->compared, sb_verdict_name(v->verdict));
            expect(settings[i], &run, wide ? SB_VERDICT_MISTRUSTED : SB_VERDICT_WITHIN);
            assert_int_equal(v->verdict, wide ? SB_VERDICT_MISTRUSTED : SB_VERDICT_WITHIN);
            sb_verdicts_free(&run.verdicts);
        }
    sb_model_close(model);
}

/* Moves one element in the output of one op of the engine; all later ops read the moved value. */
typedef struct plant {
    const char *name; /* the name of the op's first output, within the layer */
    size_t output;
    uint32_t layer;
    uint64_t position; /* of the row */
    size_t column;
    double by, bound; /* the distance is by times bound; a first run finds the bound */
    int done;
} plant;

static sb_status move_one(void *ctx, const sb_op_call *call)
{
    plant *p = ctx;
    sb_status status = sb_op_run(call);
    uint64_t first = call->position + call->row,
             rows = call->single || strcmp(call->name, "logits") == 0 ? 1 : call->rows;
    if (status || call->layer != p->layer || strcmp(call->name, p->name) != 0 ||
        p->position < first || p->position >= first + rows)
        return status;
    sb_op_value out = sb_op_values_of(call->op, call->args).out[p->output];
    size_t row_size = out.rows * out.cols / (size_t)rows, at = call->slot * out.cols;
    if (p->column < at || p->column >= at + row_size)
        return SB_OK;
    float *x = out.data + (size_t)(p->position - first) * row_size + (p->column - at);
    *x = p->bound > 0.0 ? (float)((double)*x + p->by * p->bound) : *x + 1.0f;
    p->done++;
    return SB_OK;
}

static void plant_one(const sb_model *model, plant *p, double by, sb_verdicts *out)
{
    sb_op_table ops = sb_backend_ref()->ops;
    forced_run run = {
        .model = model, .ops = &ops, .prompt = 6, .decoded = 2, .hook = move_one, .ctx = p};
    sb_planted_find(sb_mistakes, "linear_sequential")->plant(&ops);
    p->by = by;
    p->done = 0;
    forced_run_all(&run);
    assert_int_equal(p->done, 1);
    *out = run.verdicts;
}

/* A first run with a gross error gives the bound. Then twice the bound is found, and half the bound
 * is not. */
TEST(test_one_element)
{
    static const struct {
        plant plant;
        const char *op, *tap; /* tap: the end of its name */
    } cases[] = {
        {{"linear_attn.in_proj_qkv", 0, 0, 3, 17, 0, 0, 0}, "linear", "in_proj_qkv"},
        {{"self_attn.core_out", 0, 3, 5, 70, 0, 0, 0}, "attention", "core_out"},
        {{"linear_attn.core_out", 0, 2, 7, 33, 0, 0, 0}, "delta_rule", "core_out"},
        {{"linear_attn.g", 1, 1, 2, 3, 0, 0, 0}, "gates", "beta"},
        {{"mlp.experts.down_proj", 0, 1, 2, 130, 0, 0, 0}, "linear", "down_proj"},
        {{"mlp.router_ids", 1, 1, 6, 1, 0, 0, 0}, "router", "router_weights"},
        {{"logits", 0, SB_NO_LAYER, 4, 9, 0, 0, 0}, "linear", "logits"},
        {{"norm", 0, SB_NO_LAYER, 6, 2, 0, 0, 0}, "rmsnorm", "norm"},
    };
    sb_model *model = model_of("T1");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plant p = cases[i].plant;
        sb_verdicts v;
        plant_one(model, &p, 1.0, &v);
        const sb_place *at = &v.first_failure;
        assert_true(v.has_failure && at->bound > 0.0);
        p.bound = at->bound;
        sb_verdicts_free(&v);
        plant_one(model, &p, 2.1, &v);
        if (!v.has_failure || strcmp(at->op, cases[i].op) != 0 || !strstr(at->name, cases[i].tap) ||
            at->layer != p.layer || at->token != p.position || at->element[0] != p.column)
            fail_msg("%s: %s", p.name, v.has_failure ? at->words : "twice the bound is not seen");
        assert_int_equal(v.failures, 1);
        sb_verdicts_free(&v);
        plant_one(model, &p, 0.5, &v);
        if (v.has_failure)
            fail_msg("%s at half its bound: %s", p.name, at->words);
        sb_verdicts_free(&v);
    }
    sb_model_close(model);
}

/* A recorded expert that does not exist or occurs twice: row and slot are named. */
static void spoil_expert(void *ctx, sb_step *step)
{
    const float *value = ctx;
    const sb_step_value *v = sb_step_find(&step->taps, "layers.1.mlp.router_ids");
    if (v && v->rows == 6)
        v->data[4 * v->cols + 1] = *value < 0 ? v->data[4 * v->cols] : *value;
}

TEST(test_no_expert)
{
    static const struct {
        float value; /* below 0: the expert of the slot before */
        const char *words;
    } cases[] = {{-1, "already contains this expert"}, {1000, "no such expert"}, {0.5, "no such"}};
    sb_model *model = model_of("T1");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float value = cases[i].value;
        forced_run run = {.model = model, .prompt = 6, .spoil = spoil_expert, .ctx = &value};
        forced_run_all(&run);
        const sb_place *at = &run.verdicts.first_failure;
        if (!run.verdicts.has_failure || at->token != 4 || at->element[0] != 1 || at->layer != 1 ||
            strcmp(at->op, "router") != 0 || !strstr(at->words, cases[i].words))
            fail_msg("%g: %s", (double)value, at->words);
        sb_verdicts_free(&run.verdicts);
    }
    sb_model_close(model);
}

/* Drops the taps whose names contain this text. */
static void forget(void *ctx, sb_step *step)
{
    const char *part = ctx;
    for (size_t i = 0; i < step->taps.count; i++) {
        sb_step_value *v = &step->taps.items[i];
        if (!strstr(v->name, part))
            continue;
        free(v->data);
        v->data = NULL;
        v->rows = 0;
    }
}

/* T-91: a value that is not recorded is judged inside a segment: an engine in another order passes,
 * and no value is left out. */
TEST(test_what_is_behind)
{
    static const char *const parts[] = {
        "mlp.experts.",
        "mlp.shared_expert.",
        "mlp.shared_expert_gate",
        "layers.1.linear_attn.g",
        "layers.1.linear_attn.beta",
        "layers.1.linear_attn.in_proj_z",
        "layers.3.self_attn.o_proj",
        "layers.0.mlp.gate",
    };
    sb_model *model = model_of("T1");
    sb_op_table ops = sb_backend_ref()->ops;
    sb_planted_find(sb_mistakes, "linear_sequential")->plant(&ops);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char part[64];
        snprintf(part, sizeof part, "%s", parts[i]);
        forced_run run = {
            .model = model, .ops = &ops, .prompt = 6, .decoded = 1, .spoil = forget, .ctx = part};
        forced_run_all(&run);
        expect(part, &run, SB_VERDICT_WITHIN);
        size_t inside = 0, open = 0;
        for (size_t op = 0; op < SB_OP_COUNT; op++) {
            inside += run.verdicts.ops[op].values.inside;
            open += run.verdicts.ops[op].values.not_judged;
        }
        assert_true(inside > 0);
        assert_int_equal(open, 0);
        sb_verdicts_free(&run.verdicts);
    }
    sb_model_close(model);
}

/* Taps that are not recorded are bridged by balls through several ops, if possible; else the op is
 * skipped, and the run never passes unnoticed. */
TEST(test_missing_taps)
{
    static const struct {
        const char *taps;
        sb_op op;
        int compared, skipped;
        sb_verdict whole;
    } cases[] = {
        {"none", SB_OP_linear, 0, 1, SB_VERDICT_MISTRUSTED},
        {"logits", SB_OP_linear, 0, 1, SB_VERDICT_MISTRUSTED},
        {"*linear_attn*", SB_OP_delta_rule, 1, 0, SB_VERDICT_SKIPPED},
        {"*linear_attn*", SB_OP_linear, 1, 1, SB_VERDICT_SKIPPED},
        {"*linear_attn*", SB_OP_attention, 0, 1, SB_VERDICT_SKIPPED},
        /* q and k of the delta rule are bridged; with g and beta its inputs are complete */
        {"*linear_attn.conv,*.g,*.beta,*core_out", SB_OP_delta_rule, 1, 0, SB_VERDICT_SKIPPED},
        /* beta is bridged from the embedding on, but not behind the experts of layer 0 */
        {"*linear_attn.conv,*.g,*core_out", SB_OP_delta_rule, 1, 1, SB_VERDICT_SKIPPED},
        /* the experts are bridged from their input on */
        {"*post_attention_layernorm,*router*,*mlp.gate,*expert_gate,*mlp.out", SB_OP_moe_combine, 1,
         0, SB_VERDICT_SKIPPED},
        {"*post_attention_layernorm,*router*,*mlp.gate,*mlp.out", SB_OP_moe_combine, 1, 0,
         SB_VERDICT_SKIPPED},
        {"*post_attention_layernorm,*router_weights,*mlp.gate,*mlp.out", SB_OP_moe_combine, 0, 1,
         SB_VERDICT_SKIPPED},
    };
    sb_model *model = model_of("T1");
    sb_op_table ops = sb_backend_ref()->ops;
    sb_planted_find(sb_mistakes, "linear_sequential")->plant(&ops);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        forced_run run = {
            .model = model, .ops = &ops, .prompt = 6, .decoded = 1, .taps = cases[i].taps};
        forced_run_all(&run);
        const sb_op_verdict *v = &run.verdicts.ops[cases[i].op];
        if ((v->compared > 0) != cases[i].compared ||
            (v->values.not_judged > 0) != cases[i].skipped) {
            forced_run_print(&run);
            fail_msg("%s: %s has %zu compared, %zu not judged", cases[i].taps,
                     sb_op_name(cases[i].op), v->compared, v->values.not_judged);
        }
        assert_true(run.verdicts.skipped_taps > 0);
        expect(cases[i].taps, &run, cases[i].whole);
        sb_verdicts_free(&run.verdicts);
    }
    sb_model_close(model);
}
