/* test_gpu_drafts.c - drafts in the emulator leave no trace: tokens, logits and states equal, bit
 * for bit, those of a run that is fed token by token. This holds for greedy drafts and for any
 * number of accepted drafts, for both ways to roll back, and under any order of threads. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "tests/lib/check_all.h"
#include "tests/mtp/play.h"

enum { GREEDY = -1, LONG = 64 }; /* longer prompts are computed only once */

typedef struct setting {
    const char *preset, *format, *profile;
    size_t prompt;
    sb_rollback rollback;
} setting;

/* A run with drafts and a plain one. */
typedef struct two_runs {
    sb_session *drafting, *plain;
    sb_rounds *rounds;
    float *logits;
    uint32_t token; /* the last one, not yet fed */
    size_t drafted, accepted;
} two_runs;

static sb_model *model_of(const setting *s)
{
    char name[64];
    snprintf(name, sizeof name, "%s-%s", s->preset, s->format);
    return test_model_open(
        test_checkpoint_with("test_gpu_drafts", &(sb_make_options){.preset = s->preset,
                                                                   .format = s->format,
                                                                   .recipe = "predictable",
                                                                   .layers = 4,
                                                                   .dir = name}));
}

static two_runs begin(const sb_model *model, const setting *s)
{
    sb_knobs knobs;
    assert_int_equal(sb_knobs_profile(&knobs, s->profile, NULL), SB_OK);
    const sb_session_options options = {.backend = sb_backend_emu(), .knobs = &knobs};
    two_runs r = {.drafting = play_session(model, &options),
                  .plain = play_session(model, &options),
                  .logits = calloc(model->config.vocab_size, sizeof(float))};
    assert_non_null(r.logits);
    r.rounds = play_rounds(r.drafting, NULL, s->rollback);
    sb_backend_emu_seed(1);
    r.token = play_prompt(r.drafting, "drafts", s->prompt);
    sb_backend_emu_seed(2);
    if (s->prompt > LONG)
        play_set(r.plain, sb_session_state(r.drafting));
    else
        assert_int_equal(play_prompt(r.plain, "drafts", s->prompt), r.token);
    return r;
}

static void end(two_runs *r)
{
    sb_rounds_free(r->rounds);
    sb_session_free(r->drafting);
    sb_session_free(r->plain);
    free(r->logits);
}

/* Feeds the rows that a round kept one by one. Returns the difference; NULL: none. */
static const char *differs(two_runs *r, const sb_round *round)
{
    const size_t V = sb_session_model(r->plain)->config.vocab_size;
    sb_error err = {""};
    uint32_t next = r->token;
    for (size_t row = 0; row <= round->accepted; row++) {
        test_feed(r->plain, &next, 1);
        assert_int_equal(sb_session_logits(r->plain, 0, r->logits, &err), SB_OK);
        if (memcmp(r->logits, sb_rounds_logits(r->rounds, row), V * sizeof(float)) != 0)
            return "logits";
        next = round->tokens[row];
        if (round->chosen[row] != sb_greedy(r->logits, V))
            return "the token of a row";
    }
    return play_difference(sb_session_state(r->drafting), sb_session_state(r->plain));
}

/* Plays a round in which `forced` drafts are accepted. With GREEDY, the right drafts are accepted,
 * and each token must be the token of the plain run. */
static const char *round_differs(two_runs *r, size_t drafts, int forced, uint64_t seed)
{
    sb_backend_emu_seed(seed);
    const sb_round round = play_round(
        r->rounds, &(sb_round_ask){.token = r->token, .drafts = drafts, .forced = forced});
    sb_backend_emu_seed(seed * 3 + 1);
    const char *what = differs(r, &round);
    for (size_t i = 0; !what && forced == GREEDY && i < round.emitted; i++)
        what = round.tokens[i] == round.chosen[i] ? NULL : "a token";
    r->token = round.tokens[round.emitted - 1];
    r->drafted += forced == GREEDY ? round.drafted : 0;
    r->accepted += forced == GREEDY ? round.accepted : 0;
    return what;
}

static void check(const setting *s, two_runs *r, size_t drafts, int forced, uint64_t seed)
{
    const char *what = round_differs(r, drafts, forced, seed);
    if (what)
        fail_msg("%s %s, %zu drafts, %d accepted: other than token by token: %s", s->preset,
                 s->format, drafts, forced, what);
}

/* Every number of drafts with every number of accepted ones. `make check` has only the smallest and
 * the largest number of drafts. */
TEST(test_every_depth)
{
    const setting s = {"T4", "bf16", "sm121", 5, SB_ROLLBACK_snapshots};
    sb_model *model = model_of(&s);
    two_runs r = begin(model, &s);
    for (size_t drafts = 1; drafts <= 4; drafts += check_all() ? 1 : 3)
        for (size_t kept = 0; kept <= drafts; kept++)
            check(&s, &r, drafts, (int)kept, 10 * drafts + kept);
    end(&r);
    sb_gpu_forget(sb_backend_emu());
    sb_model_close(model);
}

static void check_setting(const setting *s)
{
    static const struct {
        size_t drafts;
        int forced;
    } rounds[] = {{3, 1}, {4, GREEDY}, {0, GREEDY}, {4, 0}, {1, GREEDY}, {2, 2}};
    sb_model *model = model_of(s);
    two_runs r = begin(model, s);
    for (size_t i = 0; i < (check_all() ? sizeof rounds / sizeof *rounds : 3); i++)
        check(s, &r, rounds[i].drafts, rounds[i].forced, i);
    printf("%s %s: %zu of %zu drafts accepted\n", s->preset, s->format, r.accepted, r.drafted);
    end(&r);
    sb_gpu_forget(sb_backend_emu());
    sb_model_close(model);
}

/* Both ways to roll back, across the first end of a part of attention, at 256. */
TEST(test_settings)
{
    static const setting settings[] = {
        {"T3", "nvfp4a16-ct", "sm121", 2, SB_ROLLBACK_snapshots},
        {"T4", "int4-ct", "sm121", 254, SB_ROLLBACK_replay},
        {"T1", "fp8-block", "sm121", 3, SB_ROLLBACK_replay},
        {"T5", "int4-fp8-hybrid", "sm121", 1, SB_ROLLBACK_snapshots},
    };
    for (size_t i = 0; i < (check_all() ? sizeof settings / sizeof *settings : 2); i++)
        check_setting(&settings[i]);
}

/* Kernels that leave another state after a call of several rows, or in which a row sees a draft. */
TEST(test_faults)
{
    static const char *const faults[] = {"conv_state", "attention_mask"};
    const setting s = {"T4", "bf16", "sm121", 5, SB_ROLLBACK_snapshots};
    sb_model *model = model_of(&s);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const char *what = NULL;
        two_runs r = begin(model, &s);
        assert_true(sb_gpu_plant(faults[i]));
        for (size_t drafts = 1; drafts <= 3 && !what; drafts++)
            what = round_differs(&r, drafts, (int)drafts - 1, drafts);
        sb_gpu_plant(NULL);
        printf("%s: %s\n", faults[i], what ? what : "not caught");
        assert_non_null(what);
        end(&r);
    }
    sb_gpu_forget(sb_backend_emu());
    sb_model_close(model);
}
