/* test_invariants.c - what must hold of any program for these models (docs/invariants.md): calls,
 * rounds, and states. test_invariants_values.c has the invariants of the values inside a call. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/rng.h"
#include "tests/lib/plain.h"
#include "tests/mtp/tree.h"

#define PROGRAM "test_mtp_invariants"

enum { N = 14 };

static const sb_model *t4(void)
{
    return play_model(PROGRAM, "T4", "mistakes");
}

static const sb_model *t5(void)
{
    return play_model(PROGRAM, "T5", "mistakes");
}

static void draw(const char *name, uint32_t *ids, size_t n)
{
    test_draw_ids(name, t4()->config.vocab_size, ids, n);
}

/* 2: any cut of a prompt, also of a prompt with more rows than one block of the cache. */
TEST(test_02_any_split_is_the_same)
{
    enum { LONG = 70 };
    static const size_t cuts[] = {1, 2, 3, 4, 7, 63, 64, 65, 69};
    uint32_t ids[LONG];
    draw("split", ids, LONG);
    sb_session *whole = play_session(t4(), NULL), *parts = play_session(t4(), NULL);
    test_feed(whole, ids, LONG);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        sb_session_reset(parts);
        test_feed(parts, ids, cuts[i]);
        test_feed(parts, ids + cuts[i], LONG - cuts[i]);
        play_same("two calls", sb_session_state(parts), sb_session_state(whole));
        assert_memory_equal(sb_session_hidden(parts) +
                                (LONG - cuts[i] - 1) * t4()->config.hidden_size,
                            sb_session_hidden(whole) + (LONG - 1) * t4()->config.hidden_size,
                            t4()->config.hidden_size * sizeof(float));
    }
    sb_session_free(whole);
    sb_session_free(parts);
}

/* 3: in full in test_tree_*.c; here on Qwen3-Next with experts. */
TEST(test_03_a_round_is_its_accepted_tokens)
{
    assert_int_equal(
        tree_grow(&(tree_plan){
            .model = t5(), .prompt = "T5", .prompt_tokens = 3, .drafts = 3, .rounds = 1}),
        4 + 1 + 4);
}

/* 4: rounds with the same accepted and other rejected drafts leave the same state. The last round
 * of both accepts all drafts, so nothing is undone and the states differ. */
TEST(test_04_rejected_drafts_leave_no_trace)
{
    uint32_t ids[4], other[4];
    draw("accepted", ids, 4);
    draw("rejected", other, 4);
    for (int way = 0; way < 2; way++)
        for (size_t accepted = 0; accepted <= 3; accepted++) {
            sb_session *a = play_session(t4(), NULL), *b = play_session(t4(), NULL);
            sb_rounds *of_a = play_rounds(a, NULL, (sb_rollback)way);
            sb_rounds *of_b = play_rounds(b, NULL, (sb_rollback)way);
            uint32_t mixed[4], token = play_prompt(a, "prompt", 3);
            play_prompt(b, "prompt", 3);
            for (size_t j = 0; j < 4; j++)
                mixed[j] = j < accepted ? ids[j] : other[j];
            sb_round_ask ask = {.token = token, .drafts = 4, .given = ids, .forced = (int)accepted};
            sb_round x = play_round(of_a, &ask);
            ask.given = mixed;
            sb_round y = play_round(of_b, &ask);
            assert_int_equal(x.emitted, y.emitted);
            assert_memory_equal(x.tokens, y.tokens, x.emitted * sizeof *x.tokens);
            play_same("other drafts", sb_session_state(a), sb_session_state(b));
            ask.forced = 4;
            ask.given = ids;
            play_round(of_a, &ask);
            ask.given = mixed;
            play_round(of_b, &ask);
            assert_non_null(play_difference(sb_session_state(a), sb_session_state(b)));
            sb_rounds_free(of_a);
            sb_rounds_free(of_b);
            sb_session_free(a);
            sb_session_free(b);
        }
}

/* 5: directly after a round that kept more than one token. */
TEST(test_05_no_drafts_behind_many_accepted)
{
    for (int way = 0; way < 2; way++)
        for (int accepted = 1; accepted <= 3; accepted++) {
            sb_session *plain = play_session(t5(), NULL), *s = play_session(t5(), NULL);
            sb_rounds *r = play_rounds(s, NULL, (sb_rollback)way);
            uint32_t token = play_prompt(s, "prompt", 3);
            play_prompt(plain, "prompt", 3);
            test_feed(plain, &token, 1);
            sb_round round =
                play_round(r, &(sb_round_ask){.token = token, .drafts = 3, .forced = accepted});
            test_feed(plain, round.tokens, (size_t)accepted);
            token = round.tokens[accepted];
            for (int again = 0; again < 2; again++) {
                round = play_round(r, &(sb_round_ask){.token = token, .forced = -1});
                test_feed(plain, &token, 1);
                token = play_greedy(plain);
                assert_int_equal(round.emitted, 1);
                assert_int_equal(round.tokens[0], token);
                play_same("no drafts", sb_session_state(s), sb_session_state(plain));
            }
            sb_rounds_free(r);
            sb_session_free(s);
            sb_session_free(plain);
        }
}

/* 6: greedy, with drafts of the head and without. test_exact.c has the same with sampling. */
TEST(test_06_greedy_with_drafts_is_greedy)
{
    enum { TOKENS = 40 };
    uint32_t plainly[TOKENS + 1];
    const sb_model *model = play_model(PROGRAM, "T4", "predictable");
    sb_session *plain = play_session(model, NULL), *s = play_session(model, NULL);
    sb_rounds *r = play_rounds(s, NULL, SB_ROLLBACK_snapshots);
    plainly[0] = play_prompt(plain, "greedy", 3);
    uint32_t token = play_prompt(s, "greedy", 3);
    for (size_t i = 0; i < TOKENS; i++) {
        test_feed(plain, plainly + i, 1);
        plainly[i + 1] = play_greedy(plain);
    }
    size_t drafted = 0, accepted = 0;
    for (size_t n = 0; n < TOKENS;) {
        sb_round round = play_round(
            r, &(sb_round_ask){.token = token, .drafts = 3, .forced = -1, .limit = TOKENS - n});
        assert_memory_equal(round.tokens, plainly + n + 1, round.emitted * sizeof token);
        n += round.emitted;
        token = round.tokens[round.emitted - 1];
        drafted += round.drafted;
        accepted += round.accepted;
    }
    play_same("greedy", sb_session_state(s), sb_session_state(plain));
    assert_true(accepted > 0 && accepted < drafted);
    sb_rounds_free(r);
    sb_session_free(s);
    sb_session_free(plain);
}

/* 7: the bonus token is never counted; the limit cuts both the emitted and the kept tokens. */
TEST(test_07_counts)
{
    sb_session *s = play_session(t4(), NULL);
    sb_rounds *r = play_rounds(s, NULL, SB_ROLLBACK_snapshots);
    uint32_t token = play_prompt(s, "prompt", 3);
    uint64_t fed = 3;
    for (size_t drafts = 0; drafts <= 4; drafts++)
        for (size_t accepted = 0; accepted <= drafts; accepted++)
            for (size_t limit = 0; limit <= drafts + 2; limit++) {
                sb_round round = play_round(r, &(sb_round_ask){.token = token,
                                                               .drafts = drafts,
                                                               .forced = (int)accepted,
                                                               .limit = limit});
                size_t whole = accepted + 1, emitted = limit && limit < whole ? limit : whole;
                assert_int_equal(round.drafted, drafts);
                assert_int_equal(round.accepted, accepted);
                assert_int_equal(round.emitted, emitted);
                assert_true(round.position == fed);
                fed += emitted;
                assert_true(sb_session_state(s)->position == fed);
                assert_true(sb_session_state(s)->mtp_entries == fed - 1);
                assert_int_equal(sb_session_rows(s), emitted);
                token = round.tokens[emitted - 1];
            }
    sb_rounds_free(r);
    sb_session_free(s);
}

/* 9: a state taken at any position continues in a session with another past, with other tokens
 * after it. */
TEST(test_09_a_taken_state_is_recomputing)
{
    uint32_t ids[N], other[N];
    draw("first", ids, N);
    draw("second", other, N);
    sb_session *s = play_session(t4(), NULL), *anew = play_session(t4(), NULL);
    for (size_t cut = 1; cut < N; cut++) {
        sb_session_reset(s);
        test_feed(s, ids, cut);
        sb_state *taken = play_copy(sb_session_state(s));
        test_feed(s, other, N);
        play_set(s, taken);
        test_feed(s, other, N - cut);
        sb_session_reset(anew);
        test_feed(anew, ids, cut);
        test_feed(anew, other, N - cut);
        play_same("behind a taken state", sb_session_state(s), sb_session_state(anew));
        sb_state_free(taken);
    }
    sb_session_free(s);
    sb_session_free(anew);
}

static void poison(float *values, size_t count)
{
    for (size_t i = 0; values && i < count; i++)
        values[i] = NAN;
}

/* Every cell, used or not. */
static void poison_all(sb_state *s)
{
    const sb_config *c = s->config;
    poison(s->mtp_hidden, c->hidden_size);
    for (uint32_t i = 0; i < sb_state_layers(s); i++) {
        poison(s->layers[i].conv, sb_state_conv_size(c));
        poison(s->layers[i].recurrent, sb_state_recurrent_size(c));
        poison(s->layers[i].keys, (size_t)s->capacity * sb_state_kv_row(c));
        poison(s->layers[i].values, (size_t)s->capacity * sb_state_kv_row(c));
    }
}

/* 10: leftovers of an earlier sequence have no effect. One poisoned cell that the new sequence
 * reads is noticed. */
TEST(test_10_a_reused_session_starts_anew)
{
    static const char *const settings[] = {"", "mtp_first=zeros"};
    uint32_t ids[N];
    sb_error err;
    draw("anew", ids, N);
    for (size_t i = 0; i < 2; i++) {
        sb_knobs knobs = test_knobs(settings[i]);
        sb_session_options options = {.knobs = &knobs};
        sb_session *fresh = play_session(t4(), &options), *used = play_session(t4(), &options);
        sb_state *live = (sb_state *)sb_session_state(used);
        test_feed(fresh, ids, N);
        test_feed(used, ids + 2, N - 2);
        poison_all(live);
        sb_session_reset(used);
        test_feed(used, ids, N);
        play_same("a used session", sb_session_state(used), sb_session_state(fresh));
        poison_all(live);
        sb_session_reset(used);
        live->layers[0].recurrent[7] = NAN;
        assert_int_equal(sb_session_feed(used, ids, N, &err), SB_ERR_NUMERIC);
        sb_session_free(fresh);
        sb_session_free(used);
    }
}

/* 11: a session is one row of a batch; the sessions are fed in two orders, and alone. A call has no
 * padding rows; the test of invariant 4 has the rejected rows of a round. */
TEST(test_11_order_of_sequences)
{
    enum { SEQUENCES = 3 };
    sb_state *alone[SEQUENCES];
    uint32_t ids[SEQUENCES][N];
    for (size_t i = 0; i < SEQUENCES; i++) {
        char name[16];
        snprintf(name, sizeof name, "sequence %zu", i);
        draw(name, ids[i], N);
        sb_session *s = play_session(t5(), NULL);
        test_feed(s, ids[i], N);
        alone[i] = play_copy(sb_session_state(s));
        sb_session_free(s);
    }
    for (int reverse = 0; reverse < 2; reverse++) {
        sb_session *s[SEQUENCES];
        for (size_t i = 0; i < SEQUENCES; i++)
            s[i] = play_session(t5(), NULL);
        for (size_t t = 0; t < N; t++)
            for (size_t i = 0; i < SEQUENCES; i++) {
                size_t at = reverse ? SEQUENCES - 1 - i : i;
                test_feed(s[at], &ids[at][t], 1);
            }
        for (size_t i = 0; i < SEQUENCES; i++) {
            play_same("among others", sb_session_state(s[i]), alone[i]);
            sb_session_free(s[i]);
        }
    }
    for (size_t i = 0; i < SEQUENCES; i++)
        sb_state_free(alone[i]);
}

/* 13: one entry fewer than tokens; as many entries as tokens under the zeros of K-27. */
TEST(test_13_entries_of_the_head)
{
    static const char *const settings[] = {"", "mtp_first=zeros"};
    uint32_t ids[N];
    draw("entries", ids, N);
    for (size_t i = 0; i < 2; i++) {
        sb_knobs knobs = test_knobs(settings[i]);
        sb_session *s = play_session(t4(), &(sb_session_options){.knobs = &knobs});
        for (size_t calls = 1, fed = 0; fed < N; calls++) {
            size_t rows = calls < N - fed ? calls : N - fed;
            test_feed(s, ids + fed, rows);
            fed += rows;
            assert_true(sb_session_state(s)->mtp_entries == fed - (i == 0));
        }
        sb_session_free(s);
    }
}

/* K-27: "the pair of the zero vector and x_0, at position 0", for both values of K-26: the keys of
 * the first entry are the same to the bit, those of the second entry are not, because its position
 * differs. */
TEST(test_13_first_entry_is_at_position_0)
{
    static const char *const settings[] = {"mtp_first=zeros", "mtp_first=zeros mtp_position=token"};
    sb_session *s[2];
    for (size_t i = 0; i < 2; i++) {
        sb_knobs knobs = test_knobs(settings[i]);
        s[i] = play_session(t4(), &(sb_session_options){.knobs = &knobs});
        play_prompt(s[i], "first entry", 2);
    }
    const sb_state *a = sb_session_state(s[0]), *b = sb_session_state(s[1]);
    const float *left = a->layers[a->config->layers].keys,
                *right = b->layers[a->config->layers].keys;
    size_t row = sb_state_kv_row(a->config);
    assert_memory_equal(left, right, row * sizeof *left);
    assert_memory_not_equal(left + row, right + row, row * sizeof *left);
    sb_session_free(s[0]);
    sb_session_free(s[1]);
}

/* Logits of the first draft after `token` from a state. */
static void first_draft(const sb_state *from, uint32_t token, float *logits)
{
    sb_session *s = play_session(t4(), NULL);
    play_set(s, from);
    assert_int_equal(sb_session_draft(s, token, logits, NULL), SB_OK);
    sb_session_free(s);
}

/* 13: the first draft reads h_t, x_{t+1} and the entries, and nothing of the target's state. */
TEST(test_13_what_the_first_draft_reads)
{
    enum { V = 384 };
    float sound[V], got[V];
    sb_session *s = play_session(t4(), NULL);
    uint32_t token = play_prompt(s, "first draft", 6);
    sb_state *a = play_copy(sb_session_state(s)), *b = play_copy(a);
    const sb_config *c = a->config;
    first_draft(a, token, sound);
    for (uint32_t i = 0; i < c->layers; i++) { /* the head's own layer is number L */
        poison(b->layers[i].conv, sb_state_conv_size(c));
        poison(b->layers[i].recurrent, sb_state_recurrent_size(c));
        poison(b->layers[i].keys, 6 * sb_state_kv_row(c));
        poison(b->layers[i].values, 6 * sb_state_kv_row(c));
    }
    first_draft(b, token, got);
    assert_memory_equal(got, sound, sizeof got);
    first_draft(a, token + 1 < V ? token + 1 : 0, got);
    assert_memory_not_equal(got, sound, sizeof got);
    b->mtp_hidden[3] += 1;
    first_draft(b, token, got);
    assert_memory_not_equal(got, sound, sizeof got);
    b->mtp_hidden[3] = a->mtp_hidden[3];
    for (size_t entry = 0; entry < 5; entry++) {
        float *value = b->layers[c->layers].values + entry * sb_state_kv_row(c), was = *value;
        *value += 1;
        first_draft(b, token, got);
        assert_memory_not_equal(got, sound, sizeof got);
        *value = was;
    }
    first_draft(b, token, got);
    assert_memory_equal(got, sound, sizeof got);
    sb_state_free(a);
    sb_state_free(b);
    sb_session_free(s);
}

TEST_GROUP(NULL, play_close_models)
