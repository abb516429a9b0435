/* test_forms.c - K-30: prompts, decode steps and verifies under the knobs that distinguish them,
 * and the rollback of a verify. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/checkpoint.h"
#include "tests/lib/plain.h"
#include "tests/lib/record.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The calls of a sequence, in this order. */
enum { VERIFY, STEP, LONE_VERIFY, PROMPT, CALLS };

static const size_t lengths[CALLS] = {[VERIFY] = 3, [STEP] = 1, [LONE_VERIFY] = 1, [PROMPT] = 60};

enum { TOKENS = 65, ANY = -1 };

static sb_model *model;
static uint32_t ids[TOKENS];

TEST_FIXTURE(open_model)
{
    model = test_model_open(test_checkpoint_with(
        "test_forms",
        &(sb_make_options){.dir = "T1", .preset = "T1", .format = "f32", .layers = 1}));
    test_draw_ids("forms", 377, ids, TOKENS);
    return 0;
}

TEST_FIXTURE(close_model)
{
    sb_model_close(model);
    return 0;
}

static sb_rollback way_back(const sb_knobs *knobs)
{
    return sb_knobs_have_row_states(knobs) ? SB_ROLLBACK_snapshots : SB_ROLLBACK_replay;
}

/* The digest of one tap of layer 0 in each call. */
static void digests(const char *settings, const char *tap, sb_digest of[CALLS])
{
    sb_knobs knobs = test_knobs(settings);
    test_record record = {NULL, 0, 0};
    sb_session *session = test_session(model, &knobs, &record);
    size_t from = 0, seen = 0;
    for (int call = 0; call < CALLS; call++) {
        if (call == VERIFY || call == LONE_VERIFY) {
            assert_int_equal(
                sb_session_verify(session, ids + from, lengths[call], way_back(&knobs), NULL),
                SB_OK);
            assert_int_equal(sb_session_keep(session, lengths[call], NULL), SB_OK);
        } else {
            test_feed(session, ids + from, lengths[call]);
        }
        from += lengths[call];
        for (; seen < record.count; seen++)
            if (strcmp(record.taps[seen].name, tap) == 0)
                of[call] = record.taps[seen].digest;
    }
    sb_session_free(session);
    test_record_free(&record);
}

static int same(const sb_digest *a, const sb_digest *b)
{
    return strcmp(a->hex, b->hex) == 0;
}

/* Two settings, and the calls in which they differ. Convolution, gates and norms of layer 0 depend
 * on the tokens alone. The delta rule depends on its state, too: its rows stop at the first
 * difference. */
TEST(test_calls)
{
    static const struct {
        const char *base, *other, *tap;
        int differs[CALLS]; /* VERIFY, STEP, LONE_VERIFY, PROMPT */
    } rows[] = {
        {"act=bf16", "act=bf16 conv_product=act", "conv", {1, 1, 1, 1}},
        {"act=bf16", "act=bf16 conv_product=act_steps", "conv", {1, 1, 1, 0}},
        {"act=bf16", "act=bf16 beta=act", "beta", {1, 1, 1, 1}},
        {"act=bf16", "act=bf16 beta=act_decode", "beta", {0, 1, 1, 0}},
        {"act=bf16", "act=bf16 beta=act_prompt", "beta", {0, 0, 0, 1}},
        {"act=bf16", "act=bf16 l2norm_round=act_prompt", "q", {0, 0, 0, 1}},
        {"l2norm=rsqrt", "l2norm=vllm", "k", {0, 1, 1, 1}},
        {"l2norm=divide", "l2norm=vllm", "k", {1, 0, 0, 1}},
        {"l2norm=reciprocal", "l2norm=vllm", "k", {1, 1, 1, 0}},
        {"softplus=log_exp", "softplus=vllm", "g", {0, 0, 0, 1}},
        {"softplus=log_exp_abs", "softplus=vllm", "g", {ANY, ANY, ANY, 0}},
        {"", "delta_rule=prompt_fla", "core_out", {0, 0, 0, 1}},
        {"", "delta_rule=prompt_fla", "q", {0, 0, 0, 1}}, /* unscaled */
        {"", "delta_rule=chunk_fla", "q", {1, 1, 1, 1}},
        {"q_scale=by_form", "delta_rule=by_rows q_scale=by_form", "q", {0, 0, 0, 0}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        sb_digest base[CALLS], other[CALLS];
        char tap[64];
        snprintf(tap, sizeof tap, "layers.0.linear_attn.%s", rows[i].tap);
        digests(rows[i].base, tap, base);
        digests(rows[i].other, tap, other);
        for (int call = 0; call < CALLS; call++)
            if (same(&base[call], &other[call]) == rows[i].differs[call]) /* never, if ANY */
                fail_msg("%s and %s: %s of call %d %s", rows[i].base, rows[i].other, rows[i].tap,
                         call, rows[i].differs[call] ? "is the same" : "differs");
    }
}

static sb_digest first_output(const char *rule, size_t n)
{
    char settings[64];
    sb_digest of = {""};
    test_record record = {NULL, 0, 0};
    snprintf(settings, sizeof settings, "delta_rule=%s", rule);
    sb_knobs knobs = test_knobs(settings);
    sb_session *session = test_session(model, &knobs, &record);
    test_feed(session, ids, n);
    for (size_t i = 0; i < record.count; i++)
        if (strcmp(record.taps[i].name, "layers.0.linear_attn.core_out") == 0)
            of = record.taps[i].digest;
    sb_session_free(session);
    test_record_free(&record);
    return of;
}

/* K-15: "by_rows is recurrent for every call of one row" - also for the first. */
TEST(test_by_rows)
{
    sb_digest lone = first_output("by_rows", 1), five = first_output("by_rows", 5);
    sb_digest steps = first_output("recurrent", 1), chunk = first_output("by_call", 1);
    sb_digest all_steps = first_output("recurrent", 5), chunks = first_output("chunk64", 5);
    assert_true(same(&lone, &steps) && !same(&lone, &chunk));
    assert_true(same(&five, &chunks) && !same(&five, &all_steps));
}

/* S-10 under the profiles of engines: the state kept after a verify equals, to the bit, the state
 * after a verify of the kept rows alone, by snapshots and by replay, for several numbers of rows;
 * and so does the state after a later step. */
TEST(test_way_back)
{
    static const char *const profiles[] = {"vllm", "sglang", "llamacpp"};
    static const char *const more[] = {"delta_state=f32", "delta_state=act"};
    for (size_t i = 0; i < COUNT(profiles) * COUNT(more); i++) {
        sb_knobs knobs;
        sb_digest want[2];
        assert_int_equal(sb_knobs_profile(&knobs, profiles[i / 2], NULL), SB_OK);
        assert_int_equal(sb_knobs_set(&knobs, more[i % 2], NULL), SB_OK);
        int both = sb_knobs_have_row_states(&knobs);
        for (size_t kept = 2; kept <= 4; kept++)
            for (int way = both ? 0 : 1; way < 3; way++) { /* snapshots, replay, kept rows alone */
                sb_session *session = test_session(model, &knobs, NULL);
                test_feed(session, ids, 3);
                assert_int_equal(
                    sb_session_verify(session, ids + 3, way == 2 ? kept : 5,
                                      way == 0 ? SB_ROLLBACK_snapshots : SB_ROLLBACK_replay, NULL),
                    SB_OK);
                assert_int_equal(sb_session_keep(session, kept, NULL), SB_OK);
                sb_digest got = test_state_digest(session);
                test_feed(session, ids + 7, 1);
                sb_digest after = test_state_digest(session);
                int is_first = way == (both ? 0 : 1);
                if (!is_first && (!same(&got, &want[0]) || !same(&after, &want[1])))
                    fail_msg("%s, %s: way %d, %zu rows kept: another state", profiles[i / 2],
                             more[i % 2], way, kept);
                want[0] = got;
                want[1] = after;
                sb_session_free(session);
            }
    }
}

/* S-3 as a function: sb_knobs_split_anywhere is false for every value of these knobs that makes two
 * of the calls above differ. */
TEST(test_split_anywhere)
{
    static const char *const not_so[] = {
        "delta_rule=by_rows",      "delta_rule=prompt_fla", "l2norm=vllm",
        "l2norm_round=act_prompt", "softplus=vllm",         "beta=act_decode",
        "beta=act_prompt",         "delta_state=act",       "conv_product=act_steps"};
    static const char *const so[] = {"", "act=bf16 beta=act", "l2norm=divide conv_product=act"};
    for (size_t i = 0; i < COUNT(not_so); i++) {
        sb_knobs knobs = test_knobs(not_so[i]);
        assert_false(sb_knobs_split_anywhere(&knobs));
    }
    for (size_t i = 0; i < COUNT(so); i++) {
        sb_knobs knobs = test_knobs(so[i]);
        assert_true(sb_knobs_split_anywhere(&knobs));
    }
}

TEST_GROUP(open_model, close_model)
