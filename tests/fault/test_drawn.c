/* test_drawn.c - runs of correct engines drawn by `samebit fault clean` that were once called
 * wrong: T-40, T-42 and T-48. */
#include "tests/lib/suite.h"

#include "tests/fault/own_campaign.h"
#include "tests/lib/check_all.h"
#include "tools/judge/compare/envelope.h"

TEST_FIXTURE(begin)
{
    return campaign_begin((sb_campaign_options){.seed = 42});
}

TEST_FIXTURE(end)
{
    return campaign_end();
}

static sb_status set_all(const char *const *settings, sb_knobs *knobs, sb_error *err)
{
    sb_status status = SB_OK;
    for (; settings && *settings && !status; settings++)
        status = sb_knobs_set(knobs, *settings, err);
    return status;
}

TEST(right_engines_pass)
{
    static const struct {
        const char *model, *profile, *sim;
        sb_script script;
        sb_trace_rollback rollback;
        uint64_t part, number;
        const char *setting, *slip;
    } runs[] = {
        /* the functions of Metal's fast math are wrong by more than one ulp */
        {"T1:4 bf16 mistakes",
         "w4a4",
         "metal_fast",
         {.prompt = 24,
          .calls = 24,
          .decode = 6,
          .rounds = 8,
          .sequences = 2,
          .drafting = SB_DRAFTING_external},
         SB_TRACE_ROLLBACK_slots,
         71,
         4,
         NULL,
         NULL},
        /* the four noisy runs hardly vary in a small row of a state, in a large column */
        {"T4 nvfp4-ct plain",
         "hf",
         "cuda",
         {.prompt = 24,
          .calls = 24,
          .decode = 6,
          .rounds = 8,
          .sequences = 2,
          .drafts = 4,
          .phrase = 1,
          .replay = 1,
          .drafting = SB_DRAFTING_external},
         SB_TRACE_ROLLBACK_replay,
         85,
         2,
         NULL,
         NULL},
        /* values that a cache keeps as codes fall on the other side of a tie: a difference of one
         * code step, above the noise of the row */
        {"T1:4 bf16 predictable",
         "sm121",
         "lanes32",
         {.prompt = 24,
          .calls = 24,
          .decode = 6,
          .rounds = 8,
          .sequences = 2,
          .drafts = 4,
          .phrase = 5},
         SB_TRACE_ROLLBACK_snapshots,
         68,
         22,
         "kv_cache=fp8",
         NULL},
        {"T4 nvfp4-ct plain",
         "llamacpp",
         "fla",
         {.prompt = 24,
          .calls = 2,
          .decode = 6,
          .rounds = 8,
          .sequences = 2,
          .drafts = 1,
          .replay = 1,
          .drafting = SB_DRAFTING_forced},
         SB_TRACE_ROLLBACK_replay,
         73,
         1,
         "kv_cache=fp8",
         "entry_of_draft"},
        /* in the engine one code of a token's input differs, which moves the token's key by half */
        {"T4 nvfp4-ct plain",
         "hf",
         "trunc13",
         {.prompt = 24,
          .calls = 5,
          .decode = 6,
          .rounds = 8,
          .sequences = 2,
          .drafts = 3,
          .phrase = 5,
          .replay = 1,
          .drafting = SB_DRAFTING_forced},
         SB_TRACE_ROLLBACK_replay,
         129,
         13,
         NULL,
         "entry_of_draft"},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        if (!check_some(i, 2))
            continue;
        sb_error err = {""};
        sb_outcome outcome;
        sb_trial t = {.script = runs[i].script,
                      .rollback = runs[i].rollback,
                      .together = 1,
                      .perturbed = SB_PERTURBED,
                      .seed = 42 + (runs[i].part << 32) + runs[i].number};
        if (runs[i].slip)
            t.slip = sb_planted_find(sb_slips, runs[i].slip);
        if (sb_knobs_profile(&t.knobs, runs[i].profile, &err) ||
            (runs[i].setting && sb_knobs_set(&t.knobs, runs[i].setting, &err)) ||
            sb_sim_find(runs[i].sim, &t.sim, &err) || set_all(t.sim->settings, &t.knobs, &err) ||
            sb_campaign_model(campaign, runs[i].model, &t.reference, &err))
            fail_msg("%s", err.text);
        t.engine_knobs = t.knobs;
        if (sb_trial_run(&t, &outcome, &err))
            fail_msg("%s", err.text);
        if (outcome.refused || outcome.free.verdict == SB_VERDICT_FAIL)
            fail_msg("%s, %s, %s: %s", runs[i].model, runs[i].profile, runs[i].sim,
                     outcome.refused ? outcome.words : outcome.free.reason);
        sb_outcome_clear(&outcome);
    }
}

TEST_GROUP(begin, end)
