/* test_codes.c - T-42: an engine whose inputs become codes, some of which fall on the other side of
 * a tie, is right by the free way alone; one that leaves a state wrong in such a model is not. */
#include "tests/lib/suite.h"

#include <stdio.h>

#include "tests/fault/own_campaign.h"

TEST_FIXTURE(begin)
{
    return campaign_begin((sb_campaign_options){.seed = 1});
}

TEST_FIXTURE(end)
{
    return campaign_end();
}

/* What the free way alone says of an engine whose accumulators keep 13 bits: of all engines its
 * codes fall otherwise most often. */
static sb_verdict verdict(uint32_t seed, const char *slip, char words[SB_WORDS])
{
    sb_error err = {""};
    sb_outcome outcome;
    sb_trial t = {.script = {.prompt = 6, .rounds = 3, .drafts = 2, .sequences = 1},
                  .rollback = SB_TRACE_ROLLBACK_snapshots,
                  .slip = slip ? sb_planted_find(sb_slips, slip) : NULL,
                  .with_free = 1,
                  .seed = seed};
    if (sb_knobs_profile(&t.knobs, "w4a4", &err) || sb_sim_find("trunc13", &t.sim, &err) ||
        sb_campaign_model(campaign, "T4 nvfp4-ct plain", &t.reference, &err))
        fail_msg("%s", err.text);
    t.engine_knobs = t.knobs;
    if (sb_trial_run(&t, &outcome, &err))
        fail_msg("%s", err.text);
    assert_false(outcome.refused);
    sb_verdict found = outcome.free.verdict;
    snprintf(words, SB_WORDS, "%s", outcome.free.reason);
    sb_outcome_clear(&outcome);
    return found;
}

/* Of each of these a code at a tie fell where no run took it, and states or logits failed. */
static const uint32_t seeds[] = {1, 4, 5, 7};

TEST(codes_at_ties_are_right)
{
    char words[SB_WORDS];
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        if (verdict(seeds[i], NULL, words) == SB_VERDICT_FAIL)
            fail_msg("seed %u: %s", (unsigned)seeds[i], words);
}

TEST(wrong_states_are_found_beside_them)
{
    static const char *const slips[] = {"slot_off_by_one", "conv_forgotten", "decay_of_rejected"};
    char words[SB_WORDS];
    for (size_t i = 0; i < sizeof slips / sizeof *slips; i++) {
        if (verdict(seeds[i], slips[i], words) != SB_VERDICT_FAIL)
            fail_msg("%s: not found", slips[i]);
        printf("%-20s %s\n", slips[i], words);
    }
}

TEST_GROUP(begin, end)
