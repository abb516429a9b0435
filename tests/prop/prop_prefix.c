/* prop_prefix.c - S-12: a sequence that continues from a stored state has the same bits as one that
 * does not, and a stored state belongs to the tokens under which it is stored. */
#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/run/prefix.h"
#include "ref/run/round.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/plain.h"
#include "tests/lib/record.h"
#include "tests/lib/states.h"

enum { V = 384, B = 4, N = 19, LONG = 70 };

static sb_model *model; /* T4 */
static uint32_t ids[LONG];

TEST_FIXTURE(open_model)
{
    model = test_model_open(test_checkpoint("prop_prefix", "T4", NULL, "bf16", "text"));
    test_draw_ids("prefix", V, ids, LONG);
    return 0;
}

TEST_FIXTURE(close_model)
{
    sb_model_close(model);
    return 0;
}

static sb_prefix_store *new_store(const sb_model *m, size_t block, uint64_t most_bytes,
                                  const sb_knobs *knobs)
{
    sb_prefix_options options = {
        .block = block, .most_bytes = most_bytes, .knobs = knobs, .mtp = 1};
    sb_prefix_store *store = NULL;
    sb_error err;
    if (sb_prefix_store_new(m, &options, &store, &err))
        fail_msg("%s", err.text);
    return store;
}

static size_t feed(sb_prefix_store *store, sb_session *session, const uint32_t *tokens, size_t n)
{
    size_t reused = 0;
    sb_error err;
    if (sb_prefix_feed(store, session, tokens, n, &reused, &err))
        fail_msg("%s", err.text);
    return reused;
}

/* The state after these tokens in a session without a store. */
static sb_session *plain(const sb_model *m, const uint32_t *tokens, size_t n)
{
    sb_session *session = test_session_mtp(m, NULL, 1);
    test_feed(session, tokens, n);
    return session;
}

/* The number of entries that are not the state of their tokens; profile exact. */
static size_t wrong_entries(const sb_model *m, const sb_prefix_store *store)
{
    size_t wrong = 0;
    for (size_t i = 0; i < sb_prefix_count(store); i++) {
        const sb_prefix_entry *e = sb_prefix_at(store, i);
        sb_session *session = plain(m, e->tokens, e->n);
        sb_state_difference d;
        sb_digest target, mtp;
        sb_error err;
        assert_int_equal(sb_state_compare(e->state, sb_session_state(session), &d, &err), SB_OK);
        assert_int_equal(sb_state_digest(sb_session_state(session), &target, &err), SB_OK);
        assert_int_equal(sb_state_mtp_digest(sb_session_state(session), &mtp, &err), SB_OK);
        wrong += d.differs || strcmp(target.hex, e->target.hex) || strcmp(mtp.hex, e->mtp.hex);
        sb_session_free(session);
    }
    return wrong;
}

static void last_logits(sb_session *session, float *logits)
{
    sb_error err;
    if (sb_session_logits(session, sb_session_rows(session) - 1, logits, &err))
        fail_msg("%s", err.text);
}

static void same_logits(sb_session *a, sb_session *b)
{
    float one[V], two[V];
    last_logits(a, one);
    last_logits(b, two);
    assert_memory_equal(one, two, sizeof one);
}

/* Feeds tokens with the store and without, and compares everything. */
static void check_feed(const sb_model *m, sb_prefix_store *store, sb_session *session,
                       const uint32_t *tokens, size_t n, size_t expected)
{
    sb_session *alone = plain(m, tokens, n);
    size_t reused = feed(store, session, tokens, n);
    if (reused != expected)
        fail_msg("%zu tokens: %zu reused, expected %zu", n, reused, expected);
    test_same_state("hit", sb_session_state(session), sb_session_state(alone));
    same_logits(session, alone);
    sb_session_free(alone);
}

/* Every step-th length, with a store that has seen the longest: the hit ends at the last boundary
 * before the last token. */
static void check_lengths(const char *preset, size_t step)
{
    sb_model *m = test_model_open(test_checkpoint("prop_prefix", preset, NULL, "bf16", "text"));
    sb_prefix_store *store = new_store(m, B, 0, NULL);
    sb_session *session = test_session_mtp(m, NULL, 1);
    check_feed(m, store, session, ids, N, 0);
    assert_int_equal(sb_prefix_count(store), N / B);
    for (size_t n = 1; n <= N; n += step)
        check_feed(m, store, session, ids, n, (n - 1) / B * B);
    assert_int_equal(sb_prefix_count(store), N / B);
    assert_int_equal(wrong_entries(m, store), 0);
    sb_session_free(session);
    sb_prefix_store_free(store);
    sb_model_close(m);
}

TEST(test_all_lengths)
{
    check_lengths("T4", 1);
    check_lengths("T1", 7);
    check_lengths("T5", 5);
}

/* A, B, A: sequences that part in the middle of a block, at a boundary, and at the first token. */
TEST(test_branches)
{
    static const size_t parts[] = {0, B - 1, B, 2 * B + 1, N - 1};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        uint32_t other[N];
        sb_prefix_store *store = new_store(model, B, 0, NULL);
        sb_session *session = test_session_mtp(model, NULL, 1);
        memcpy(other, ids, sizeof other);
        other[parts[i]] = (other[parts[i]] + 1) % V;
        check_feed(model, store, session, ids, N, 0);
        check_feed(model, store, session, other, N, parts[i] / B * B);
        check_feed(model, store, session, ids, N, (N - 1) / B * B);
        check_feed(model, store, session, other, N, (N - 1) / B * B);
        assert_int_equal(wrong_entries(model, store), 0);
        sb_session_free(session);
        sb_prefix_store_free(store);
    }
}

/* Feeds a prompt and one round that accepts `accepted` of k drafts, and stores the boundaries. The
 * session is then after the round. Returns the number of tokens fed. */
static size_t run_round(sb_prefix_store *store, sb_session *session, size_t prompt, size_t k,
                        size_t accepted, sb_rollback rollback, uint32_t *fed, size_t *stored)
{
    sb_round_options options = {.rollback = rollback};
    sb_round_ask ask = {
        .token = ids[prompt], .drafts = k, .given = ids + prompt + 1, .forced = (int)accepted};
    sb_rounds *rounds = NULL;
    sb_round round;
    sb_error err;
    size_t n = prompt;
    feed(store, session, ids, prompt);
    memcpy(fed, ids, prompt * sizeof *fed);
    if (sb_rounds_new(session, &options, &rounds, &err) ||
        sb_rounds_next(rounds, &ask, &round, &err))
        fail_msg("%s", err.text);
    fed[n++] = ids[prompt];
    for (size_t i = 0; i + 1 < round.emitted; i++)
        fed[n++] = round.tokens[i];
    if (sb_prefix_round(store, session, fed, n, n - prompt, stored, &err))
        fail_msg("%s", err.text);
    sb_rounds_free(rounds);
    return n;
}

/* After a round with this acceptance, the stored states of all boundaries in its rows are right,
 * and so are sequences that continue from them. */
static void check_round(size_t prompt, size_t k, size_t accepted, sb_rollback rollback)
{
    uint32_t fed[N + 16];
    size_t stored = 0;
    sb_prefix_store *store = new_store(model, B, 0, NULL);
    sb_session *session = test_session_mtp(model, NULL, 1);
    size_t n = run_round(store, session, prompt, k, accepted, rollback, fed, &stored);
    size_t crossed = n / B - prompt / B, at_end = n % B == 0 && crossed;
    assert_int_equal(n, prompt + 1 + accepted);
    assert_int_equal(stored, rollback == SB_ROLLBACK_snapshots ? crossed : at_end);
    if (wrong_entries(model, store))
        fail_msg("prompt %zu, %zu of %zu accepted: a stored state is wrong", prompt, accepted, k);
    for (size_t i = 0; i < 3; i++) /* another next token than in the round */
        fed[n + i] = ids[i];
    size_t hit = rollback == SB_ROLLBACK_snapshots || at_end ? n / B * B : prompt / B * B;
    check_feed(model, store, session, fed, n + 3, hit);
    sb_session_free(session);
    sb_prefix_store_free(store);
}

TEST(test_rounds)
{
    static const size_t drafts[] = {0, 1, 6};
    for (size_t prompt = B; prompt < 2 * B; prompt++)
        for (size_t i = 0; i < sizeof drafts / sizeof *drafts; i++)
            for (size_t accepted = 0; accepted <= drafts[i]; accepted++) {
                check_round(prompt, drafts[i], accepted, SB_ROLLBACK_snapshots);
                if (prompt == 2 * B - 2)
                    check_round(prompt, drafts[i], accepted, SB_ROLLBACK_replay);
            }
}

/* S-9 and S-12 together: several rounds on one sequence, with rounds without drafts between. */
TEST(test_rounds_in_a_row)
{
    static const int accepts[] = {3, 0, 2, -1, 1, 3, -1, 0};
    uint32_t fed[64];
    sb_rounds *rounds = NULL;
    sb_error err;
    sb_prefix_store *store = new_store(model, 2, 0, NULL);
    sb_session *session = test_session_mtp(model, NULL, 1);
    feed(store, session, ids, 3);
    memcpy(fed, ids, 3 * sizeof *fed);
    assert_int_equal(sb_rounds_new(session, NULL, &rounds, &err), SB_OK);
    size_t n = 3;
    uint32_t token = ids[3];
    for (size_t i = 0; i < sizeof accepts / sizeof *accepts; i++) {
        sb_round_ask ask = {.token = token,
                            .drafts = accepts[i] < 0 ? 0 : 3,
                            .forced = accepts[i] < 0 ? 0 : accepts[i]};
        sb_round round;
        size_t stored;
        if (sb_rounds_next(rounds, &ask, &round, &err))
            fail_msg("%s", err.text);
        fed[n] = token;
        memcpy(fed + n + 1, round.tokens, (round.emitted - 1) * sizeof *fed);
        n += round.emitted;
        token = round.tokens[round.emitted - 1];
        assert_int_equal(sb_prefix_round(store, session, fed, n, round.emitted, &stored, &err),
                         SB_OK);
    }
    assert_int_equal(sb_prefix_count(store), n / 2);
    assert_int_equal(wrong_entries(model, store), 0);
    sb_rounds_free(rounds);
    sb_session_free(session);
    sb_prefix_store_free(store);
}

/* The rows of two rounds counted as one round are refused: some states between them are not kept,
 * and others would be stored under wrong tokens. */
TEST(test_two_rounds_are_not_one)
{
    sb_error err;
    size_t stored;
    sb_prefix_store *store = new_store(model, 2, 0, NULL);
    sb_session *session = test_session_mtp(model, NULL, 1);
    for (size_t n = 0; n < 6; n += 3)
        assert_int_equal(sb_session_verify(session, ids + n, 3, SB_ROLLBACK_snapshots, &err),
                         SB_OK);
    assert_int_equal(sb_prefix_round(store, session, ids, 6, 6, &stored, &err), SB_ERR_USAGE);
    assert_int_equal(stored + sb_prefix_count(store), 0);
    assert_int_equal(sb_prefix_round(store, session, ids, 6, 3, &stored, &err), SB_OK);
    assert_int_equal(stored, 2);
    assert_int_equal(wrong_entries(model, store), 0);
    sb_session_free(session);
    sb_prefix_store_free(store);
}

/* A store with room for some entries keeps the last used ones, the same ones in every run. */
TEST(test_eviction)
{
    sb_prefix_store *whole = new_store(model, B, 0, NULL);
    sb_session *session = test_session_mtp(model, NULL, 1);
    feed(whole, session, ids, 12);
    uint64_t three = 0;
    for (size_t i = 0; i < 3; i++)
        three += sb_prefix_at(whole, i)->bytes;
    for (int again = 0; again < 2; again++) {
        sb_prefix_store *store = new_store(model, B, three, NULL);
        check_feed(model, store, session, ids, 12, 0);     /* 4, 8, 12 */
        check_feed(model, store, session, ids, 5, 4);      /* 4 is used again */
        check_feed(model, store, session, ids + 20, 4, 0); /* 8 must go */
        assert_int_equal(sb_prefix_count(store), 3);
        assert_int_equal(sb_prefix_at(store, 0)->n, 4);
        assert_int_equal(sb_prefix_at(store, 1)->n, 12);
        assert_int_equal(sb_prefix_at(store, 2)->tokens[0], ids[20]);
        check_feed(model, store, session, ids, 12, 4);
        check_feed(model, store, session, ids, 13, 12);
        assert_int_equal(wrong_entries(model, store), 0);
        sb_prefix_store_free(store);
    }
    sb_prefix_store *small = new_store(model, B, 1000, NULL); /* no entry fits */
    check_feed(model, small, session, ids, N, 0);
    check_feed(model, small, session, ids, N, 0);
    assert_int_equal(sb_prefix_count(small), 0);
    sb_prefix_store_free(small);
    sb_session_free(session);
    sb_prefix_store_free(whole);
}

/* --- planted faults --------------------------------------------------------------------------- */

typedef enum fault { SOUND, STALE, LATER, CONV_SHIFTED, OTHER_TOKENS, HEAD_BEHIND, FAULTS } fault;

/* A round of k = 6 after 5 tokens, all accepted, has the boundary 8 after its row 3. Publishes the
 * entry for it, with the planted fault. */
static void publish(fault f, sb_prefix_store *store, sb_session *session)
{
    uint32_t tokens[12];
    sb_state *snapshot = NULL;
    sb_error err;
    size_t row = f == STALE ? 2 : f == LATER ? 7 : 3;
    test_feed(session, ids, 5);
    assert_int_equal(sb_session_verify(session, ids + 5, 7, SB_ROLLBACK_snapshots, &err), SB_OK);
    assert_int_equal(sb_session_state_at(session, row, &snapshot, &err), SB_OK);
    memcpy(tokens, ids, sizeof tokens);
    if (f == STALE || f == LATER) { /* keys and values are right, only the slot is wrong */
        sb_state *right = NULL;
        assert_int_equal(sb_session_state_at(session, 3, &right, &err), SB_OK);
        for (uint32_t i = 0; i < right->config->layers; i++) {
            if (sb_state_is_full(right, i))
                continue;
            memcpy(right->layers[i].recurrent, snapshot->layers[i].recurrent,
                   sb_state_recurrent_size(right->config) * sizeof(float));
            memcpy(right->layers[i].conv, snapshot->layers[i].conv,
                   sb_state_conv_size(right->config) * sizeof(float));
        }
        sb_state_free(snapshot);
        snapshot = right;
    }
    if (f == CONV_SHIFTED) {
        size_t C = sb_config_conv_channels(snapshot->config);
        float *conv = snapshot->layers[1].conv;
        memmove(conv, conv + C, (sb_state_conv_size(snapshot->config) - C) * sizeof *conv);
    }
    if (f == HEAD_BEHIND) {
        sb_state *before = NULL;
        assert_int_equal(sb_session_state_at(session, 2, &before, &err), SB_OK);
        memcpy(snapshot->mtp_hidden, before->mtp_hidden,
               snapshot->config->hidden_size * sizeof(float));
        sb_state_free(before);
    }
    if (f == OTHER_TOKENS)
        tokens[7] = (tokens[7] + 1) % V; /* a rejected draft in place of the token */
    assert_int_equal(sb_prefix_put(store, tokens, 8, snapshot, &err), SB_OK);
    sb_state_free(snapshot);
}

TEST(test_wrong_snapshots_show)
{
    for (fault f = SOUND; f < FAULTS; f++) {
        sb_prefix_store *store = new_store(model, B, 0, NULL);
        sb_session *session = test_session_mtp(model, NULL, 1);
        publish(f, store, session);
        size_t wrong = wrong_entries(model, store);
        if (wrong != (f == SOUND ? 0 : 1))
            fail_msg("fault %d: %zu entries are wrong", (int)f, wrong);
        if (f != OTHER_TOKENS) { /* and a sequence that continues from the entry gets other bits */
            sb_session *alone = plain(model, ids, N);
            assert_int_equal(feed(store, session, ids, N), 8);
            if (f == SOUND)
                test_same_state("sound", sb_session_state(session), sb_session_state(alone));
            else
                test_other_state("fault", sb_session_state(session), sb_session_state(alone));
            sb_session_free(alone);
        }
        sb_session_free(session);
        sb_prefix_store_free(store);
    }
}

/* If a reader writes into an entry, the next reader notices. */
TEST(test_changed_entries_are_refused)
{
    size_t reused;
    sb_error err;
    for (int head = 0; head < 2; head++) {
        sb_prefix_store *store = new_store(model, B, 0, NULL);
        sb_session *session = test_session_mtp(model, NULL, 1);
        feed(store, session, ids, 9);
        feed(store, session, ids, 9); /* reading changes nothing */
        const sb_prefix_entry *entry = sb_prefix_find(store, ids, 9);
        assert_int_equal(entry->n, 8);
        if (head)
            entry->state->mtp_hidden[3] += 1;
        else
            entry->state->layers[3].keys[5 * 128] += 1;
        assert_int_equal(sb_prefix_feed(store, session, ids, 9, &reused, &err), SB_ERR_DIFF);
        assert_non_null(strstr(err.text, "8 tokens was changed"));
        assert_int_equal(feed(store, session, ids, 8), 4); /* the other entries are unchanged */
        sb_session_free(session);
        sb_prefix_store_free(store);
    }
}

/* --- other knobs ------------------------------------------------------------------------------ */

/* Chunks: a hit has the same bits as a run with an empty store. They are the bits of one call if B
 * is a multiple of 64, and other bits if not. */
static void check_chunks(const char *settings, size_t block, int as_one_call)
{
    sb_knobs knobs = test_knobs(settings);
    sb_prefix_store *empty = new_store(model, block, 0, &knobs),
                    *seen = new_store(model, block, 0, &knobs);
    sb_session *whole = test_session_mtp(model, &knobs, 1),
               *cold = test_session_mtp(model, &knobs, 1),
               *hit = test_session_mtp(model, &knobs, 1);
    test_feed(whole, ids, LONG);
    assert_int_equal(feed(empty, cold, ids, LONG), 0);
    feed(seen, hit, ids, LONG - 3);
    assert_int_equal(feed(seen, hit, ids, LONG), (LONG - 3) / block * block);
    test_same_state(settings, sb_session_state(hit), sb_session_state(cold));
    if (as_one_call)
        test_same_state(settings, sb_session_state(cold), sb_session_state(whole));
    else
        test_other_state(settings, sb_session_state(cold), sb_session_state(whole));
    sb_session_free(whole);
    sb_session_free(cold);
    sb_session_free(hit);
    sb_prefix_store_free(empty);
    sb_prefix_store_free(seen);
}

TEST(test_chunks)
{
    check_chunks("", 50, 1);
    check_chunks("delta_rule=chunk64", 64, 1);
    check_chunks("delta_rule=chunk64", 50, 0);
    check_chunks("delta_rule=by_call q_scale=by_form", 64, 1);
    check_chunks("delta_rule=by_call q_scale=by_form", 23, 0);
}

/* With chunks a round stores nothing, because its bits differ from those of calls of whole
 * blocks. */
TEST(test_rounds_with_chunks)
{
    uint32_t fed[N + 16];
    size_t stored = 9;
    sb_knobs knobs = test_knobs("delta_rule=chunk64");
    sb_prefix_store *store = new_store(model, B, 0, &knobs);
    sb_session *session = test_session_mtp(model, &knobs, 1);
    size_t n = run_round(store, session, 5, 6, 6, SB_ROLLBACK_replay, fed, &stored);
    assert_int_equal(n, 12);
    assert_int_equal(stored, 0);
    assert_int_equal(sb_prefix_count(store), 1);
    sb_session_free(session);
    sb_prefix_store_free(store);
}

/* --- wrong use, and memory that is not there -------------------------------------------------- */

TEST(test_wrong_use)
{
    sb_prefix_options options = {.block = 0};
    sb_prefix_store *store = NULL;
    sb_knobs knobs = test_knobs("act=bf16");
    size_t reused;
    sb_error err;
    assert_int_equal(sb_prefix_store_new(model, &options, &store, &err), SB_ERR_USAGE);
    store = new_store(model, B, 0, NULL);
    sb_session *bare = test_session_mtp(model, NULL, 0), *right = test_session_mtp(model, NULL, 1),
               *other = test_session_mtp(model, &knobs, 1);
    assert_int_equal(sb_prefix_feed(store, bare, ids, 5, &reused, &err), SB_ERR_USAGE);
    assert_int_equal(sb_prefix_feed(store, other, ids, 5, &reused, &err), SB_ERR_USAGE);
    assert_int_equal(sb_prefix_feed(store, right, ids, 0, &reused, &err), SB_ERR_USAGE);
    assert_int_equal(feed(store, right, ids, 6), 0);
    const sb_state *s = sb_session_state(right);
    assert_int_equal(sb_prefix_put(store, ids, 6, s, &err), SB_ERR_USAGE);
    assert_int_equal(sb_prefix_put(store, ids, 8, s, &err), SB_ERR_USAGE);
    assert_int_equal(sb_prefix_put(store, ids, 0, s, &err), SB_ERR_USAGE);
    assert_int_equal(sb_prefix_round(store, right, ids, 7, 1, &reused, &err), SB_ERR_USAGE);
    assert_int_equal(sb_prefix_round(store, right, ids, 6, 7, &reused, &err), SB_ERR_USAGE);
    assert_int_equal(sb_prefix_count(store), 1);
    sb_session_free(bare);
    sb_session_free(right);
    sb_session_free(other);
    sb_prefix_store_free(store);
    sb_prefix_store_free(NULL);
}

TEST(test_no_memory)
{
    unsigned long faults = 0;
    sb_threads_set(1); /* the counter of faults works with one thread only */
    sb_session *alone = plain(model, ids, 6);
    for (unsigned long n = 1;; n++) {
        sb_prefix_store *store = new_store(model, B, 0, NULL);
        sb_session *session = test_session_mtp(model, NULL, 1);
        size_t reused;
        sb_error err = {""};
        sb_alloc_fail_at(n);
        sb_status status = sb_prefix_feed(store, session, ids, 6, &reused, &err);
        sb_alloc_fail_at(0);
        if (status) {
            assert_int_equal(status, SB_ERR_MEMORY);
            feed(store, session, ids, 6);
            faults++;
        }
        test_same_state("after the fault", sb_session_state(session), sb_session_state(alone));
        assert_int_equal(sb_prefix_count(store), 1);
        sb_session_free(session);
        sb_prefix_store_free(store);
        if (!status)
            break;
    }
    assert_true(faults > 20);
    sb_session_free(alone);
}

TEST_GROUP(open_model, close_model)
