/* test_eagle3.c - EAGLE-3 drafters: those that speculators saved (golden/drafts/eagle3), against
 * what speculators computes in binary64, and beside a session of a target. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/safetensors.h"
#include "ref/run/eagle3.h"
#include "ref/run/round.h"
#include "tests/lib/checkpoint.h"

enum { WIDTH = 128, ROWS = 9, DRAFTS = 4, DRAFTED = 288, STATES = 3 };

static const char *const kept[] = {"llama-10-none", "llama-11-norm_before_fc", "qwen3-01-fc_norm"};

/* The folder: golden/drafts/eagle3, or that of SAMEBIT_EAGLE3 with every kind of drafter. */
static const char *root(void)
{
    const char *given = getenv("SAMEBIT_EAGLE3");
    return given ? given : "golden/drafts/eagle3";
}

/* The name of drafter i; "" after the last. */
static const char *name_of(size_t i, char name[64])
{
    static const char *const norms[] = {"none", "fc_norm", "norm_before_fc"};
    const size_t count = getenv("SAMEBIT_EAGLE3") ? 24 : 3;
    if (i >= count)
        name[0] = '\0';
    else if (count == 3)
        snprintf(name, 64, "%s", kept[i]);
    else
        snprintf(name, 64, "%s-%zu%zu-%s", i / 12 ? "qwen3" : "llama", i / 6 % 2, i / 3 % 2,
                 norms[i % 3]);
    return name;
}

/* What speculators computed. */
typedef struct expected {
    sb_safetensors file;
    const float *states;    /* (ROWS, STATES, WIDTH) */
    const uint32_t *tokens; /* (ROWS): each is fed after the state of its row */
    const uint32_t *drafts; /* (DRAFTS) */
    const double *logits;   /* (ROWS, DRAFTED) */
    const double *chain;    /* (DRAFTS, DRAFTED) */
} expected;

static const void *data_of(const sb_safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return file->tensors[i].data;
    fail_msg("no tensor %s", name);
    return NULL;
}

static expected load(const char *name)
{
    expected e;
    char path[512];
    sb_error err = {""};
    snprintf(path, sizeof path, "%s/%s.expect.safetensors", root(), name);
    if (sb_safetensors_open(path, &e.file, &err))
        fail_msg("%s", err.text);
    e.states = data_of(&e.file, "states");
    e.tokens = data_of(&e.file, "tokens");
    e.drafts = data_of(&e.file, "drafts");
    e.logits = data_of(&e.file, "logits");
    e.chain = data_of(&e.file, "chain");
    return e;
}

typedef struct pair {
    sb_model *target;
    sb_eagle3 *drafter;
    sb_session *session;
    sb_eagle3_drafts *drafts;
} pair;

static pair open_pair(const char *name)
{
    char folder[512];
    sb_error err = {""};
    pair p = {.target = test_model_open(
                  test_checkpoint("test_eagle3", "T4", "predictable", "bf16", "text"))};
    snprintf(folder, sizeof folder, "%s/%s", root(), name);
    if (sb_eagle3_open(folder, p.target, &p.drafter, &err))
        fail_msg("%s", err.text);
    const sb_session_options options = {.states = sb_eagle3_states(p.drafter)};
    if (sb_session_new(p.target, &options, &p.session, &err) ||
        sb_eagle3_drafts_new(p.drafter, p.session, &p.drafts, &err))
        fail_msg("%s", err.text);
    return p;
}

static void close_pair(pair *p)
{
    sb_eagle3_drafts_free(p->drafts);
    sb_session_free(p->session);
    sb_eagle3_close(p->drafter);
    sb_model_close(p->target);
}

/* The largest difference, over the largest magnitude of a row. */
static double distance(const float *got, const double *want)
{
    double most = 0, scale = 0;
    for (size_t i = 0; i < DRAFTED; i++) {
        most = fmax(most, fabs((double)got[i] - want[i]));
        scale = fmax(scale, fabs(want[i]));
    }
    return most / scale;
}

/* A session that keeps no states, or others, has nothing that the drafter could read. */
TEST(test_states_not_kept)
{
    pair p = open_pair(kept[0]);
    sb_session_states states = sb_eagle3_states(p.drafter);
    const uint32_t others[] = {0, 1, 2, 3};
    assert_true(states.count < sizeof others / sizeof *others);
    assert_memory_not_equal(states.after, others, states.count * sizeof *others);
    for (int i = 0; i < 2; i++) {
        const sb_session_options options = {.states = {others, i ? states.count : 0}};
        sb_session *session;
        sb_eagle3_drafts *drafts;
        sb_error err = {""};
        assert_int_equal(sb_session_new(p.target, &options, &session, &err), SB_OK);
        assert_int_equal(sb_eagle3_drafts_new(p.drafter, session, &drafts, &err), SB_ERR_USAGE);
        assert_non_null(strstr(err.text, "does not keep the states"));
        sb_session_free(session);
    }
    close_pair(&p);
}

/* Every row as a first draft, then a chain after the last row. */
TEST(test_speculators)
{
    char name[64];
    for (size_t v = 0; *name_of(v, name); v++) {
        expected e = load(name);
        pair p = open_pair(name);
        float logits[DRAFTED];
        uint32_t draft = 0;
        double worst = 0;
        for (size_t t = 0; t < ROWS; t++) {
            const uint32_t before = t ? e.tokens[t - 1] : 0;
            assert_int_equal(
                sb_eagle3_follow_states(p.drafts, e.states + t * STATES * WIDTH, &before, 1, NULL),
                SB_OK);
            assert_int_equal(sb_eagle3_draft(p.drafts, e.tokens[t], logits, &draft, NULL), SB_OK);
            worst = fmax(worst, distance(logits, e.logits + t * DRAFTED));
        }
        assert_int_equal(draft, e.drafts[0]);
        for (size_t k = 1; k < DRAFTS; k++) {
            assert_int_equal(sb_eagle3_draft(p.drafts, draft, logits, &draft, NULL), SB_OK);
            assert_int_equal(draft, e.drafts[k]);
            worst = fmax(worst, distance(logits, e.chain + k * DRAFTED));
        }
        print_message("%s: %.3g\n", name, worst);
        assert_true(worst < 1e-5);
        close_pair(&p);
        sb_safetensors_close(&e.file);
    }
}

/* S-15: several tokens in one call, and a draft between two calls, leave the same entries. */
TEST(test_calls)
{
    pair a = open_pair(kept[0]), b = open_pair(kept[0]);
    const uint32_t tokens[6] = {3, 10, 17, 24, 31, 38};
    float one[DRAFTED], other[DRAFTED];
    uint32_t draft = 0;
    sb_error err = {""};
    assert_int_equal(sb_session_feed(a.session, tokens, 6, &err), SB_OK);
    assert_int_equal(sb_eagle3_follow(a.drafts, tokens, 6, &err), SB_OK);
    for (size_t at = 0; at < 6; at += 2) {
        assert_int_equal(sb_session_feed(b.session, tokens + at, 2, &err), SB_OK);
        assert_int_equal(sb_eagle3_follow(b.drafts, tokens + at, 2, &err), SB_OK);
        for (int k = 0; k < 3; k++)
            assert_int_equal(sb_eagle3_draft(b.drafts, 45, NULL, &draft, &err), SB_OK);
    }
    sb_eagle3_forget(b.drafts);
    assert_int_equal(sb_eagle3_draft(a.drafts, 50, one, &draft, &err), SB_OK);
    assert_int_equal(sb_eagle3_draft(b.drafts, 50, other, &draft, &err), SB_OK);
    assert_memory_equal(one, other, sizeof one);
    close_pair(&a);
    close_pair(&b);
}

enum { SEEDS = 500, TOKENS = 384 };

/* Counts the second token after a prompt over many seeds; drafts: 1, or 0 for plain sampling. */
static void count_tokens(const sb_model *target, const sb_eagle3 *drafter, size_t drafts,
                         unsigned counts[TOKENS])
{
    const uint32_t prompt[4] = {1, 2, 3, 4};
    const sb_session_options options = {.states = sb_eagle3_states(drafter)};
    sb_session *session = NULL;
    sb_error err = {""};
    assert_int_equal(sb_session_new(target, &options, &session, &err), SB_OK);
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        sb_sampling sampling = {.seed = seed + SEEDS * drafts, .temperature = 3, .top_p = 1};
        const sb_round_options how = {.sampling = &sampling,
                                      .acceptance = SB_ACCEPT_residual,
                                      .rollback = SB_ROLLBACK_snapshots,
                                      .drafter = drafter};
        sb_rounds *rounds = NULL;
        sb_round round;
        sb_session_reset(session);
        assert_int_equal(sb_rounds_new(session, &how, &rounds, &err), SB_OK);
        assert_int_equal(sb_session_feed(session, prompt, 4, &err), SB_OK);
        assert_int_equal(sb_rounds_fed(rounds, prompt, 4, &err), SB_OK);
        const sb_round_ask ask = {.token = 178, .drafts = drafts, .forced = -1};
        assert_int_equal(sb_rounds_next(rounds, &ask, &round, &err), SB_OK);
        counts[round.tokens[0]]++;
        sb_rounds_free(rounds);
    }
    sb_session_free(session);
}

/* P-14: under residual the tokens follow the target with drafts as without. The sum of
 * (a - b)^2 / (a + b) over tokens has about the mean and half the variance of their number. */
TEST(test_residual)
{
    unsigned with[TOKENS] = {0}, without[TOKENS] = {0};
    double distance = 0, bins = 0;
    pair p = open_pair(kept[0]);
    count_tokens(p.target, p.drafter, 1, with);
    count_tokens(p.target, p.drafter, 0, without);
    for (size_t i = 0; i < TOKENS; i++) {
        const double a = with[i], b = without[i];
        if (a + b < 8)
            continue;
        distance += (a - b) * (a - b) / (a + b);
        bins++;
    }
    print_message("%g over %g tokens\n", distance, bins);
    assert_true(bins > 8);
    assert_true(distance < bins + 5 * sqrt(2 * bins));
    close_pair(&p);
}
