/* test_drawn.c - runs of correct engines that `samebit fault clean` has drawn, and that once were
 * called wrong: T-40 and T-48. */
#include "tests/lib/suite.h"

#include "tests/fault/own_campaign.h"
#include "tools/compare/envelope.h"

TEST_FIXTURE(begin)
{
    return campaign_begin((sb_campaign_options){.seed = 42});
}

TEST_FIXTURE(end)
{
    return campaign_end();
}

TEST(right_engines_pass)
{
    static const struct {
        const char *model, *profile, *sim;
        sb_script script;
        sb_trace_rollback rollback;
        uint64_t part, number;
    } runs[] = {
        /* the functions of Metal's fast math are off by more than a unit in the last place */
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
         4},
        /* of a small row of a state the four noisy runs show little, in a large column */
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
         2},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        sb_error err = {""};
        sb_outcome outcome;
        sb_trial t = {.script = runs[i].script,
                      .rollback = runs[i].rollback,
                      .together = 1,
                      .perturbed = SB_PERTURBED,
                      .seed = 42 + (runs[i].part << 32) + runs[i].number};
        if (sb_knobs_profile(&t.knobs, runs[i].profile, &err) ||
            sb_sim_find(runs[i].sim, &t.sim, &err) ||
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
