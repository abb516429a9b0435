/* prop_split.c - S-2: every split of the same tokens over calls gives the same bits. */
#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/checkpoint.h"
#include "tests/lib/record.h"

enum { N = 130, V_MOST = 384, TAILS = 3 };

/* The results of one way of feeding. */
typedef struct outcome {
    float *hidden;                /* (N, H) */
    float logits[TAILS * V_MOST]; /* of the last rows of the last call, the last one first */
    size_t tails;
    sb_digest state;
} outcome;

/* Feeds ids in calls that end at the positions in `ends`; the last of these is N. */
static outcome feed(const sb_model *model, const uint32_t *ids, const size_t *ends)
{
    size_t H = model->config.hidden_size, V = model->config.vocab_size, from = 0, rows = 0;
    outcome out = {.hidden = malloc(N * H * sizeof(float))};
    sb_session *session = test_session(model, NULL, NULL);
    sb_error err;
    assert_non_null(out.hidden);
    while (from < N) {
        rows = *ends - from;
        test_feed(session, ids + from, rows);
        assert_int_equal(sb_session_rows(session), rows);
        memcpy(out.hidden + from * H, sb_session_hidden(session), rows * H * sizeof(float));
        from = *ends++;
    }
    out.tails = rows < TAILS ? rows : TAILS;
    for (size_t i = 0; i < out.tails; i++)
        if (sb_session_logits(session, rows - 1 - i, out.logits + i * V, &err))
            fail_msg("%s", err.text);
    out.state = test_state_digest(session);
    sb_session_free(session);
    return out;
}

static void check_same(const sb_model *model, const char *how, const outcome *a, const outcome *b)
{
    size_t H = model->config.hidden_size, V = model->config.vocab_size;
    size_t tails = a->tails < b->tails ? a->tails : b->tails;
    for (size_t t = 0; t < N; t++)
        if (memcmp(a->hidden + t * H, b->hidden + t * H, H * sizeof(float)) != 0)
            fail_msg("%s: hidden of row %zu differs from that of one call", how, t);
    if (memcmp(a->logits, b->logits, tails * V * sizeof(float)) != 0)
        fail_msg("%s: logits of the last rows differ from those of one call", how);
    if (strcmp(a->state.hex, b->state.hex) != 0)
        fail_msg("%s: the state differs from that of one call", how);
}

static void check_preset(const char *preset)
{
    static const struct {
        const char *how;
        size_t ends[8];
    } splits[] = {
        {"split at 1", {1, N}},   {"split at 3", {3, N}},
        {"split at 63", {63, N}}, {"split at 64", {64, N}},
        {"split at 65", {65, N}}, {"split at all of these", {1, 3, 63, 64, 65, 128, N}},
    };
    uint32_t ids[N];
    size_t ends[N];
    sb_model *model = test_model_open(test_checkpoint("prop_split", preset, NULL, "bf16", "text"));
    test_draw_ids(preset, model->config.vocab_size, ids, N);
    ends[0] = N;
    outcome whole = feed(model, ids, ends);
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        outcome parts = feed(model, ids, splits[i].ends);
        check_same(model, splits[i].how, &parts, &whole);
        free(parts.hidden);
    }
    for (size_t t = 0; t < N; t++)
        ends[t] = t + 1;
    outcome single = feed(model, ids, ends);
    check_same(model, "one by one", &single, &whole);
    free(single.hidden);
    free(whole.hidden);
    sb_model_close(model);
}

TEST(test_t1)
{
    check_preset("T1");
}

TEST(test_t3)
{
    check_preset("T3");
}

TEST(test_t4)
{
    check_preset("T4");
}

TEST(test_t5)
{
    check_preset("T5");
}

/* S-3: with chunks, a split inside a chunk changes bits, and a split between chunks of the first
 * call does not. */
TEST(test_chunks_show_splits)
{
    static const size_t cuts[] = {64, 50};
    uint32_t ids[N];
    sb_knobs knobs;
    sb_knobs_exact(&knobs);
    assert_int_equal(sb_knobs_set(&knobs, "delta_rule=chunk64", NULL), SB_OK);
    sb_model *model = test_model_open(test_checkpoint("prop_split", "T4", NULL, "bf16", "text"));
    test_draw_ids("chunks", model->config.vocab_size, ids, N);
    sb_session *whole = test_session(model, &knobs, NULL),
               *parts = test_session(model, &knobs, NULL);
    test_feed(whole, ids, N);
    for (size_t i = 0; i < 2; i++) {
        sb_session_reset(parts);
        test_feed(parts, ids, cuts[i]);
        test_feed(parts, ids + cuts[i], N - cuts[i]);
        int same = strcmp(test_state_digest(parts).hex, test_state_digest(whole).hex) == 0;
        assert_int_equal(same, cuts[i] == 64);
    }
    sb_session_free(whole);
    sb_session_free(parts);
    sb_model_close(model);
}
