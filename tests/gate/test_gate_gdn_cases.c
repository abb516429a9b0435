/* test_gate_gdn_cases.c - cases of linear attention and norms: wrong inputs are refused, rows and
 * cuts behave as the ops declare, and a wrong state fails beside a right output. */
#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "ref/run/backend.h"
#include "tests/gate/check_op.h"
#include "tools/judge/fault/mistakes.h"
#include "tools/judge/gate/meta.h"

static const struct {
    const char *op, *shape;
} small[] = {{"conv", "channels=7"},
             {"gates", "heads=3"},
             {"l2norm", "dk=7"},
             {"rmsnorm", "n=7"},
             {"gated_rmsnorm", "n=7"},
             {"delta_rule", "dk=8,dv=4"},
             {"delta_rule_chunk", "rows=5,dk=8,dv=4"}};
enum { SMALL = sizeof small / sizeof *small };

/* --- refused inputs --------------------------------------------------------------------------- */

static void refused(const sb_gate_case *damaged, const char *name, const char *words)
{
    sb_gate_case c = *damaged;
    sb_error err = {{0}};
    c.outputs = 0;
    sb_status status = sb_gate_declare(&c, &err);
    if (status != SB_ERR_INPUT || !strstr(err.text, name) || !strstr(err.text, words))
        fail_msg("%s: %s is not refused: %s", c.op->name, name, err.text);
}

TEST(every_input_must_be_there_with_its_type_and_shape)
{
    for (size_t s = 0; s < SMALL; s++) {
        sb_gate_case *c =
            check_case(small[s].op, NULL, small[s].shape, SB_GATE_REGIME_normal, SB_DTYPE_BF16);
        for (size_t i = 0; i < c->arrays; i++) {
            sb_gate_array *a = &c->array[i], kept = *a;
            a->dtype = SB_DTYPE_I32;
            refused(c, kept.name, "is I32");
            a->dtype = kept.dtype;
            a->shape[a->rank - 1]++;
            refused(c, kept.name, "has the shape");
            *a = kept;
            a->name[0] = '?';
            refused(c, kept.name, "missing");
            *a = kept;
        }
        sb_gate_case_free(c);
    }
}

/* V-142: "g, beta and initial_state are binary32" */
TEST(values_that_no_layer_has_are_refused)
{
    static const char *const ops[] = {"delta_rule", "delta_rule_chunk"};
    static const char *const singles[] = {"g", "beta", "initial_state"};
    for (size_t op = 0; op < 2; op++) {
        check_refused(ops[op], NULL, "g", 0, 0x3f800000, "element 0 of in.g is 1");
        check_refused(ops[op], NULL, "g", 4, 0x7fc00000, "in.g is not finite");
        check_refused(ops[op], NULL, "beta", 8, 0x3f800001, "element 2 of in.beta");
        check_refused(ops[op], NULL, "beta", 0, 0x80000001, "in.beta");
        check_refused(ops[op], NULL, "initial_state", 0, 0xff800000, "in.initial_state");
        check_refused(ops[op], NULL, "q", 0, 0x7fc00000, "in.q is not finite");
        sb_gate_case *c =
            check_case(ops[op], NULL, "rows=2,dk=4,dv=4", SB_GATE_REGIME_normal, SB_DTYPE_BF16);
        for (size_t i = 0; i < c->arrays; i++)
            for (size_t n = 0; n < 3; n++)
                if (strcmp(c->array[i].name, singles[n]) == 0) {
                    c->array[i].dtype = SB_DTYPE_BF16;
                    refused(c, singles[n], "is BF16; expected F32");
                    c->array[i].dtype = SB_DTYPE_F32;
                }
        sb_gate_case_free(c);
    }
    check_refused("conv", NULL, "conv_state", 0, 0x7f800000, "in.conv_state is not finite");
    check_refused("gates", NULL, "A_log", 0, 0x7f800000, "in.A_log is not finite");
    check_refused("gated_rmsnorm", NULL, "z", 0, 0x7f800000, "in.z is not finite");
}

/* --- rows and cuts ---------------------------------------------------------------------------- */

/* A kernel that runs the ops of a table, its ctx. */
static sb_status by_table(void *ctx, const sb_gate_case *c, const sb_gate_target *out)
{
    const sb_op_table *table = ctx;
    float *values[SB_GATE_OUTPUTS] = {NULL};
    sb_knobs knobs;
    sb_knobs_exact(&knobs);
    for (size_t o = 0; o < c->outputs; o++)
        assert_non_null(values[o] = calloc(c->output[o].count, sizeof **values));
    sb_status status = sb_gate_exact(c, &knobs, table, values);
    for (size_t o = 0; o < c->outputs; o++) {
        for (size_t i = 0; i < c->output[o].count && out[o].dtype == SB_DTYPE_F32; i++)
            sb_store_u32(out[o].data + 4 * i, sb_bits_f32(values[o][i]));
        for (size_t i = 0; i < c->output[o].count && out[o].dtype == SB_DTYPE_BF16; i++)
            sb_store_u16(out[o].data + 2 * i,
                         (uint16_t)(sb_bits_f32(sb_round_to(SB_FORMAT_bf16, values[o][i])) >> 16));
        free(values[o]);
    }
    return status;
}

static sb_op_table table_with(const char *mistake)
{
    sb_op_table table = sb_backend_ref()->ops;
    if (mistake)
        sb_planted_find(sb_mistakes, mistake)->plant(&table);
    return table;
}

static sb_verdict cut(const char *op, const char *shape, sb_dtype input, sb_dtype carried,
                      const char *mistake)
{
    sb_op_table table = table_with(mistake);
    const sb_gate_meta_options options = {
        .kernel = by_table, .ctx = &table, .dtype = {0, carried}, .repeats = 2};
    sb_gate_case *c = check_case(op, NULL, shape, SB_GATE_REGIME_normal, input);
    sb_gate_meta m;
    sb_error err = {{0}};
    if (sb_gate_meta_run(c, &options, &m, &err))
        fail_msg("%s: %s", op, err.text);
    for (int kind = SB_GATE_META_alone; kind < SB_GATE_META_split; kind++)
        assert_int_equal(m.row[kind].verdict, SB_VERDICT_SKIPPED);
    assert_int_equal(m.row[SB_GATE_META_repeated].verdict, SB_VERDICT_IDENTICAL);
    assert_int_equal(m.row[SB_GATE_META_surroundings].verdict, SB_VERDICT_IDENTICAL);
    sb_gate_case_free(c);
    return m.row[SB_GATE_META_split].verdict;
}

TEST(rows_do_not_see_each_other)
{
    check_batches("gates", "rows=9,heads=3");
    check_batches("l2norm", "rows=9,dk=7,scale=1");
    check_batches("rmsnorm", "rows=9,n=7");
    check_batches("gated_rmsnorm", "rows=9,n=7");
}

TEST(sequences_may_be_cut_where_the_op_says)
{
    static const char *const convs[] = {"rows=9,channels=7", "rows=9,channels=3,width=8",
                                        "rows=2,channels=5", "rows=5,channels=3,width=2"};
    static const char *const rules[] = {"rows=9,dk=8,dv=4", "rows=9,dk=8,dv=8,l2norm=1",
                                        "rows=5,dk=4,dv=4,state=0",
                                        "rows=2,dk=7,dv=13,k_heads=1,v_heads=3"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(cut("conv", convs[i], SB_DTYPE_F32, SB_DTYPE_F32, NULL),
                         SB_VERDICT_IDENTICAL);
        assert_int_equal(cut("conv", convs[i], SB_DTYPE_BF16, SB_DTYPE_BF16, NULL),
                         SB_VERDICT_IDENTICAL);
        assert_int_equal(cut("delta_rule", rules[i], SB_DTYPE_BF16, SB_DTYPE_F32, NULL),
                         SB_VERDICT_IDENTICAL);
    }
    assert_int_equal(cut("conv", convs[0], SB_DTYPE_F32, SB_DTYPE_F32, "conv_state_stale"),
                     SB_VERDICT_FAIL);
    assert_int_equal(cut("delta_rule", rules[1], SB_DTYPE_BF16, SB_DTYPE_F32, "state_transposed"),
                     SB_VERDICT_FAIL);
    assert_int_equal(cut("delta_rule_chunk", "rows=9,dk=8,dv=8", SB_DTYPE_BF16, SB_DTYPE_F32, NULL),
                     SB_VERDICT_SKIPPED);
}

/* --- several outputs -------------------------------------------------------------------------- */

/* The judgement of all outputs that a table computes. With `late`, each of `states` is that of the
 * row before. */
static sb_gate_result judged(const sb_gate_case *c, const char *mistake, int late)
{
    sb_op_table table = table_with(mistake);
    sb_gate_target room[SB_GATE_OUTPUTS] = {{0}};
    sb_gate_got got[SB_GATE_OUTPUTS] = {{0}};
    sb_gate_arith ar = check_arith("fp32");
    sb_gate_result r;
    sb_error err = {{0}};
    for (size_t o = 0; o < c->outputs; o++) {
        room[o].dtype = SB_DTYPE_F32;
        assert_non_null(room[o].data = calloc(c->output[o].count, 4));
        got[o] =
            (sb_gate_got){.dtype = SB_DTYPE_F32, .rank = c->output[o].rank, .data = room[o].data};
        memcpy(got[o].shape, c->output[o].shape, sizeof got[o].shape);
    }
    assert_int_equal(by_table(&table, c, room), SB_OK);
    size_t state = 4 * c->output[1].count;
    if (late)
        memmove(room[2].data + state, room[2].data, 4 * c->output[2].count - state);
    if (sb_gate_judge(c, &ar, got, &r, &err))
        fail_msg("%s", err.text);
    for (size_t o = 0; o < c->outputs; o++)
        free(room[o].data);
    return r;
}

static void check_state(const char *op, const char *shape, const char *mistake)
{
    sb_gate_case *c = check_case(op, NULL, shape, SB_GATE_REGIME_normal, SB_DTYPE_BF16);
    assert_int_equal(judged(c, NULL, 0).verdict, SB_VERDICT_IDENTICAL);
    sb_gate_result r = judged(c, mistake, 0);
    assert_int_equal(r.verdict, SB_VERDICT_FAIL);
    assert_int_equal(r.of[0].outside, 0);
    assert_true(r.of[1].outside > 0);
    assert_non_null(strstr(r.words, "out.state"));
    sb_gate_case_free(c);
}

TEST(a_wrong_state_fails_beside_a_right_output)
{
    check_state("conv", NULL, "conv_state_stale");
    check_state("conv", "rows=1", "conv_state_stale");
    check_state("delta_rule", NULL, "state_transposed");
    check_state("delta_rule_chunk", "rows=17,dk=8,dv=8", "state_transposed");
    sb_gate_case *c =
        check_case("delta_rule", NULL, "rows=4,dk=8,dv=8", SB_GATE_REGIME_normal, SB_DTYPE_BF16);
    sb_gate_result r = judged(c, NULL, 1);
    assert_int_equal(r.verdict, SB_VERDICT_FAIL);
    assert_int_equal(r.of[0].outside + r.of[1].outside, 0);
    assert_true(r.of[2].outside > 0);
    assert_non_null(strstr(r.words, "out.states: row 1"));
    sb_gate_case_free(c);
}
