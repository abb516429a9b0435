/* clean.c - correct engines, of which each must pass. */
#include <stdio.h>

#include "ref/base/pool.h"
#include "tools/fault/campaign_parts.h"

enum { CLEAN_RUNS = 16 }; /* side by side */

static const char *const clean_vehicles[] = {"T1:4 bf16 predictable", "T3 bf16 mistakes",
                                             "T4 bf16 predictable",   "T5:4 bf16 mistakes",
                                             "T1:4 bf16 mistakes",    "T3 nvfp4-ct plain"};

/* One of them. */
typedef struct clean_run {
    sb_trial trial;
    sb_finding_of_fault found;
    sb_status status;
    sb_error err;
} clean_run;

/* Number i: the profiles in turn, at each turn beside other vehicles, and engines at a stride
 * without a common factor. */
static sb_status clean_trial(sb_campaign *c, uint64_t i, clean_run *run, sb_error *err)
{
    size_t vehicles = sizeof clean_vehicles / sizeof *clean_vehicles;
    size_t profiles = sb_profile_count(), sims = sb_sim_count();
    const char *profile = sb_profile_name(i % profiles);
    const char *name = clean_vehicles[(i + i / profiles) % vehicles];
    sb_trial *t = &run->trial;
    run->found = (sb_finding_of_fault){.tokens = 0};
    *t = (sb_trial){.script = {.prompt = 24, .decode = 6, .rounds = 8, .drafts = 3, .sequences = 2},
                    .together = 1,
                    .perturbed = 3,
                    .seed = sb_campaign_seed(c) + i};
    t->sim = sb_sim_at((size_t)((i + i / sims) % sims));
    snprintf(run->found.name, sizeof run->found.name, "%s, %s, %s", name, profile, t->sim->name);
    sb_status status = sb_knobs_profile(&t->knobs, profile, err);
    for (size_t k = 0; t->sim->settings && t->sim->settings[k] && !status; k++)
        status = sb_knobs_set(&t->knobs, t->sim->settings[k], err);
    t->engine_knobs = t->knobs;
    return status ? status : sb_campaign_model(c, name, &t->reference, err);
}

static void see_run(void *ctx, size_t r, size_t worker)
{
    clean_run *run = (clean_run *)ctx + r;
    (void)worker;
    run->status = sb_campaign_see(&run->trial, &run->found, &run->err);
}

/* Runs `count` of them from number i on, side by side, and judges them in their order until there
 * are enough tokens: what was run too many does not count. */
static sb_status clean_runs(sb_campaign *c, uint64_t i, size_t count, uint64_t tokens,
                            uint64_t *done, sb_error *err)
{
    clean_run runs[CLEAN_RUNS];
    sb_status status = SB_OK;
    for (size_t r = 0; r < count && !status; r++)
        status = clean_trial(c, i + r, &runs[r], err);
    if (status)
        return status;
    sb_parallel_in_order(count, 1, see_run, runs);
    for (size_t r = 0; r < count && *done < tokens; r++) {
        if (runs[r].status)
            return sb_fail(err, runs[r].status, "%s", runs[r].err.text);
        sb_campaign_judge(c, &runs[r].found);
        *done += runs[r].found.tokens ? runs[r].found.tokens : 1;
    }
    return SB_OK;
}

sb_status sb_campaign_clean(sb_campaign *c, uint64_t tokens, sb_error *err)
{
    enum { TOKENS = 120 }; /* of a run, about */
    uint64_t done = 0, i = 0;
    sb_status status = SB_OK;
    while (done < tokens && !status) {
        uint64_t wanted = (tokens - done) / TOKENS + 1;
        size_t count = wanted < CLEAN_RUNS ? (size_t)wanted : CLEAN_RUNS;
        status = clean_runs(c, i, count, tokens, &done, err);
        i += count;
    }
    return status;
}
