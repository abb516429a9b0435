/* test_twin.c - T-99: an engine with a mistake lies within the bounds of the op with that mistake,
 * and outside those of the right op. */
#include "tests/lib/check_all.h"
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/checkpoint.h"
#include "tests/lib/forced_run.h"
#include "tests/lib/plain.h"
#include "tools/judge/fault/site.h"
#include "tools/judge/sim/sim.h"

static sb_site everywhere(void)
{
    return (sb_site){
        .layer = SB_EVERY_LAYER, .token = SB_NOWHERE, .expert = SB_NOWHERE, .round = SB_NOWHERE};
}

static sb_sited sited(const sb_planted *fault, const sb_site *site)
{
    return (sb_sited){.site = *site, .plant = {.fault = fault, .layer = SB_EVERY_LAYER}};
}

typedef struct twin_case {
    const char *preset, *engine, *knobs;
    size_t prompt, decoded, rounds;
} twin_case;

/* Runs the engine with the fault, and judges it with or without the same fault in the reference.
 * Sets *ran to the number of calls with the fault. */
static void run_it(const twin_case *c, const sb_planted *fault, const sb_site *site, int twin,
                   size_t *ran, sb_verdicts *out)
{
    const sb_sim *sim = NULL;
    sb_error err = {{0}};
    sb_model *model =
        test_model_open(test_checkpoint("test_twin", c->preset, "mistakes", "bf16", "text"));
    sb_knobs knobs = test_knobs(c->knobs);
    sb_sited engine = sited(fault, site), reference = sited(fault, site);
    assert_int_equal(sb_sim_find(c->engine, &sim, &err), SB_OK);
    forced_run run = {.model = model,
                      .ops = &sim->backend.ops,
                      .knobs = &knobs,
                      .states = SB_CAPTURE_ALL_STATES,
                      .mtp = 1,
                      .prompt = c->prompt,
                      .decoded = c->decoded,
                      .rounds = c->rounds,
                      .hook = sb_sited_hook,
                      .ctx = &engine,
                      .twin = twin ? &reference : NULL};
    forced_run_all(&run);
    *ran = engine.ran;
    *out = run.verdicts;
    sb_sited_clear(&engine);
    sb_sited_clear(&reference);
    sb_model_close(model);
}

static const sb_planted *const lists[] = {sb_mistakes, sb_specials, sb_op_faults};

/* T-99: "calls that feed kept rows again" are not followed, and then a stale row is another one. */
static int is_followed(const twin_case *c, const sb_planted *fault)
{
    return fault->kind != SB_OP_FAULT_stale || !c->rounds || !strstr(c->knobs, "chunk64");
}

/* The chosen experts are whole rows. */
static int has_parts(const sb_planted *fault)
{
    return fault->op != SB_OP_router;
}

static void check_fault(const twin_case *c, const sb_planted *fault, const sb_site *site,
                        size_t *named, size_t *tried)
{
    sb_verdicts v;
    size_t ran;
    run_it(c, fault, site, 0, &ran, &v);
    const int fails = v.verdict == SB_VERDICT_FAIL;
    sb_verdicts_free(&v);
    if (!ran || !fails)
        return;
    run_it(c, fault, site, 1, &ran, &v);
    ++*tried;
    *named += v.verdict != SB_VERDICT_FAIL;
    if (v.verdict == SB_VERDICT_FAIL) {
        printf("  %s, %s, %s: %s\n", fault->name, c->preset, c->engine, v.reason);
        fail_msg("%s fails with the same mistake in the reference", fault->name);
    }
    sb_verdicts_free(&v);
}

static void check_lists(const twin_case *c, const sb_site *site, size_t step)
{
    size_t named = 0, tried = 0, at = 0;
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (const sb_planted *f = lists[l]; f->name; f++)
            if (!f->benign && (f->run || f->plant) && is_followed(c, f) &&
                (!site->parts || has_parts(f)) && check_some(at++, step))
                check_fault(c, f, site, &named, &tried);
    printf("%s, %s: %zu of %zu mistakes are within the bounds of the op with that mistake\n",
           c->preset, c->engine, named, tried);
    assert_true(tried > 2);
}

TEST(test_mistakes_have_their_own_bounds)
{
    static const twin_case cases[] = {{"T4", "sequential", "", 5, 2, 3},
                                      {"T1", "pairwise", "", 5, 2, 2},
                                      {"T4", "lanes8", "act=bf16", 4, 2, 3},
                                      {"T5", "backward", "", 4, 2, 2},
                                      {"T4", "fma", "delta_rule=chunk64", 67, 2, 2}};
    const sb_site site = everywhere();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (check_some(i, 3))
            check_lists(&cases[i], &site, 24);
}

/* A part of the columns is taken from the op with the mistake, the rest from the right one. */
TEST(test_parts_have_both_bounds)
{
    static const twin_case one = {"T1", "sequential", "", 5, 2, 2};
    sb_site site = everywhere();
    site.part = 1;
    site.parts = 2;
    check_lists(&one, &site, 24);
}
