/* test_levels.c - the score by recording level, and the score of correct engines by kind. */
#include "tests/lib/suite.h"

#include <string.h>

#include "tests/fault/own_campaign.h"
#include "tools/judge/trace/cut.h"

static sb_finding_of_fault last;

static void keep(void *ctx, const sb_finding_of_fault *finding)
{
    (void)ctx;
    last = *finding;
}

TEST_FIXTURE(begin)
{
    return campaign_begin((sb_campaign_options){.seed = 1, .levels = 1, .found = keep});
}

TEST_FIXTURE(end)
{
    return campaign_end();
}

TEST(test_cut)
{
    static const struct {
        const char *name;
        unsigned level; /* the lowest level with this array */
    } arrays[] = {{"logits", 1},     {"top_ids", 1},
                  {"logprobs", 1},   {"mtp.logits", 2},
                  {"final_norm", 4}, {"layers.0.mlp.router_ids", 2},
                  {"mtp.embed", 4},  {"layers.0.mlp.router_logits", 4}};
    enum { ARRAYS = sizeof arrays / sizeof *arrays };
    sb_step step = {.row_count = 1};
    sb_error err = {""};
    for (size_t i = 0; i < ARRAYS; i++)
        assert_non_null(sb_step_add(&step.taps, arrays[i].name, 1, 2, 1));
    assert_non_null(sb_step_add_row(&step));
    assert_non_null(sb_step_add_state(&step));
    assert_non_null(sb_step_add_round(&step));
    for (unsigned level = 0; level < SB_TRACE_LEVELS; level++) {
        sb_step view;
        assert_int_equal(sb_step_cut(&step, level, 0, &view, &err), SB_OK);
        for (size_t i = 0; i < ARRAYS; i++)
            assert_int_equal(sb_step_find(&view.taps, arrays[i].name) != NULL,
                             arrays[i].level <= level);
        assert_int_equal(view.state_count, level >= 3);
        assert_int_equal(view.round_count, 1);
        sb_step_cut_free(&view);
    }
    assert_int_equal(step.taps.count, ARRAYS);
    sb_step_clear(&step);
}

/* Hidden states alone, and what fused kernels write: neither has states. */
TEST(test_views)
{
    static const struct {
        const char *name;
        int hidden, fused;
    } arrays[] = {{"embed", 1, 1},
                  {"layers.3.output", 1, 1},
                  {"norm", 1, 1},
                  {"logits", 0, 1},
                  {"layers.3.self_attn.k_proj", 0, 1},
                  {"layers.3.self_attn.k_norm", 0, 0},
                  {"layers.3.mlp.router_ids", 0, 1},
                  {"layers.3.mlp.router_weights", 0, 0},
                  {"mtp.layers.0.output", 0, 1}};
    enum { ARRAYS = sizeof arrays / sizeof *arrays };
    sb_step step = {.row_count = 1};
    sb_error err = {""};
    for (size_t i = 0; i < ARRAYS; i++)
        assert_non_null(sb_step_add(&step.taps, arrays[i].name, 1, 2, 1));
    assert_non_null(sb_step_add_state(&step));
    for (unsigned view = SB_VIEW_HIDDEN; view < SB_TRACE_VIEWS; view++) {
        sb_step cut;
        assert_int_equal(sb_step_cut(&step, view, 0, &cut, &err), SB_OK);
        for (size_t i = 0; i < ARRAYS; i++)
            assert_int_equal(sb_step_find(&cut.taps, arrays[i].name) != NULL,
                             view == SB_VIEW_HIDDEN ? arrays[i].hidden : arrays[i].fused);
        assert_int_equal(cut.state_count, 0);
        sb_step_cut_free(&cut);
    }
    sb_step_clear(&step);
}

/* A forgotten state shows only in recordings with states. The verdict of each level is counted. */
TEST(test_fault_by_level)
{
    sb_fault f = {.name = "slip",
                  .origin = "",
                  .words = "",
                  .plant = SB_PLANT_slip,
                  .arg = "conv_forgotten",
                  .vehicle = "T1:4 bf16 mistakes",
                  .setting = "",
                  .script = "rounds",
                  .fires = "conv",
                  .quiet = ""};
    sb_error err = {""};
    if (sb_campaign_fault(campaign, &f, &err))
        fail_msg("%s", err.text);
    assert_int_equal(last.result, SB_FAULT_CAUGHT);
    const sb_level_score *s = &sb_campaign_score(campaign)->levels[SB_PLANT_slip];
    assert_int_equal(s->planted, 1);
    assert_int_equal(last.level[4], SB_VERDICT_FAIL);
    assert_int_equal(last.level[3], SB_VERDICT_FAIL);
    for (unsigned level = 0; level < SB_TRACE_LEVELS; level++)
        assert_int_equal(s->failed[level], last.level[level] == SB_VERDICT_FAIL);
}

/* A fed token that was never emitted shows at every level, from the rows alone. */
TEST(test_another_token_is_fed)
{
    sb_fault f = {.name = "feed",
                  .origin = "",
                  .words = "",
                  .plant = SB_PLANT_feed,
                  .arg = "",
                  .site = "round=0",
                  .vehicle = "T4 bf16 predictable",
                  .setting = "",
                  .script = "two",
                  .fires = "round",
                  .quiet = "ops logits"};
    sb_error err = {""};
    for (int twin = 0; twin < 2; twin++) {
        f.plant = twin ? SB_PLANT_knob : SB_PLANT_feed;
        f.benign = twin;
        if (sb_campaign_fault(campaign, &f, &err))
            fail_msg("%s", err.text);
        assert_int_equal(last.result, twin ? SB_FAULT_PASSED : SB_FAULT_CAUGHT);
        for (unsigned level = 0; level < SB_TRACE_LEVELS; level++)
            assert_int_equal(last.level[level] == SB_VERDICT_FAIL, !twin);
    }
}

/* T-43: an engine that breaks exact ties the other way is right at every level. If its experts are
 * not recorded, some run of the noise has made the same choice. */
TEST(test_ties_by_level)
{
    sb_fault f = {.name = "ties",
                  .origin = "",
                  .words = "",
                  .plant = SB_PLANT_special,
                  .arg = "tie_other",
                  .vehicle = "T1:4 bf16 mistakes",
                  .setting = "",
                  .script = "plain",
                  .fires = "near_tie",
                  .quiet = "",
                  .benign = 1};
    static const uint64_t seeds[] = {19, 25}; /* if the two runs drew independently, both would miss
                                               * this choice */
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        scratch_path own = scratch_new();
        sb_campaign_options options = {
            .folder = own.text, .seed = seeds[i], .levels = 1, .found = keep};
        sb_campaign *c = NULL;
        sb_error err = {""};
        assert_int_equal(sb_campaign_new(&options, &c, &err), SB_OK);
        if (sb_campaign_fault(c, &f, &err))
            fail_msg("%s", err.text);
        for (unsigned view = 0; view < SB_TRACE_VIEWS; view++)
            if (last.level[view] == SB_VERDICT_FAIL)
                fail_msg("seed %d fails: %s", (int)seeds[i], sb_view_name(view));
        assert_int_equal(last.result, SB_FAULT_PASSED);
        sb_campaign_free(c);
        assert_int_equal(rmdir(own.text), 0);
    }
}

/* T-70: a fault hidden by more data counts as survived. A correct engine fails at no level. */
TEST(test_judge_of_levels)
{
    sb_fault f = {.name = "f", .plant = SB_PLANT_op, .fires = "fail", .quiet = ""};
    sb_finding_of_fault found = {.fault = &f, .has_levels = 1};
    sb_sign_add(&found.signs, "fail");
    for (unsigned level = 2; level < SB_TRACE_LEVELS; level++)
        found.level[level] = SB_VERDICT_FAIL;
    sb_campaign_judge(campaign, &found);
    assert_int_equal(found.result, SB_FAULT_CAUGHT);
    found.level[4] = SB_VERDICT_NEAR_TIE;
    sb_campaign_judge(campaign, &found);
    assert_int_equal(found.result, SB_FAULT_SURVIVED);
    assert_string_equal(found.place, "fails at level 3, but not at 4");
    found.level[3] = SB_VERDICT_WITHIN;
    found.level[2] = SB_VERDICT_WITHIN;
    found.level[SB_VIEW_FUSED] = SB_VERDICT_FAIL;
    sb_campaign_judge(campaign, &found);
    assert_int_equal(found.result, SB_FAULT_SURVIVED);
    assert_string_equal(found.place, "fails by fused taps, but not at level 4");

    sb_finding_of_fault correct = {.has_levels = 1};
    sb_campaign_judge(campaign, &correct);
    assert_int_equal(correct.result, SB_FAULT_PASSED);
    correct.level[0] = SB_VERDICT_FAIL;
    sb_campaign_judge(campaign, &correct);
    assert_int_equal(correct.result, SB_FAULT_ALARM);
    assert_int_equal(sb_campaign_score(campaign)->correct.failed[0], 1);
    assert_int_equal(sb_campaign_score(campaign)->correct.failed[4], 0);
}

/* Each run counts once on every axis, and different parts share no run. In part 2, the first run
 * feeds its prompt token by token: a call with one prompt token is not an emitted token. */
TEST(test_correct_engines)
{
    static const char *const axes[] = {"engine",  "profile",  "model", "tokens", "prompt", "drafts",
                                       "drafter", "rollback", "entry", "cache",  "record"};
    scratch_path own = scratch_new();
    sb_campaign *c = NULL;
    sb_error err = {""};
    char first[sizeof last.name];
    assert_int_equal(
        sb_campaign_new(&(sb_campaign_options){.folder = own.text, .seed = 42, .found = keep}, &c,
                        &err),
        SB_OK);
    assert_int_equal(sb_campaign_clean(c, 1, 0, &err), SB_OK);
    assert_int_equal(last.result, SB_FAULT_PASSED);
    memcpy(first, last.name, sizeof first);
    assert_int_equal(sb_campaign_clean(c, 1, 2, &err), SB_OK);
    assert_int_equal(last.result, SB_FAULT_PASSED);
    assert_string_not_equal(first, last.name);
    const sb_score *s = sb_campaign_score(c);
    for (size_t a = 0; a < sizeof axes / sizeof *axes; a++) {
        uint64_t tokens = 0;
        size_t runs = 0;
        for (size_t i = 0; i < s->kind_count; i++)
            if (strcmp(s->kinds[i].axis, axes[a]) == 0) {
                tokens += s->kinds[i].tokens;
                runs += s->kinds[i].runs;
                if (strcmp(s->kinds[i].name, "token by token") == 0)
                    assert_int_equal(s->kinds[i].runs, 1);
            }
        assert_int_equal(tokens, s->clean_tokens);
        assert_int_equal(runs, 2);
    }
    sb_campaign_free(c);
    assert_int_equal(rmdir(own.text), 0);
}

TEST_GROUP(begin, end)
