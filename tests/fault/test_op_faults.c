/* test_op_faults.c - each generated op fault acts where it was planted, and changes a value
 * there. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "ref/run/backend.h"
#include "tests/mtp/play.h"
#include "tools/judge/fault/op_faults.h"

enum { PROMPT = 6, DECODE = 6, DRAFTS = 2 };

/* The taps, and which of them are outputs of the planted op. */
typedef struct listener {
    sb_plant plant;
    test_record record;
} listener;

static sb_status listen(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                        sb_error *err)
{
    listener *l = ctx;
    return test_record_tap(&l->record, name, data, rows, cols, err);
}

/* A prompt, then single tokens that do not depend on the logits, with drafts in between. */
static void run(const sb_model *model, const char *setting, listener *l)
{
    sb_knobs knobs;
    uint32_t ids[PROMPT + DECODE];
    sb_error err = {""};
    float *logits = calloc(model->config.vocab_size, sizeof *logits);
    assert_non_null(logits);
    sb_knobs_exact(&knobs);
    if (setting)
        assert_int_equal(sb_knobs_set(&knobs, setting, NULL), SB_OK);
    sb_session *session = play_session(model, &(sb_session_options){.knobs = &knobs,
                                                                    .tap = listen,
                                                                    .tap_ctx = l,
                                                                    .hook = sb_plant_hook,
                                                                    .hook_ctx = &l->plant});
    test_draw_ids("op faults", model->config.vocab_size, ids, PROMPT + DECODE);
    test_feed(session, ids, PROMPT);
    for (size_t i = 0; i < DECODE; i++) {
        assert_int_equal(sb_session_logits(session, i ? 0 : PROMPT - 1, logits, &err), SB_OK);
        for (uint32_t d = 0; d < DRAFTS; d++)
            assert_int_equal(sb_session_draft(session, ids[d], logits, &err), SB_OK);
        test_feed(session, ids + PROMPT + i, 1);
    }
    sb_session_free(session);
    free(logits);
}

static void silence(listener *l)
{
    test_record_free(&l->record);
    sb_plant_clear(&l->plant);
}

/* The first tap that differs; NULL: none does. */
static const test_tap *difference(const test_record *a, const test_record *b)
{
    for (size_t i = 0; i < a->count && i < b->count; i++)
        if (memcmp(&a->taps[i].digest, &b->taps[i].digest, sizeof(sb_digest)) != 0)
            return &a->taps[i];
    return NULL;
}

/* Whether a tap is an output of the op, by the end of its name. */
static int made_by(sb_op op, const char *tap)
{
    static const struct {
        sb_op op;
        const char *ends;
    } rows[] = {{SB_OP_embed, "embed "},
                {SB_OP_linear, "in_proj_qkv in_proj_z in_proj_a in_proj_b out_proj q_proj k_proj "
                               "v_proj o_proj gate up_proj gate_proj down_proj shared_expert "
                               "shared_expert_gate logits fc out "},
                {SB_OP_rmsnorm, "layernorm norm norm_embedding norm_hidden q_norm k_norm "},
                {SB_OP_conv, "conv "},
                {SB_OP_gates, "g beta "},
                {SB_OP_l2norm, "q k "},
                {SB_OP_rope, "q_rope k_rope "},
                {SB_OP_delta_rule, "linear_attn.core_out "},
                {SB_OP_delta_rule_chunk, "linear_attn.core_out "},
                {SB_OP_gated_rmsnorm, "linear_attn.norm "},
                {SB_OP_attention, "self_attn.core_out "},
                {SB_OP_split_gate, "query gate "},
                {SB_OP_attn_gate, "gated "},
                {SB_OP_router, "router_ids router_weights "},
                {SB_OP_swiglu, "swiglu "},
                {SB_OP_moe_combine, "mlp.out "},
                {SB_OP_add, "attn_residual output "}};
    const char *ends = rows[op].ends;
    assert_int_equal(rows[op].op, op);
    for (size_t n; *ends; ends += n + 1) {
        n = strcspn(ends, " ");
        if (strlen(tap) >= n && memcmp(tap + strlen(tap) - n, ends, n) == 0)
            return 1;
    }
    return 0;
}

static const char *setting_of(sb_op op)
{
    return op == SB_OP_delta_rule_chunk ? "delta_rule=chunk64" : NULL;
}

TEST(test_each_fault_is_where_it_was_planted)
{
    const sb_model *model = play_model("test_op_faults", "T1", "mistakes");
    listener sound[2] = {{.plant.ran = 0}};
    run(model, NULL, &sound[0]);
    run(model, "delta_rule=chunk64", &sound[1]);
    for (const sb_planted *f = sb_op_faults; f->name; f++) {
        listener l = {.plant = {.fault = f, .layer = SB_EVERY_LAYER, .from = 2}};
        if (!f->run)
            continue;
        run(model, setting_of(f->op), &l);
        const test_tap *tap = difference(&l.record, &sound[setting_of(f->op) != NULL].record);
        if (!tap)
            fail_msg("%s changes nothing: %s", f->name, f->words);
        if (!made_by(f->op, tap->name))
            fail_msg("%s is first seen in %s", f->name, tap->name);
        silence(&l);
    }
    silence(&sound[0]);
    silence(&sound[1]);
}

TEST(test_mistakes_are_planted_too)
{
    const sb_model *model = play_model("test_op_faults", "T1", "mistakes");
    listener sound = {.plant.ran = 0};
    listener l = {
        .plant = {.fault = sb_planted_find(sb_mistakes, "gated_norm_one_plus"), .layer = 2}};
    run(model, NULL, &sound);
    run(model, NULL, &l);
    const test_tap *tap = difference(&l.record, &sound.record);
    assert_non_null(tap);
    assert_string_equal(tap->name, "layers.2.linear_attn.norm");
    assert_null(sb_planted_find(sb_mistakes, "none"));
    silence(&l);
    silence(&sound);
}

/* The benign twin: outside of its calls, a fault changes nothing. */
TEST(test_elsewhere_nothing_changes)
{
    const sb_model *model = play_model("test_op_faults", "T1", "mistakes");
    listener sound = {.plant.ran = 0};
    listener l = {.plant = {.fault = sb_planted_find(sb_op_faults, "linear.sign"),
                            .layer = SB_EVERY_LAYER,
                            .from = PROMPT + DECODE + 1}};
    run(model, NULL, &sound);
    run(model, NULL, &l);
    assert_non_null(l.plant.fault);
    assert_null(difference(&l.record, &sound.record));
    assert_int_equal(l.plant.ran, 0);
    silence(&l);
    silence(&sound);
}

TEST(test_every_pair_has_a_row)
{
    static const char *const kinds[] = {
#define SB_OP_FAULT_KIND(id, words) #id,
#include "tools/judge/fault/lists/op_kinds.def"
#undef SB_OP_FAULT_KIND
    };
    unsigned rows[SB_OP_COUNT][SB_OP_FAULT_KINDS] = {{0}};
    for (const sb_planted *f = sb_op_faults; f->name; f++) {
        rows[f->op][f->kind]++;
        assert_ptr_equal(sb_planted_find(sb_op_faults, f->name), f);
        assert_true(strlen(f->words) > 4);
    }
    for (size_t op = 0; op < SB_OP_COUNT; op++)
        for (int kind = 0; kind < SB_OP_FAULT_KINDS; kind++)
            if (rows[op][kind] != 1)
                fail_msg("%s.%s: %u rows", sb_op_name(op), kinds[kind], rows[op][kind]);
}

TEST_GROUP(NULL, play_close_models)
