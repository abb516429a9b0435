/* test_faults.c - failing allocations, taps that stop a call, and wrong arguments, in the middle of
 * drafts and rounds. They leave the state before, or a session that refuses further calls. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "tests/lib/plain.h"
#include "tests/mtp/play.h"

#define PROGRAM "test_mtp_faults"

enum { V = 384, PROMPT = 5, K = 2 };

static const sb_model *t4(void)
{
    return play_model(PROGRAM, "T4", "mistakes");
}

TEST_FIXTURE(one_thread)
{
    sb_threads_set(1); /* the counter of failing allocations works with one thread only */
    return 0;
}

/* A session after a prompt, whose next calls have no buffers to reuse. */
typedef struct bench {
    sb_session *session;
    sb_rounds *rounds;
    uint32_t token;
} bench;

static bench set_up(sb_rollback rollback)
{
    bench b = {.session = play_session(t4(), NULL)};
    b.token = play_prompt(b.session, "faults", PROMPT);
    b.rounds = play_rounds(b.session, NULL, rollback);
    return b;
}

static void tear_down(bench *b)
{
    sb_rounds_free(b->rounds);
    sb_session_free(b->session);
}

/* A call that is tried with failing allocations. */
typedef sb_status (*attempt)(bench *b, sb_error *err);

static sb_status try_round(bench *b, sb_error *err)
{
    sb_round round;
    return sb_rounds_next(b->rounds, &(sb_round_ask){.token = b->token, .drafts = K, .forced = 1},
                          &round, err);
}

static sb_status try_drafts(bench *b, sb_error *err)
{
    float logits[V];
    sb_status status = SB_OK;
    for (uint32_t i = 0; i < K && !status; i++)
        status = sb_session_draft(b->session, b->token + i, logits, err);
    return status;
}

static sb_status try_verify(bench *b, sb_error *err)
{
    const uint32_t tokens[K + 1] = {b->token, 3, 5};
    return sb_session_verify(b->session, tokens, K + 1, SB_ROLLBACK_snapshots, err);
}

static sb_status try_verify_and_keep(bench *b, sb_error *err)
{
    const uint32_t tokens[K + 1] = {b->token, 3, 5};
    sb_status status = sb_session_verify(b->session, tokens, K + 1, SB_ROLLBACK_replay, err);
    return status ? status : sb_session_keep(b->session, 2, err);
}

/* After a failure the session is unchanged, or refuses calls until its state is set again. Then the
 * same attempt succeeds. */
static void check_left(bench *b, attempt it, const sb_state *before, const sb_state *after,
                       int *refused)
{
    float logits[V];
    sb_error err = {""};
    sb_status status = sb_session_draft(b->session, b->token, logits, &err);
    if (status) {
        assert_int_equal(status, SB_ERR_USAGE);
        assert_non_null(strstr(err.text, "reset"));
        assert_int_equal(it(b, &err), SB_ERR_USAGE);
        assert_int_equal(sb_session_feed(b->session, &b->token, 1, &err), SB_ERR_USAGE); /* S-4 */
        assert_int_equal(sb_session_keep(b->session, 0, &err), SB_ERR_USAGE);
        assert_int_equal(sb_session_rows(b->session), 0);
        play_set(b->session, before);
        *refused = 1;
    } else {
        sb_session_forget_drafts(b->session);
        play_same("after a failure", sb_session_state(b->session), before);
    }
    assert_int_equal(it(b, &err), SB_OK);
    play_same("tried again", sb_session_state(b->session), after);
}

/* Lets the n-th allocation fail, for n = 1, 2, 3, .., until the attempt has no n-th allocation. */
static void run_attempt(const char *name, attempt it, sb_rollback rollback)
{
    bench b = set_up(rollback);
    sb_state *before = play_copy(sb_session_state(b.session));
    sb_error err = {""};
    int refused = 0, unchanged = 0;
    unsigned long n = 1;
    assert_int_equal(it(&b, &err), SB_OK);
    sb_state *after = play_copy(sb_session_state(b.session));
    tear_down(&b);
    for (;; n++) {
        int now = 0;
        b = set_up(rollback);
        sb_alloc_fail_at(n);
        sb_status status = it(&b, &err);
        sb_alloc_fail_at(0);
        if (!status) {
            play_same(name, sb_session_state(b.session), after);
            tear_down(&b);
            break;
        }
        assert_int_equal(status, SB_ERR_MEMORY);
        assert_non_null(strstr(err.text, "out of memory"));
        check_left(&b, it, before, after, &now);
        refused += now;
        unchanged += !now;
        tear_down(&b);
    }
    printf("%s: %lu allocations, %d times refused, %d times unchanged\n", name, n - 1, refused,
           unchanged);
    assert_true(n > 2);
    sb_state_free(before);
    sb_state_free(after);
}

TEST(test_no_memory)
{
    run_attempt("a round, snapshots", try_round, SB_ROLLBACK_snapshots);
    run_attempt("a round, replay", try_round, SB_ROLLBACK_replay);
    run_attempt("drafts", try_drafts, SB_ROLLBACK_snapshots);
    run_attempt("verify", try_verify, SB_ROLLBACK_snapshots);
    run_attempt("verify and keep", try_verify_and_keep, SB_ROLLBACK_replay);
}

/* If a state cannot be copied, the verify stays and can still be cut. */
TEST(test_no_memory_for_a_state)
{
    sb_error err = {""};
    sb_state *copy = NULL;
    for (unsigned long n = 1;; n++) {
        bench b = set_up(SB_ROLLBACK_snapshots), twin = set_up(SB_ROLLBACK_snapshots);
        assert_int_equal(try_verify(&b, &err), SB_OK);
        sb_alloc_fail_at(n);
        sb_status status = sb_session_state_at(b.session, 1, &copy, &err);
        sb_alloc_fail_at(0);
        assert_int_equal(status, copy ? SB_OK : SB_ERR_MEMORY);
        assert_int_equal(sb_session_keep(b.session, 1, &err), SB_OK);
        test_feed(twin.session, &b.token, 1);
        play_same("cut", sb_session_state(b.session), sb_session_state(twin.session));
        tear_down(&b);
        tear_down(&twin);
        if (copy)
            break;
    }
    sb_state_free(copy);
}

TEST(test_no_memory_for_rounds)
{
    sb_rounds *rounds = NULL;
    sb_error err = {""};
    bench b = set_up(SB_ROLLBACK_snapshots);
    for (unsigned long n = 1; !rounds; n++) {
        sb_alloc_fail_at(n);
        sb_status status = sb_rounds_new(b.session, NULL, &rounds, &err);
        sb_alloc_fail_at(0);
        assert_int_equal(status, rounds ? SB_OK : SB_ERR_MEMORY);
    }
    sb_rounds_free(rounds);
    tear_down(&b);
}

/* A tap that stops at its n-th call from now; 0: never. */
typedef struct stop {
    unsigned long left;
} stop;

static sb_status stop_at(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                         sb_error *err)
{
    stop *s = ctx;
    (void)name;
    (void)data;
    (void)rows;
    (void)cols;
    if (s->left == 0 || --s->left)
        return SB_OK;
    return sb_fail(err, SB_ERR_DIFF, "stopped here");
}

/* A round that is stopped at any place: drafts, trunk, head, logits, replay. */
TEST(test_stopped_anywhere)
{
    for (int way = 0; way < 2; way++) {
        unsigned long n = 1;
        size_t refused = 0, unchanged = 0;
        for (;; n++) {
            stop s = {0};
            sb_error err = {""};
            sb_session *session =
                play_session(t4(), &(sb_session_options){.tap = stop_at, .tap_ctx = &s});
            sb_rounds *rounds = play_rounds(session, NULL, (sb_rollback)way);
            bench b = {session, rounds, play_prompt(session, "faults", PROMPT)};
            sb_state *before = play_copy(sb_session_state(session));
            s.left = n;
            sb_status status = try_round(&b, &err);
            s.left = 0;
            if (status) {
                float logits[V];
                assert_int_equal(status, SB_ERR_DIFF);
                if (sb_session_draft(session, b.token, logits, &err)) {
                    refused++;
                } else {
                    play_same("stopped", sb_session_state(session), before);
                    unchanged++;
                }
            }
            sb_state_free(before);
            tear_down(&b);
            if (!status)
                break;
        }
        printf("%s: stopped in %lu places, %zu times refused, %zu times unchanged\n",
               way ? "replay" : "snapshots", n - 1, refused, unchanged);
        assert_true(refused > 50 && unchanged > 10);
    }
}

/* Stopped drafts have no effect on the next draft, which begins anew (S-8). */
TEST(test_draft_behind_a_failed_one)
{
    float sound[V], got[V];
    stop s = {0};
    sb_session *session = play_session(t4(), &(sb_session_options){.tap = stop_at, .tap_ctx = &s});
    uint32_t token = play_prompt(session, "faults", PROMPT);
    assert_int_equal(sb_session_draft(session, token, sound, NULL), SB_OK);
    for (unsigned long n = 1;; n++) {
        sb_session_forget_drafts(session);
        assert_int_equal(sb_session_draft(session, token, got, NULL), SB_OK);
        assert_memory_equal(got, sound, sizeof got);
        s.left = n;
        sb_status status = sb_session_draft(session, 7, got, NULL);
        s.left = 0;
        if (!status)
            break;
        assert_int_equal(sb_session_draft(session, token, got, NULL), SB_OK);
        assert_memory_equal(got, sound, sizeof got);
    }
    sb_session_free(session);
}

/* The drafts of a round follow its own token, whatever was drafted before outside of rounds. */
TEST(test_drafts_of_a_round_begin_anew)
{
    float logits[V];
    bench b = set_up(SB_ROLLBACK_snapshots), twin = set_up(SB_ROLLBACK_snapshots);
    const sb_round_ask ask = {.token = b.token, .drafts = 3, .forced = 1};
    assert_int_equal(sb_session_draft(b.session, 11, logits, NULL), SB_OK);
    assert_int_equal(sb_session_draft(b.session, 12, logits, NULL), SB_OK);
    sb_round x = play_round(b.rounds, &ask), y = play_round(twin.rounds, &ask);
    assert_memory_equal(x.drafts, y.drafts, 3 * sizeof *x.drafts);
    play_same("drafted before", sb_session_state(b.session), sb_session_state(twin.session));
    tear_down(&b);
    tear_down(&twin);
}

/* Calls that end a series of drafts: all that feed, undo or set. Each call is made after two drafts
 * in one session, and without drafts in a twin session. The next draft of both must be the same. */
enum { FEED, VERIFY, KEEP, SET_STATE, ENDS };

static void end_drafts(bench *b, int how, const sb_state *set)
{
    const uint32_t tokens[2] = {b->token, 9};
    float logits[V];
    int drafts = set != NULL;
    if (how == KEEP) /* the drafts come between the verify and the keep */
        assert_int_equal(sb_session_verify(b->session, tokens, 2, SB_ROLLBACK_snapshots, NULL), 0);
    for (uint32_t i = 0; drafts && i < 2; i++)
        assert_int_equal(sb_session_draft(b->session, 11 + i, logits, NULL), SB_OK);
    if (how == FEED)
        test_feed(b->session, tokens, 2);
    else if (how == VERIFY)
        assert_int_equal(sb_session_verify(b->session, tokens, 2, SB_ROLLBACK_replay, NULL), 0);
    else if (how == KEEP)
        assert_int_equal(sb_session_keep(b->session, 1, NULL), 0);
    else if (drafts)
        play_set(b->session, set);
}

TEST(test_what_ends_a_row_of_drafts)
{
    for (int how = 0; how < ENDS; how++) {
        float x[V], y[V];
        bench b = set_up(SB_ROLLBACK_snapshots), twin = set_up(SB_ROLLBACK_snapshots);
        sb_state *set = play_copy(sb_session_state(b.session));
        end_drafts(&b, how, set);
        end_drafts(&twin, how, NULL);
        assert_int_equal(sb_session_draft(b.session, 7, x, NULL), SB_OK);
        assert_int_equal(sb_session_draft(twin.session, 7, y, NULL), SB_OK);
        assert_memory_equal(x, y, sizeof x);
        sb_state_free(set);
        tear_down(&b);
        tear_down(&twin);
    }
}

/* Refused calls change nothing. */
TEST(test_refused_asks)
{
    static const uint32_t given[K] = {1, V};
    for (int way = 0; way < 2; way++) {
        bench b = set_up((sb_rollback)way);
        sb_state *before = play_copy(sb_session_state(b.session));
        const sb_round_ask asks[] = {
            {.token = 1, .drafts = SB_MAX_DRAFTS + 1, .forced = -1},
            {.token = 1, .drafts = 2, .forced = 3},
            {.token = V, .drafts = 0, .forced = -1},
            {.token = V, .drafts = 2, .forced = -1},
            {.token = 1, .drafts = 2, .given = given, .forced = -1},
        };
        for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
            sb_round round;
            sb_error err = {""};
            assert_int_equal(sb_rounds_next(b.rounds, &asks[i], &round, &err), SB_ERR_USAGE);
            assert_true(err.text[0] != '\0');
            play_same("refused", sb_session_state(b.session), before);
        }
        /* P-12 compares a draft with the distribution that it was drawn from */
        const sb_sampling warm = {.temperature = 1, .top_p = 1};
        const sb_round_options residual = {
            .acceptance = SB_ACCEPT_residual, .rollback = (sb_rollback)way, .sampling = &warm};
        const uint32_t sound[K] = {1, 2};
        const sb_round_ask ask = {.token = 1, .drafts = 2, .given = sound, .forced = -1};
        sb_rounds *rounds = NULL;
        sb_round round;
        assert_int_equal(sb_rounds_new(b.session, &residual, &rounds, NULL), SB_OK);
        assert_int_equal(sb_rounds_next(rounds, &ask, &round, NULL), SB_ERR_USAGE);
        play_same("refused", sb_session_state(b.session), before);
        sb_rounds_free(rounds);
        assert_int_equal(sb_session_keep(b.session, 0, NULL), SB_ERR_USAGE);
        assert_int_equal(try_round(&b, NULL), SB_OK);
        sb_state_free(before);
        tear_down(&b);
    }
}

/* A round that is refused does not cut a verify that came before it. */
TEST(test_refused_behind_a_verify)
{
    sb_round round;
    sb_error err = {""};
    bench b = set_up(SB_ROLLBACK_snapshots);
    assert_int_equal(try_verify(&b, &err), SB_OK);
    sb_state *before = play_copy(sb_session_state(b.session));
    const sb_round_ask ask = {.token = V, .forced = -1};
    assert_int_equal(sb_rounds_next(b.rounds, &ask, &round, &err), SB_ERR_USAGE);
    play_same("refused", sb_session_state(b.session), before);
    assert_int_equal(sb_session_keep(b.session, 1, &err), SB_OK);
    sb_state_free(before);
    tear_down(&b);
}

/* S-7: the entries of a state must be those of the session's K-27; a head must be there or not. */
TEST(test_refused_states)
{
    sb_error err = {""};
    sb_knobs zeros = test_knobs("mtp_first=zeros");
    sb_session *pair = play_session(t4(), NULL);
    sb_session *with = play_session(t4(), &(sb_session_options){.knobs = &zeros});
    sb_session *without = test_session(t4(), NULL, NULL);
    play_prompt(pair, "states", PROMPT);
    play_prompt(with, "states", PROMPT + 1);
    sb_state *before = play_copy(sb_session_state(pair));
    assert_int_equal(sb_session_set_state(pair, sb_session_state(with), &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "entries"));
    assert_int_equal(sb_session_set_state(pair, sb_session_state(without), &err), SB_ERR_USAGE);
    assert_int_equal(sb_session_set_state(without, sb_session_state(pair), &err), SB_ERR_USAGE);
    play_same("refused", sb_session_state(pair), before);
    play_set(pair, before);
    sb_state_free(before);
    sb_session_free(pair);
    sb_session_free(with);
    sb_session_free(without);
}

TEST_GROUP(one_thread, play_close_models)
