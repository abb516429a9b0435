/* test_knobs.c - knobs and profiles as text, and the law of section K: a knob changes its own tap
 * and no tap before. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "ref/ops/knob.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/plain.h"
#include "tests/lib/record.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define PROGRAM "test_knobs"

TEST(test_first_values_are_exact)
{
    sb_knobs knobs, profile;
    sb_knobs_exact(&knobs);
    assert_int_equal(sb_knobs_profile(&profile, "exact", NULL), SB_OK);
    for (unsigned k = 0; k < SB_KNOB_COUNT; k++) {
        unsigned first = 0;
        while (sb_knob_of_value((sb_knob_value)first) != (sb_knob)k)
            first++;
        assert_int_equal(knobs.value[k], first);
        assert_int_equal(profile.value[k], first);
    }
    assert_true(SB_IS(&knobs, act, f32) && SB_IS(&knobs, delta_rule, recurrent));
    assert_true(SB_IS(&knobs, params, stored) && SB_IS(&knobs, moe_sum, dot));
}

/* Every knob and value can be set by name; setting it changes no other knob. */
TEST(test_set_by_name)
{
    for (unsigned v = 0; v < SB_VALUE_COUNT; v++) {
        sb_knobs knobs, before;
        char text[64];
        sb_knob knob = sb_knob_of_value((sb_knob_value)v);
        sb_knobs_exact(&knobs);
        before = knobs;
        snprintf(text, sizeof text, "%s=%s", sb_knob_name(knob),
                 sb_knob_value_name((sb_knob_value)v));
        assert_int_equal(sb_knobs_set(&knobs, text, NULL), SB_OK);
        assert_int_equal(knobs.value[knob], v);
        knobs.value[knob] = before.value[knob];
        assert_memory_equal(&knobs, &before, sizeof knobs);
        assert_true(sb_knob_clause(knob)[0] == 'K' && *sb_knob_help(knob));
    }
}

static void check_lists_knobs(const char *message)
{
    for (unsigned k = 0; k < SB_KNOB_COUNT; k++)
        if (!strstr(message, sb_knob_name((sb_knob)k)))
            fail_msg("\"%s\" does not list %s", message, sb_knob_name((sb_knob)k));
}

TEST(test_wrong_settings)
{
    static const char *const unknown[] = {
        "", "=", "=bf16", "ac=bf16", "acts=bf16", "Act=bf16", " act=bf16", "act =bf16", "act,bf16"};
    static const char *const no_value[] = {"act",       "act=",          "act=bf",   "act=bf16 ",
                                           "act=bf166", "act=recurrent", "act=BF16", "act=f32=f32"};
    sb_knobs knobs, before;
    sb_error err;
    sb_knobs_exact(&knobs);
    before = knobs;
    for (size_t i = 0; i < COUNT(unknown); i++) {
        assert_int_equal(sb_knobs_set(&knobs, unknown[i], &err), SB_ERR_USAGE);
        check_lists_knobs(err.text);
    }
    for (size_t i = 0; i < COUNT(no_value); i++) {
        assert_int_equal(sb_knobs_set(&knobs, no_value[i], &err), SB_ERR_USAGE);
        assert_non_null(strstr(err.text, "'act'"));
        assert_non_null(strstr(err.text, "f32, bf16, f16"));
        assert_null(strstr(err.text, "recurrent,"));
    }
    assert_memory_equal(&knobs, &before, sizeof knobs);
}

TEST(test_profiles)
{
    static const struct {
        const char *profile;
        sb_knob_value value;
    } rows[] = {
#define SB_PROFILE(name, help)
#define SB_SET(profile, knob, value) {#profile, SB_##knob##_##value},
#include "ref/ops/profiles.def"
#undef SB_PROFILE
#undef SB_SET
    };
    sb_knobs knobs, expected;
    sb_error err;
    assert_true(sb_profile_count() >= 2);
    assert_string_equal(sb_profile_name(0), "exact");
    for (size_t p = 0; p < sb_profile_count(); p++) {
        memset(&knobs, 0x55, sizeof knobs);
        sb_knobs_exact(&expected);
        for (size_t i = 0; i < COUNT(rows); i++)
            if (strcmp(rows[i].profile, sb_profile_name(p)) == 0)
                expected.value[sb_knob_of_value(rows[i].value)] = rows[i].value;
        assert_int_equal(sb_knobs_profile(&knobs, sb_profile_name(p), NULL), SB_OK);
        assert_memory_equal(&knobs, &expected, sizeof knobs);
    }
    assert_int_equal(sb_knobs_profile(&knobs, "hF", &err), SB_ERR_USAGE);
    assert_memory_equal(&knobs, &expected, sizeof knobs);
    for (size_t p = 0; p < sb_profile_count(); p++)
        assert_non_null(strstr(err.text, sb_profile_name(p)));
}

/* The tap that a knob changes first, and the model and settings that show it. Every knob of
 * knobs.def needs a row. */
typedef struct law {
    const char *name, *tap;
    unsigned model;   /* row of made[] */
    const char *base; /* the other settings */
} law;

/* The models. The dk^1/2 of T6 is not a power of two. */
static const struct {
    const char *dir, *preset, *format;
    unsigned layers;
} made[] = {
    {"T1", "T1", "f32", 4},
    {"T6", "T6", "f32", 1},
    {"nvfp4", "T1", "nvfp4-ct", 1},
    {"block", "T1", "fp8-block", 1},
    {"channel", "T1", "fp8-channel", 1},
    {"tensor", "T1", "fp8-tensor", 1},
    {"mx", "T1", "mxfp4", 1},
    {"bf16", "T1", "bf16", 1},
    {"dense", "T4", "f32", 1},
    {"qwen3", "T7", "f32", 1},
};

#define FIRST_LINEAR "layers.0.linear_attn.in_proj_qkv"
#define FIRST_IN_MLP                                                                               \
    "layers.0.mlp.shared_expert.gate_proj" /* if linear attention is not affected */

static const law laws[] = {
    {"act", "embed", 0, "act=bf16"},
    {"params", "layers.0.input_layernorm", 0, "act=bf16"},
    {"conv_sum", "layers.0.linear_attn.conv", 0, "act=bf16"},
    {"softplus", "layers.0.linear_attn.g", 0, "act=bf16"},
    {"beta", "layers.0.linear_attn.beta", 0, "act=bf16"},
    {"swiglu", "layers.0.mlp.shared_expert.swiglu", 0, "act=bf16"},
    {"gated_norm", "layers.0.linear_attn.norm", 0, "act=bf16"},
    {"rope_freq", "layers.3.self_attn.q_rope", 0, ""}, /* visible before rounding to bfloat16 */
    {"rope_table", "layers.3.self_attn.q_rope", 0, "act=bf16"},
    {"rope_pair", "layers.3.self_attn.q_rope", 0, "act=bf16"},
    {"scores", "layers.3.self_attn.core_out", 0, "act=bf16"},
    {"attn_gate", "layers.3.self_attn.gated", 0, "act=bf16"},
    {"router_weight", "layers.0.mlp.router_weights", 0, "act=bf16"},
    {"moe_sum", "layers.0.mlp.out", 0, "act=bf16"},
    {"delta_rule", "layers.0.linear_attn.core_out", 0, "q_scale=output"}, /* R-22 scales outputs */
    {"q_scale", "layers.0.linear_attn.q", 1, "act=bf16"},
    {"conv_product", "layers.0.linear_attn.conv", 0, "act=bf16"},
    {"l2norm", "layers.0.linear_attn.q", 0, "act=bf16"},
    {"l2norm_round", "layers.0.linear_attn.q", 0, "act=bf16"},
    {"a_log", "layers.0.linear_attn.g", 0, "act=bf16 params=act"},
    {"delta_state", "layers.0.linear_attn.core_out", 0, "act=bf16"}, /* in the next call */
    {"dequant", FIRST_IN_MLP, 2, ""},
    {"act_fp4", FIRST_IN_MLP, 2, ""},
    {"act_fp8_group", FIRST_LINEAR, 3, ""},
    {"fp8_scale", FIRST_LINEAR, 3, "act_fp8_group=vllm_cuda"},
    {"act_fp8_token", FIRST_IN_MLP, 4, ""},
    {"act_fp8_static", FIRST_LINEAR, 5, ""},
    {"act_mx", FIRST_LINEAR, 6, ""},
    {"kv_cache", "layers.3.self_attn.core_out", 0, ""},
    {"mtp_position", "mtp.layers.0.self_attn.q_rope", 0, ""},
    {"mtp_first", "mtp.embed", 0, ""}, /* one row more */
    {"mtp_hidden", "mtp.pre_fc_norm_hidden", 0, ""},
    {"mtp_recycled", "mtp.pre_fc_norm_hidden", 0, ""},
    {"linear_input", FIRST_LINEAR, 7, ""},
    {"router_logits", "layers.0.mlp.gate", 0, "act=bf16"},
    {"logits", "logits", 0, "act=bf16"},
    {"norm_input", "layers.0.post_attention_layernorm", 0, "act=bf16"},
    {"norm_weight", "layers.0.input_layernorm", 0, "act=bf16"},
    {"router_tie", "layers.0.mlp.router_ids", 0, "act=bf16"}, /* with frequent equal logits */
    {"swiglu_dense", "layers.0.mlp.swiglu", 8, "act=bf16 swiglu=act"},
    {"shared_gate", "layers.0.mlp.shared_expert_gate", 0, "act=bf16"},
    {"residual", "layers.0.attn_residual", 0, "act=bf16"},
    {"plain_norm", "layers.0.input_layernorm", 9, "act=bf16"},
};

/* Values whose first changed tap differs from that of the other values of their knob. */
static const struct {
    const char *name, *value, *tap;
} exceptions[] = {
    {"moe_sum", "epilogue", "layers.0.mlp.experts.down_proj"},
    {"moe_sum", "wide", "layers.0.mlp.experts.gate_proj"},
};

enum { CALL = 70 }; /* more than a chunk; then one step */

static sb_model *models[COUNT(made)];

/* Laws with the same model and settings share one record. */
static struct {
    unsigned model;
    const char *base;
    test_record taps;
} shared[21];
static uint32_t ids[CALL + 1];

TEST_FIXTURE(open_models)
{
    for (size_t i = 0; i < COUNT(made); i++)
        models[i] = test_model_open(
            test_checkpoint_with(PROGRAM, &(sb_make_options){.dir = made[i].dir,
                                                             .preset = made[i].preset,
                                                             .format = made[i].format,
                                                             .layers = made[i].layers}));
    test_draw_ids("knobs", 377, ids, CALL + 1);
    return 0;
}

TEST_FIXTURE(close_models)
{
    for (size_t i = 0; i < COUNT(made); i++)
        sb_model_close(models[i]);
    for (size_t i = 0; i < COUNT(shared); i++)
        test_record_free(&shared[i].taps);
    return 0;
}

/* Compares each tap with a record, and stops at the first difference. */
typedef struct follower {
    const test_record *record;
    size_t next;
    char differs[96]; /* the first tap that differs, or "" */
} follower;

static sb_status follow(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                        sb_error *err)
{
    follower *f = ctx;
    const test_tap *tap = &f->record->taps[f->next++];
    assert_true(f->next <= f->record->count);
    assert_string_equal(name, tap->name);
    if (strcmp(sb_digest_f32(data, rows * cols).hex, tap->digest.hex) == 0)
        return SB_OK;
    snprintf(f->differs, sizeof f->differs, "%s", name);
    return sb_fail(err, SB_ERR_DIFF, "%s differs", name);
}

/* One call of `first` rows, a step with its logits, and two drafts, if the model has an MTP head.
 * *in_step is 1 after the first call. */
static sb_status feed(sb_session *session, unsigned model, size_t first, int *in_step,
                      sb_error *err)
{
    static float logits[1024];
    sb_status status = sb_session_feed(session, ids, first, err);
    *in_step = status == SB_OK;
    if (!status)
        status = sb_session_feed(session, ids + first, 1, err);
    if (!status)
        status = sb_session_logits(session, 0, logits, err);
    if (status || !sb_model_has_mtp(models[model]))
        return status;
    status = sb_session_draft(session, 7, logits, err);
    return status ? status : sb_session_draft(session, 8, logits, err);
}

/* The taps of all these calls, with those of the MTP head. */
static test_record record(unsigned model, const sb_knobs *knobs, size_t first)
{
    test_record taps = {NULL, 0, 0};
    sb_session_options options = {.knobs = knobs,
                                  .tap = test_record_tap,
                                  .tap_ctx = &taps,
                                  .mtp = sb_model_has_mtp(models[model])};
    sb_session *session = NULL;
    sb_error err;
    int in_step;
    assert_int_equal(sb_session_new(models[model], &options, &session, NULL), SB_OK);
    if (feed(session, model, first, &in_step, &err))
        fail_msg("%s", err.text);
    sb_session_free(session);
    return taps;
}

/* The first tap under these knobs that differs from the record; *in_step: not in the first call. */
static void first_difference(unsigned model, const sb_knobs *knobs, const test_record *base,
                             size_t first, char differs[96], int *in_step)
{
    follower f = {.record = base};
    sb_session_options options = {
        .knobs = knobs, .tap = follow, .tap_ctx = &f, .mtp = sb_model_has_mtp(models[model])};
    sb_session *session = NULL;
    sb_error err;
    assert_int_equal(sb_session_new(models[model], &options, &session, NULL), SB_OK);
    sb_status status = feed(session, model, first, in_step, &err);
    if (status != (*f.differs ? SB_ERR_DIFF : SB_OK))
        fail_msg("status %d: %s", (int)status, err.text);
    sb_session_free(session);
    memcpy(differs, f.differs, sizeof f.differs);
}

static const test_record *record_of(const law *l, const sb_knobs *base)
{
    size_t i = 0;
    while (shared[i].base && (shared[i].model != l->model || strcmp(shared[i].base, l->base) != 0))
        assert_true(++i < COUNT(shared));
    if (!shared[i].base) {
        shared[i].model = l->model;
        shared[i].base = l->base;
        shared[i].taps = record(l->model, base, CALL);
    }
    return &shared[i].taps;
}

/* True for values that change nothing in a prompt, and for knobs that change nothing in a first
 * call. */
static int waits_for_step(const char *setting)
{
    static const char *const late[] = {"conv_product=act_steps", "beta=act_decode",
                                       "delta_state=act"};
    for (size_t i = 0; i < COUNT(late); i++)
        if (strcmp(setting, late[i]) == 0)
            return 1;
    /* nothing is recycled before there are drafts, and logits are asked for after the step */
    return strncmp(setting, "mtp_recycled=", 13) == 0 || strncmp(setting, "logits=", 7) == 0;
}

static const char *tap_of(const law *l, const char *value)
{
    for (size_t i = 0; i < COUNT(exceptions); i++)
        if (strcmp(exceptions[i].name, l->name) == 0 && strcmp(exceptions[i].value, value) == 0)
            return exceptions[i].tap;
    return l->tap;
}

static void check_law(const law *l, sb_knob knob)
{
    sb_knobs base = test_knobs(l->base);
    const test_record *taps = record_of(l, &base);
    unsigned values = 0;
    for (unsigned v = 0; v < SB_VALUE_COUNT; v++) {
        sb_knobs knobs = base;
        char differs[96], setting[64];
        int in_step;
        knobs.value[knob] = (sb_knob_value)v;
        if (sb_knob_of_value((sb_knob_value)v) != knob || base.value[knob] == knobs.value[knob])
            continue;
        snprintf(setting, sizeof setting, "%s=%s", l->name, sb_knob_value_name((sb_knob_value)v));
        first_difference(l->model, &knobs, taps, CALL, differs, &in_step);
        const char *tap = tap_of(l, sb_knob_value_name((sb_knob_value)v));
        if (strcmp(differs, tap) != 0)
            fail_msg("%s changes '%s' first, expected %s", setting, differs, tap);
        assert_int_equal(in_step, waits_for_step(setting));
        values++;
    }
    assert_true(values > 0);
}

TEST(test_knobs_change_their_tap)
{
    for (unsigned k = 0; k < SB_KNOB_COUNT; k++) {
        size_t i = 0;
        while (i < COUNT(laws) && strcmp(laws[i].name, sb_knob_name((sb_knob)k)) != 0)
            i++;
        if (i == COUNT(laws))
            fail_msg("knob %s has no row in this test: which tap does it change first?",
                     sb_knob_name((sb_knob)k));
        check_law(&laws[i], (sb_knob)k);
    }
    assert_int_equal(COUNT(laws), SB_KNOB_COUNT);
}

/* The same knobs give the same taps in a second run, so that the differences come from the
 * knobs. */
TEST(test_repetition)
{
    char differs[96];
    int in_step;
    sb_knobs knobs = test_knobs("act=bf16");
    test_record taps = record(0, &knobs, 5);
    first_difference(0, &knobs, &taps, 5, differs, &in_step);
    assert_string_equal(differs, "");
    test_record_free(&taps);
}

/* K-15: "by_call is recurrent for a call of one row on a sequence that has a state, R-10 for every
 * other call"; K-16 follows the form. One layer of T6 is enough. */
TEST(test_form_of_a_call)
{
    static const struct {
        const char *base, *other;
        size_t first;
        const char *differs;
        int in_step;
    } cases[] = {
        {"delta_rule=chunk64", "delta_rule=by_call", CALL, "layers.0.linear_attn.core_out", 1},
        {"delta_rule=chunk64", "delta_rule=by_call", 1, "layers.0.linear_attn.core_out", 1},
        {"delta_rule=recurrent", "delta_rule=by_call", 2, "layers.0.linear_attn.core_out", 0},
        {"delta_rule=chunk64", "delta_rule=chunk64 q_scale=by_form", 5, "", 1},
        {"delta_rule=by_call", "delta_rule=by_call q_scale=by_form", 5, "layers.0.linear_attn.q",
         1},
        {"", "q_scale=by_form", 5, "layers.0.linear_attn.q", 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        sb_knobs base = test_knobs(cases[i].base), other = test_knobs(cases[i].other);
        char differs[96];
        int in_step;
        test_record taps = record(1, &base, cases[i].first);
        first_difference(1, &other, &taps, cases[i].first, differs, &in_step);
        if (strcmp(differs, cases[i].differs) != 0 || in_step != cases[i].in_step)
            fail_msg("%s and %s differ at '%s' of the %s", cases[i].base, cases[i].other, differs,
                     in_step ? "step" : "first call");
        test_record_free(&taps);
    }
}

TEST_GROUP(open_models, close_models)
