/* test_rollback.c - T-85 and T-86: some engines compute a state in another call than the recorded
 * one, with other roundings. They are right at every level of a trace. A state that a rollback
 * leaves wrong is caught at every level that shows it, for every kind of rollback that the trace
 * can declare.
 *
 * Runs a sample, and everything with CHECK_ALL=1. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fault/own_campaign.h"

static int all;

TEST_FIXTURE(begin)
{
    const char *wanted = getenv("CHECK_ALL");
    all = wanted && strcmp(wanted, "1") == 0;
    return campaign_begin((sb_campaign_options){.seed = 1});
}

TEST_FIXTURE(end)
{
    return campaign_end();
}

/* A kind of rollback, and the one that the trace declares. */
typedef struct way {
    const char *name;
    sb_trace_rollback declared;
    int replay;
} way;

static const way ways[] = {{"replay", SB_TRACE_ROLLBACK_replay, 1},
                           {"unsaid replay", SB_TRACE_ROLLBACK_unknown, 1},
                           {"snapshots", SB_TRACE_ROLLBACK_snapshots, 0},
                           {"slots", SB_TRACE_ROLLBACK_slots, 0}};
enum { WAYS = sizeof ways / sizeof *ways, REPLAY = 0, UNSAID = 1, SNAPSHOTS = 2 };

/* An engine whose sums depend on the number of rows of a call. */
static sb_trial batched(const char *profile, const char *vehicle, const way *w)
{
    sb_error err = {""};
    sb_trial t = {.script = {.prompt = 6,
                             .rounds = all ? 6 : 4,
                             .drafts = 3,
                             .sequences = 1,
                             .replay = w->replay},
                  .rollback = w->declared,
                  .together = 1,
                  .perturbed = all ? 3 : 2,
                  .seed = 7};
    if (sb_knobs_profile(&t.knobs, profile, &err) || sb_sim_find("batched", &t.sim, &err) ||
        sb_campaign_model(campaign, vehicle, &t.reference, &err))
        fail_msg("%s", err.text);
    t.engine_knobs = t.knobs;
    return t;
}

static sb_finding_of_fault see(const sb_trial *t)
{
    sb_finding_of_fault found = {.tokens = 0};
    sb_error err = {""};
    if (sb_campaign_see(t, &found, &err))
        fail_msg("%s", err.text);
    return found;
}

static void check_correct(const char *profile, const char *vehicle, const way *w, const char *slip,
                          int levels)
{
    sb_trial t = batched(profile, vehicle, w);
    t.levels = levels;
    t.slip = slip ? sb_planted_find(sb_slips, slip) : NULL;
    sb_finding_of_fault found = see(&t);
    if (sb_sign_has(&found.signs, "fail") || sb_sign_has(&found.signs, "mistrusted"))
        fail_msg("%s, %s, %s, %s: %s", profile, vehicle, w->name, slip ? slip : "its own entries",
                 found.place);
    for (unsigned level = 0; level < SB_TRACE_LEVELS && levels; level++)
        if (found.level[level] < SB_VERDICT_IDENTICAL || found.level[level] > SB_VERDICT_NEAR_TIE)
            fail_msg("%s, %s, %s, %s: level %u is %s", profile, vehicle, w->name,
                     slip ? slip : "its own entries", level, sb_verdict_name(found.level[level]));
}

/* In every profile. Rollback by snapshots is not possible if a chunk has no states between rows. */
static void check_all_correct(void)
{
    static const char *const vehicles[] = {"T1:4 bf16 predictable", "T4 bf16 predictable"};
    for (size_t p = 0; p < sb_profile_count(); p++)
        for (size_t i = 0; i < 2 * WAYS; i++) {
            const way *w = &ways[i % WAYS];
            sb_knobs knobs;
            sb_error err = {""};
            assert_int_equal(sb_knobs_profile(&knobs, sb_profile_name(p), &err), SB_OK);
            if (w->replay || sb_knobs_have_row_states(&knobs))
                check_correct(sb_profile_name(p), vehicles[(p + i) % 2], w,
                              i < WAYS ? NULL : "entry_of_draft", 1);
        }
}

TEST(test_correct_engines)
{
    static const char t1[] = "T1:4 bf16 predictable";
    check_correct("exact", t1, &ways[UNSAID], "entry_of_draft", 1);
    check_correct("exact", t1, &ways[SNAPSHOTS], "entry_of_draft", 0);
    check_correct("hf", t1, &ways[REPLAY], NULL, 0);
    if (all)
        check_all_correct();
}

/* A choice of experts that is almost a tie changes when the row is fed again. Then only the states
 * differ: in an engine that declares replay, and in one whose recorded call computed them. */
TEST(test_other_experts)
{
    const char *const t3 = "T3 nvfp4-ct plain";
    for (int i = 0; i < 2; i++) {
        sb_trial t = batched("sm121", t3, &ways[i ? SNAPSHOTS : UNSAID]);
        t.script = (sb_script){.prompt = 24,
                               .calls = 5,
                               .decode = 6,
                               .rounds = 5,
                               .drafts = 2,
                               .sequences = 1,
                               .replay = 1};
        t.seed = 70;
        t.perturbed = 3;
        t.together = 0;
        t.with_free = 1;
        sb_finding_of_fault found = see(&t);
        if (sb_sign_has(&found.signs, "fail") != i)
            fail_msg("%s: %s", ways[i ? SNAPSHOTS : UNSAID].name, found.place);
    }
}

/* The errors that a round can leave. `often`: part of the sample. */
static const struct {
    const char *slip;
    int often;
} faults[] = {{"crop_keeps_rejected", 0}, {"slot_off_by_one", 1},   {"slot_one_too_late", 0},
              {"slot_of_other", 0},       {"stale_slot", 0},        {"round_not_begun", 0},
              {"conv_forgotten", 1},      {"conv_shifted", 0},      {"keys_of_rejected", 0},
              {"entry_of_rejected", 1},   {"entry_of_recycled", 1}, {"entry_left_out", 1},
              {"entries_not_rewound", 0}, {"last_hidden_stale", 0}, {"last_row_dropped", 0}};

TEST(test_faults)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        for (size_t w = 0; w < WAYS; w++) {
            if (!all && (!faults[i].often || w))
                continue;
            sb_trial t = batched("exact", "T1:4 bf16 predictable", &ways[w]);
            t.levels = all;
            t.script.replay = 0; /* slips restore the snapshot of another row */
            t.slip = sb_planted_find(sb_slips, faults[i].slip);
            sb_finding_of_fault found = see(&t);
            int caught = sb_sign_has(&found.signs, "fail") || sb_sign_has(&found.signs, "refused");
            if (!caught ||
                (all && (found.level[3] != SB_VERDICT_FAIL || found.level[4] != SB_VERDICT_FAIL)))
                fail_msg("%s, %s: not caught: level 3 %s, level 4 %s", faults[i].slip, ways[w].name,
                         sb_verdict_name(found.level[3]), sb_verdict_name(found.level[4]));
            printf("%-20s %-14s %s\n", faults[i].slip, ways[w].name, found.place);
        }
}

TEST_GROUP(begin, end)
