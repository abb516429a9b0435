/* test_exact.c - profile exact, seed 42: the same tokens, and the same state after them, with and
 * without drafts: for every K, for prompts in one call or cut, for both kinds of rollback, with 1
 * and 2 threads. Greedy, and sampled in the mode that accepts a draft exactly if it is the row's
 * own draw (P-11). */
#include "ref/base/pool.h"
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "tests/mtp/play.h"

enum { PROMPT = 7, TOKENS = 24 };

static const sb_sampling samplings[] = {
    {.seed = 42, .top_p = 1},
    {.seed = 42, .temperature = 0.7f, .top_p = 1, .top_k = 20},
    {.seed = 42, .temperature = 1.3f, .top_p = 0.9f, .min_p = 0.02f},
    {.seed = 42, .temperature = 1.3f, .top_p = 0.95f, .top_k = 50},
};
enum { SAMPLINGS = sizeof samplings / sizeof *samplings };

/* How a text is made. */
typedef struct way {
    size_t drafts, cut; /* cut: tokens of the first call of the prompt; 0: one call */
    int threads;
    sb_rollback rollback;
} way;

typedef struct text {
    uint32_t tokens[TOKENS + 1];
    play_digests state;
    size_t drafted, accepted;
} text;

static void feed_prompt(sb_session *s, size_t cut)
{
    uint32_t ids[PROMPT];
    test_draw_ids("exact", sb_session_model(s)->config.vocab_size, ids, PROMPT);
    if (cut)
        test_feed(s, ids, cut);
    test_feed(s, ids + cut, PROMPT - cut);
}

static text make(const sb_model *model, const sb_sampling *sampling, const way *w)
{
    float logits[384];
    text t = {.drafted = 0};
    sb_error err = {""};
    sb_threads_set((size_t)w->threads);
    assert_true(model->config.vocab_size <= 384);
    sb_session *s = play_session(model, NULL);
    sb_rounds *r = play_rounds(s, sampling, w->rollback);
    feed_prompt(s, w->cut);
    assert_int_equal(sb_session_logits(s, sb_session_rows(s) - 1, logits, &err), SB_OK);
    assert_int_equal(sb_rounds_pick(r, logits, PROMPT, &t.tokens[0], &err), SB_OK);
    for (size_t n = 1; n <= TOKENS;) {
        sb_round round = play_round(r, &(sb_round_ask){.token = t.tokens[n - 1],
                                                       .drafts = w->drafts,
                                                       .forced = -1,
                                                       .limit = TOKENS + 1 - n});
        memcpy(t.tokens + n, round.tokens, round.emitted * sizeof *round.tokens);
        n += round.emitted;
        t.drafted += round.drafted;
        t.accepted += round.accepted;
    }
    t.state = play_digest(sb_session_state(s));
    sb_rounds_free(r);
    sb_session_free(s);
    return t;
}

/* One token at a time, without rounds. */
static text make_plainly(const sb_model *model, const sb_sampling *sampling)
{
    float logits[384];
    text t = {.drafted = 0};
    sb_error err = {""};
    sb_session *s = play_session(model, NULL);
    sb_rounds *r = play_rounds(s, sampling, SB_ROLLBACK_snapshots);
    feed_prompt(s, 0);
    for (size_t n = 0; n <= TOKENS; n++) {
        assert_int_equal(sb_session_logits(s, sb_session_rows(s) - 1, logits, &err), SB_OK);
        assert_int_equal(sb_rounds_pick(r, logits, PROMPT + n, &t.tokens[n], &err), SB_OK);
        if (n < TOKENS)
            test_feed(s, t.tokens + n, 1);
    }
    t.state = play_digest(sb_session_state(s));
    sb_rounds_free(r);
    sb_session_free(s);
    return t;
}

static void check(const char *name, const text *got, const text *plain, const way *w)
{
    for (size_t n = 0; n <= TOKENS; n++)
        if (got->tokens[n] != plain->tokens[n])
            fail_msg("%s, K = %zu: token %zu is %u; without drafts it is %u", name, w->drafts, n,
                     (unsigned)got->tokens[n], (unsigned)plain->tokens[n]);
    if (!play_equal(&got->state, &plain->state))
        fail_msg("%s, K = %zu: the state behind the text is another", name, w->drafts);
}

/* Every K on one model. Some drafts must be accepted and some rejected, or the test would show
 * little. */
static void run_sampling(const sb_model *model, const char *preset, const sb_sampling *sampling)
{
    char name[64];
    size_t drafted = 0, accepted = 0;
    snprintf(name, sizeof name, "%s at temperature %g, top_k %u", preset,
             (double)sampling->temperature, (unsigned)sampling->top_k);
    text plain = make_plainly(model, sampling);
    for (size_t K = 0; K <= SB_MAX_DRAFTS; K++) {
        way w = {.drafts = K,
                 .cut = K % PROMPT,
                 .threads = K % 3 == 1 ? 2 : 1,
                 .rollback = K % 2 ? SB_ROLLBACK_replay : SB_ROLLBACK_snapshots};
        text t = make(model, sampling, &w);
        check(name, &t, &plain, &w);
        drafted += t.drafted;
        accepted += t.accepted;
    }
    printf("%s: %zu of %zu drafts accepted\n", name, accepted, drafted);
    if (accepted == 0 || accepted == drafted)
        fail_msg("%s: %zu of %zu drafts accepted shows nothing", name, accepted, drafted);
}

TEST(test_every_k)
{
    for (size_t i = 0; i < SAMPLINGS; i++)
        run_sampling(play_flat_model("test_mtp_exact", "T4", "predictable"), "T4", &samplings[i]);
}

/* The texts depend on the settings: other settings give other texts. */
TEST(test_texts_differ)
{
    const sb_model *model = play_flat_model("test_mtp_exact", "T4", "predictable");
    for (size_t i = 0; i < SAMPLINGS; i++) {
        text a = make_plainly(model, &samplings[i]);
        for (size_t j = 0; j < i; j++) {
            text b = make_plainly(model, &samplings[j]);
            assert_memory_not_equal(a.tokens, b.tokens, sizeof a.tokens);
        }
        sb_sampling other = samplings[i];
        other.seed = 43;
        text c = make_plainly(model, &other);
        assert_int_equal(memcmp(a.tokens, c.tokens, sizeof a.tokens) == 0,
                         samplings[i].temperature == 0);
    }
}

/* At K = 3, the splits, threads and kinds of rollback that the runs over K did not take. */
TEST(test_every_way)
{
    const sb_model *model = play_flat_model("test_mtp_exact", "T4", "predictable");
    text plain = make_plainly(model, &samplings[2]);
    for (size_t cut = 0; cut < PROMPT; cut++)
        for (int threads = 1; threads <= 2; threads++) {
            way w = {.drafts = 3,
                     .cut = cut,
                     .threads = threads,
                     .rollback =
                         (cut + (size_t)threads) % 2 ? SB_ROLLBACK_replay : SB_ROLLBACK_snapshots};
            text t = make(model, &samplings[2], &w);
            check("another way", &t, &plain, &w);
        }
}

/* Experts and Qwen3-Next. */
TEST(test_other_models)
{
    static const char *const presets[] = {"T3", "T5"};
    for (size_t i = 0; i < 2; i++) {
        const sb_model *model = play_flat_model("test_mtp_exact", presets[i], "predictable");
        text plain = make_plainly(model, &samplings[1 + i]);
        for (size_t K = 2; K <= 5; K += 3) {
            way w = {.drafts = K, .cut = 2, .threads = 2};
            text t = make(model, &samplings[1 + i], &w);
            check(presets[i], &t, &plain, &w);
        }
    }
}

TEST_GROUP(NULL, play_close_models)
