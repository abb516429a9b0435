/* test_gpu_rounds.c - a session on the emulator's backend chooses its tokens by kernels. Under
 * profile exact, the reference computes all other ops, so that the rounds equal the reference's
 * (Y-70). A fault in a kernel of section P changes them. */
#include "tests/lib/suite.h"

#include <string.h>

#include "gpu/gpu.h"
#include "ref/run/round.h"
#include "tests/lib/checkpoint.h"

enum { TOKENS = 12, V = 384 };

static sb_model *model;

TEST_FIXTURE(open_model)
{
    model =
        test_model_open(test_checkpoint("test_gpu_rounds", "T1", "predictable", "bf16", "text"));
    return 0;
}

TEST_FIXTURE(close_model)
{
    sb_gpu_forget(sb_backend_emu());
    sb_model_close(model);
    return 0;
}

/* The settings of drafting and sampling. */
typedef struct way {
    sb_sampling sampling;
    sb_acceptance acceptance;
    size_t drafts;
} way;

typedef struct course {
    uint32_t tokens[TOKENS], chosen[TOKENS][SB_MAX_DRAFTS + 1];
    size_t rounds, accepted[TOKENS];
} course;

/* Returns 0 if the backend failed. */
static int go(const sb_backend *backend, const way *w, course *out)
{
    static float logits[V];
    const uint32_t prompt[] = {1, 2, 3};
    const sb_session_options options = {.backend = backend, .mtp = 1};
    const sb_round_options how = {.sampling = &w->sampling, .acceptance = w->acceptance};
    sb_session *session = NULL;
    sb_rounds *rounds = NULL;
    *out = (course){.rounds = 0};
    assert_int_equal(sb_session_new(model, &options, &session, NULL), SB_OK);
    assert_int_equal(sb_rounds_new(session, &how, &rounds, NULL), SB_OK);
    assert_int_equal(sb_session_feed(session, prompt, 3, NULL), SB_OK);
    assert_int_equal(sb_session_logits(session, 2, logits, NULL), SB_OK);
    sb_status status = sb_rounds_pick(rounds, logits, 3, &out->tokens[0], NULL);
    for (size_t n = 1; n < TOKENS && !status; out->rounds++) {
        sb_round round;
        const sb_round_ask ask = {
            .token = out->tokens[n - 1], .drafts = w->drafts, .forced = -1, .limit = TOKENS - n};
        status = sb_rounds_next(rounds, &ask, &round, NULL);
        if (status)
            break;
        memcpy(out->tokens + n, round.tokens, round.emitted * sizeof *round.tokens);
        memcpy(out->chosen[out->rounds], round.chosen, sizeof round.chosen);
        out->accepted[out->rounds] = round.accepted;
        n += round.emitted;
    }
    sb_rounds_free(rounds);
    sb_session_free(session);
    return status == SB_OK;
}

static const way ways[] = {
    {{.top_p = 1}, SB_ACCEPT_match, 0},
    {{.top_p = 1}, SB_ACCEPT_match, 3},
    {{.seed = 42, .temperature = 3, .top_k = 40, .top_p = 0.95f}, SB_ACCEPT_match, 0},
    {{.seed = 43, .temperature = 6, .top_k = 40, .top_p = 0.95f}, SB_ACCEPT_match, 3},
    {{.seed = 5, .sequence = 2, .temperature = 2, .top_p = 1}, SB_ACCEPT_residual, 2},
};
enum { WAYS = sizeof ways / sizeof *ways };

static int same(const course *a, const course *b)
{
    return a->rounds == b->rounds && memcmp(a->tokens, b->tokens, sizeof a->tokens) == 0 &&
           memcmp(a->chosen, b->chosen, sizeof a->chosen) == 0 &&
           memcmp(a->accepted, b->accepted, sizeof a->accepted) == 0;
}

TEST(test_rounds)
{
    course right, got;
    for (size_t i = 0; i < WAYS; i++) {
        assert_true(go(sb_backend_ref(), &ways[i], &right));
        sb_backend_emu_seed(i);
        assert_true(go(sb_backend_emu(), &ways[i], &got));
        if (!same(&right, &got))
            fail_msg("way %zu: the rounds are not the reference's", i);
    }
}

/* A fault of each kernel changes the tokens or ends the call. */
TEST(test_faults)
{
    const struct {
        const char *plant;
        size_t way;
    } rows[] = {{"argmax_barrier", 1},     {"argmax_barrier", 2}, {"sample_next_word", 2},
                {"sample_nine_rounds", 3}, {"sample_rest", 4},    {"sum_barrier", 3}};
    course right, got;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(go(sb_backend_ref(), &ways[rows[i].way], &right));
        assert_true(sb_gpu_plant(rows[i].plant));
        const int done = go(sb_backend_emu(), &ways[rows[i].way], &got);
        sb_gpu_plant(NULL);
        if (done && same(&right, &got))
            fail_msg("%s is not seen in way %zu", rows[i].plant, rows[i].way);
    }
}

/* A backend without these kernels draws like the reference. */
TEST(test_without)
{
    course right, got;
    sb_backend bare = *sb_backend_emu();
    bare.greedy = NULL;
    bare.draw = NULL;
    bare.judge = NULL;
    assert_true(sb_gpu_plant("sample_next_word"));
    for (size_t i = 0; i < WAYS; i++) {
        assert_true(go(sb_backend_ref(), &ways[i], &right));
        assert_true(go(&bare, &ways[i], &got) && same(&right, &got));
    }
    sb_gpu_plant(NULL);
}

TEST_GROUP(open_model, close_model)
