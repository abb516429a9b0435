/* clean.c - correct engines of every kind, all of which must pass. */
#include <stdio.h>

#include "ref/base/pool.h"
#include "ref/base/rng.h"
#include "tools/judge/compare/envelope.h"
#include "tools/judge/fault/campaign_parts.h"
#include "tools/judge/fault/fused.h"
#include "tools/judge/trace/cut.h"

enum { CLEAN_RUNS = 16 }; /* runs in parallel */

/* The axes in which correct engines differ. Profile and engine are stepped through so that every
 * pair occurs; the rest is random. */
typedef enum axis {
    AXIS_engine,
    AXIS_profile,
    AXIS_model,
    AXIS_tokens,
    AXIS_prompt,
    AXIS_drafts,
    AXIS_drafter,
    AXIS_rollback,
    AXIS_entry,
    AXIS_cache,
    AXIS_record,
    AXES
} axis;
static const char *const axis_names[AXES] = {"engine", "profile", "model",   "tokens",
                                             "prompt", "drafts",  "drafter", "rollback",
                                             "entry",  "cache",   "record"};

/* The dense models (T4) take a third of the time of the others and are drawn more often. */
static const struct {
    const char *name;
    uint32_t weight;
} models[] = {{"T4 bf16 predictable", 4},
              {"T4 bf16 mistakes", 4},
              {"T4 nvfp4-ct plain", 4},
              {"T4 mxfp4 plain", 2},
              {"T4 fp8-block plain", 2},
              {"T4 int4-awq plain", 2},
              {"T1:4 bf16 predictable", 1},
              {"T1:4 bf16 mistakes", 1},
              {"T3 bf16 mistakes", 1},
              {"T5:4 bf16 mistakes", 1},
              {"T3 nvfp4-ct plain", 1},
              {"T2 int4-autoround plain", 1},
              {"T6 bf16 mistakes", 1},
              {"T6 fp8-channel plain", 1},
              {"T7 bf16 mistakes", 2},
              {"T7 bf16 predictable", 1},
              {"T7 nvfp4-modelopt-all plain", 1},
              {"T8 bf16 mistakes", 2},
              {"T8 bf16 predictable", 1},
              {"T8 fp8-block plain", 1}};
static const struct {
    const char *name;
    size_t calls;
} prompts[] = {{"one call", 1}, {"two calls", 2}, {"five calls", 5}, {"token by token", 24}};
/* A repeated token has the same errors again, which add up in the states. */
static const struct {
    const char *name;
    size_t phrase;
} texts[] = {{"drawn", 0}, {"one, repeated", 1}, {"five, repeated", 5}};
static const char *const drafts[] = {"none", "1", "2", "3", "4"};
static const char *const drafters[] = {"own", "external", "own, forced"}; /* by sb_drafting */
static const struct {
    const char *name;
    sb_trace_rollback declared;
    int replay;
} rollbacks[] = {{"snapshots", SB_TRACE_ROLLBACK_snapshots, 0},
                 {"slots", SB_TRACE_ROLLBACK_slots, 0},
                 {"replay", SB_TRACE_ROLLBACK_replay, 1},
                 {"replay, undeclared", SB_TRACE_ROLLBACK_unknown, 1}};
enum { FIRST_REPLAY = 2 };
/* The first entry of a round: made by the verify or by the first draft. */
static const char *const entries[] = {"verify", "draft"};
/* The cache of keys and values: as in the profile, but FP8 in one run of eight. */
static const char *const caches[] = {"of the profile", "FP8"};
enum { ONE_CACHE_IN = 8 };
/* What the engine records. Fused kernels may keep in binary32 what they do not write. */
static const struct {
    const char *name;
    unsigned view;
    int fused;
} records[] = {{"everything", 0, 0},
               {"hidden states", SB_VIEW_HIDDEN, 0},
               {"fused taps", SB_VIEW_FUSED, 0},
               {"fused taps, unrounded", SB_VIEW_FUSED, 1},
               {"no norms", SB_VIEW_NO_NORMS, 1},
               {"no convolution", SB_VIEW_NO_CONV, 1},
               {"no states", SB_VIEW_NO_STATES, 0},
               {"some taps", SB_VIEW_SOME, 0},
               {"some taps, unrounded", SB_VIEW_SOME, 1}};

static size_t axis_count(axis a)
{
    switch (a) {
    case AXIS_engine:
        return sb_sim_count();
    case AXIS_profile:
        return sb_profile_count();
    case AXIS_model:
        return sizeof models / sizeof *models;
    case AXIS_tokens:
        return sizeof texts / sizeof *texts;
    case AXIS_prompt:
        return sizeof prompts / sizeof *prompts;
    case AXIS_drafts:
        return sizeof drafts / sizeof *drafts;
    case AXIS_drafter:
        return sizeof drafters / sizeof *drafters;
    case AXIS_rollback:
        return sizeof rollbacks / sizeof *rollbacks;
    case AXIS_entry:
        return sizeof entries / sizeof *entries;
    case AXIS_cache:
        return sizeof caches / sizeof *caches;
    case AXIS_record:
        return sizeof records / sizeof *records;
    case AXES:
        break;
    }
    return 0;
}

static const char *axis_value(axis a, size_t i)
{
    switch (a) {
    case AXIS_engine:
        return sb_sim_at(i)->name;
    case AXIS_profile:
        return sb_profile_name(i);
    case AXIS_model:
        return models[i].name;
    case AXIS_tokens:
        return texts[i].name;
    case AXIS_prompt:
        return prompts[i].name;
    case AXIS_drafts:
        return drafts[i];
    case AXIS_drafter:
        return drafters[i];
    case AXIS_rollback:
        return rollbacks[i].name;
    case AXIS_entry:
        return entries[i];
    case AXIS_cache:
        return caches[i];
    case AXIS_record:
        return records[i].name;
    case AXES:
        break;
    }
    return "";
}

/* One run of a correct engine. */
typedef struct clean_run {
    size_t at[AXES]; /* its value on each axis */
    sb_trial trial;
    sb_fused fused;
    sb_finding_of_fault found;
    sb_status status;
    sb_error err;
} clean_run;

static size_t drawn_model(uint64_t key, uint64_t i)
{
    uint32_t weight = 0;
    size_t m = 0;
    for (size_t k = 0; k < axis_count(AXIS_model); k++)
        weight += models[k].weight;
    uint32_t drawn = sb_rng_below(key, i, weight);
    while (drawn >= models[m].weight)
        drawn -= models[m++].weight;
    return m;
}

static void place(const sb_campaign *c, uint64_t i, size_t at[AXES])
{
    at[AXIS_profile] = (size_t)(i % axis_count(AXIS_profile));
    at[AXIS_model] = drawn_model(sb_rng_key(sb_campaign_seed(c), axis_names[AXIS_model]), i);
    at[AXIS_engine] = (size_t)((i + i / axis_count(AXIS_engine)) % axis_count(AXIS_engine));
    for (axis a = AXIS_tokens; a < AXIS_cache; a++)
        at[a] = sb_rng_below(sb_rng_key(sb_campaign_seed(c), axis_names[a]), i,
                             (uint32_t)axis_count(a));
    at[AXIS_cache] =
        sb_rng_below(sb_rng_key(sb_campaign_seed(c), axis_names[AXIS_cache]), i, ONE_CACHE_IN) == 0;
    at[AXIS_record] = sb_rng_below(sb_rng_key(sb_campaign_seed(c), axis_names[AXIS_record]), i,
                                   (uint32_t)axis_count(AXIS_record));
}

/* Rows of a prompt: more than a chunk if the engine has chunks and the prompt is one call. */
static size_t rows_of(const sb_sim *sim, const size_t at[AXES])
{
    const int chunks = sim->settings[0] != NULL && prompts[at[AXIS_prompt]].calls == 1;
    return chunks ? sb_arithmetic_chunk(sb_arithmetic_of(sim->arithmetic)) + 8 : 24;
}

/* Sets up what the engine records, and whether it rounds what it does not. */
static void clean_record(clean_run *run)
{
    sb_trial *t = &run->trial;
    const size_t record = run->at[AXIS_record];
    t->view = records[record].view;
    t->view_seed = t->seed;
    if (!records[record].fused)
        return;
    run->fused =
        (sb_fused){.view = t->view, .seed = t->view_seed, .layers = t->reference->config.layers};
    t->hook = sb_fused_hook;
    t->hook_ctx = &run->fused;
}

/* Sets up run number i. */
static sb_status clean_trial(sb_campaign *c, uint64_t i, clean_run *run, sb_error *err)
{
    sb_trial *t = &run->trial;
    place(c, i, run->at);
    const size_t *at = run->at;
    run->found = (sb_finding_of_fault){.tokens = 0};
    const sb_sim *sim = sb_sim_at(at[AXIS_engine]);
    *t = (sb_trial){.script = {.prompt = rows_of(sim, at),
                               .calls = prompts[at[AXIS_prompt]].calls,
                               .phrase = texts[at[AXIS_tokens]].phrase,
                               .decode = 6,
                               .rounds = 8,
                               .drafts = at[AXIS_drafts],
                               .sequences = 2},
                    .together = 1,
                    .perturbed = SB_PERTURBED,
                    .levels = sb_campaign_levels(c),
                    .sim = sim,
                    .seed = sb_campaign_seed(c) + i};
    snprintf(run->found.name, sizeof run->found.name, "%s, %s, %s", models[at[AXIS_model]].name,
             axis_value(AXIS_profile, at[AXIS_profile]), t->sim->name);
    sb_status status = sb_knobs_profile(&t->knobs, axis_value(AXIS_profile, at[AXIS_profile]), err);
    for (size_t k = 0; t->sim->settings && t->sim->settings[k] && !status; k++)
        status = sb_knobs_set(&t->knobs, t->sim->settings[k], err);
    if (at[AXIS_cache] == 1 && !status)
        status = sb_knobs_set(&t->knobs, "kv_cache=fp8", err);
    t->engine_knobs = t->knobs;
    if (!sb_knobs_have_row_states(&t->knobs) && at[AXIS_rollback] < FIRST_REPLAY)
        run->at[AXIS_rollback] += FIRST_REPLAY; /* there are no row states for snapshots */
    t->rollback = rollbacks[at[AXIS_rollback]].declared;
    t->script.replay = rollbacks[at[AXIS_rollback]].replay;
    if (!status)
        status = sb_campaign_model(c, models[at[AXIS_model]].name, &t->reference, err);
    if (!status && !t->reference->config.mtp_layers)
        run->at[AXIS_drafter] = SB_DRAFTING_external; /* there is no head */
    t->script.drafting = (sb_drafting)at[AXIS_drafter];
    if (t->script.drafting == SB_DRAFTING_external)
        run->at[AXIS_entry] = 0; /* the head has made no entry for a draft */
    if (at[AXIS_entry] == 1)
        t->slip = sb_planted_find(sb_slips, "entry_of_draft");
    if (!status)
        clean_record(run);
    return status;
}

static void see_run(void *ctx, size_t r, size_t worker)
{
    clean_run *run = (clean_run *)ctx + r;
    (void)worker;
    run->status = sb_campaign_see(&run->trial, &run->found, &run->err);
}

static void count(sb_campaign *c, const clean_run *run)
{
    for (axis a = 0; a < AXES; a++)
        sb_campaign_count(c, axis_names[a], axis_value(a, run->at[a]), &run->found);
}

/* Runs `wanted` engines from number i on in parallel, and judges them in order until there are
 * enough tokens. Surplus runs do not count. */
static sb_status clean_runs(sb_campaign *c, uint64_t i, size_t wanted, uint64_t tokens,
                            uint64_t *done, sb_error *err)
{
    clean_run runs[CLEAN_RUNS];
    sb_status status = SB_OK;
    for (size_t r = 0; r < wanted && !status; r++)
        status = clean_trial(c, i + r, &runs[r], err);
    if (status)
        return status;
    sb_parallel_in_order(wanted, 1, see_run, runs);
    for (size_t r = 0; r < wanted && *done < tokens; r++) {
        if (runs[r].status)
            return sb_fail(err, runs[r].status, "%s", runs[r].err.text);
        sb_campaign_judge(c, &runs[r].found);
        count(c, &runs[r]);
        *done += runs[r].found.tokens ? runs[r].found.tokens : 1;
    }
    return SB_OK;
}

/* Makes a row for each kind, even if it never runs. */
static void begin_counts(sb_campaign *c)
{
    for (axis a = 0; a < AXES; a++)
        for (size_t i = 0; i < axis_count(a); i++)
            sb_campaign_count(c, axis_names[a], axis_value(a, i), NULL);
}

sb_status sb_campaign_clean(sb_campaign *c, uint64_t tokens, uint32_t part, sb_error *err)
{
    enum { TOKENS = 120 }; /* of a run, approximately */
    uint64_t done = 0, i = (uint64_t)part << 32;
    sb_status status = SB_OK;
    begin_counts(c);
    while (done < tokens && !status) {
        uint64_t left = (tokens - done) / TOKENS + 1;
        size_t runs = left < CLEAN_RUNS ? (size_t)left : CLEAN_RUNS;
        status = clean_runs(c, i, runs, tokens, &done, err);
        i += runs;
    }
    return status;
}
