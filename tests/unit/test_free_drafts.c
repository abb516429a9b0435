/* test_free_drafts.c - logits of drafts are compared with the head as logits of rows are with the
 * model: at level 2, with states, and from every correct engine. */
#include "tests/lib/suite.h"

#include <string.h>

#include "tests/lib/check_all.h"
#include "tests/unit/free_play.h"
#include "tools/judge/fault/op_faults.h"
#include "tools/judge/sim/sim.h"

static const sb_model *model_of(const char *preset, const char *recipe)
{
    return play_model("test_free_drafts", preset, recipe);
}

static sb_step_value *guess_of(sb_step *step)
{
    return (sb_step_value *)(uintptr_t)sb_step_find(&step->taps, "mtp.logits");
}

static void scale(free_play *p, sb_step *step)
{
    sb_step_value *v = guess_of(step);
    for (size_t i = 0; v && i < v->cols; i++)
        v->data[i] *= (float)p->amount;
}

/* Changes a logit that is not the largest, so that no draft changes. */
static void one_logit(free_play *p, sb_step *step)
{
    sb_step_value *v = guess_of(step);
    if (v)
        v->data[v->data[7] > v->data[8] ? 8 : 7] += (float)p->amount;
}

static void position(free_play *p, sb_step *step)
{
    if (step->row_count && step->rows[0].kind == SB_CALL_draft)
        step->rows[0].position -= (uint64_t)p->amount;
}

static void token(free_play *p, sb_step *step)
{
    if (step->row_count && step->rows[0].kind == SB_CALL_draft)
        step->rows[0].token ^= (uint32_t)p->amount;
}

static const struct {
    const char *name, *words;
    void (*spoil)(free_play *play, sb_step *step);
    double amount;
    const sb_planted *list;
    const char *fault, *tap;
} mistakes[] = {
    {"scale", "of draft 0 is", scale, 1.05, NULL, NULL, NULL},
    {"one logit", "of draft 0 is", one_logit, -0.25, NULL, NULL, NULL},
    {"head scale", "of draft 0 is", NULL, 0, sb_specials, "head_scaled", NULL},
    {"norm without 1", "of draft 0 is", NULL, 0, sb_mistakes, "norm_plain_weight", "mtp.norm"},
    {"position 0", "of draft 0 is", NULL, 0, sb_specials, "drafts_from_zero", NULL},
    {"no position", "expected token", position, 1, NULL, NULL, NULL},
    {"another token", "expected token", token, 1, NULL, NULL, NULL},
};

/* Each mistake is reported as a failure of the head's logits, at the levels that record them. */
TEST(test_mistakes_of_the_head)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        for (unsigned level = 2; level <= 3; level++) {
            sb_plant plant = {.layer = SB_EVERY_LAYER, .name = mistakes[i].tap};
            if (mistakes[i].list)
                plant.fault = sb_planted_find(mistakes[i].list, mistakes[i].fault);
            free_play p = {.model = model_of("T1", "mistakes"),
                           .hook = plant.fault ? sb_plant_hook : NULL,
                           .hook_ctx = &plant,
                           .spoil = mistakes[i].spoil,
                           .amount = mistakes[i].amount,
                           .level = level,
                           .rounds = 2,
                           .drafts = 1,
                           .perturbed = 2};
            free_play_run(&p);
            if (p.v.verdict != SB_VERDICT_FAIL || strcmp(p.v.first_failure.op, "draft") != 0 ||
                strcmp(p.v.first_failure.name, "mtp.logits") != 0 ||
                !strstr(p.v.first_failure.words, mistakes[i].words))
                fail_msg("%s, level %u: %s, %s %s", mistakes[i].name, level,
                         sb_verdict_name(p.v.verdict), p.v.first_failure.op,
                         p.v.first_failure.words);
            if (level == 2)
                print_message("%s: %s\n", mistakes[i].name, p.v.first_failure.words);
            sb_verdicts_free(&p.v);
            sb_plant_clear(&plant);
        }
}

/* An error far below the noise passes, and so does a drafter that is declared as external. */
TEST(test_what_is_no_mistake)
{
    free_play p = {.model = model_of("T4", "mistakes"),
                   .spoil = one_logit,
                   .amount = 1e-6,
                   .level = 2,
                   .rounds = 4,
                   .drafts = 1,
                   .perturbed = 2};
    free_play_run(&p);
    assert_in_range(p.v.verdict, SB_VERDICT_WITHIN, SB_VERDICT_NEAR_TIE);
    sb_verdicts_free(&p.v);
    p.spoil = scale;
    p.amount = 1.05;
    p.external = 1;
    free_play_run(&p);
    assert_in_range(p.v.verdict, SB_VERDICT_IDENTICAL, SB_VERDICT_NEAR_TIE);
    sb_verdicts_free(&p.v);
}

/* Every correct engine, alternating between the two levels, with dense models, experts and bf16. */
TEST(test_correct_engines)
{
    static const struct {
        const char *preset, *profile;
    } on[] = {{"T4", "exact"}, {"T3", "exact"}, {"T1", "hf"}};
    for (size_t i = 0; i < sb_sim_count(); i++) {
        if (!check_some(i, 5))
            continue;
        const sb_sim *sim = sb_sim_at(i);
        sb_knobs knobs;
        assert_int_equal(sb_knobs_profile(&knobs, on[i % 3].profile, NULL), SB_OK);
        for (size_t k = 0; sim->settings && sim->settings[k]; k++)
            assert_int_equal(sb_knobs_set(&knobs, sim->settings[k], NULL), SB_OK);
        free_play p = {.model = model_of(on[i % 3].preset, "predictable"),
                       .knobs = &knobs,
                       .backend = &sim->backend,
                       .arithmetic = sb_arithmetic_of(sim->arithmetic),
                       .level = 2 + (unsigned)i / 3 % 2,
                       .rounds = 6,
                       .drafts = 1,
                       .perturbed = 4};
        free_play_run(&p);
        /* matrix units that truncate may leave the bounds of logits unlimited */
        int open = p.v.verdict == SB_VERDICT_MISTRUSTED && p.arithmetic->atom;
        if (p.v.failures || p.v.verdict < SB_VERDICT_IDENTICAL ||
            (p.v.verdict > SB_VERDICT_NEAR_TIE && !open))
            fail_msg("%s on %s, %s: %s, %s", sim->name, on[i % 3].preset, on[i % 3].profile,
                     sb_verdict_name(p.v.verdict), p.v.first_failure.words);
        sb_verdicts_free(&p.v);
    }
}

TEST_GROUP(NULL, play_close_models)
