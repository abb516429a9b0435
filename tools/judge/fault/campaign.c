#include "tools/judge/fault/campaign.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/container/digest.h"
#include "tools/judge/fault/ask.h"
#include "tools/judge/compare/envelope.h"
#include "tools/judge/fault/campaign_parts.h"
#include "tools/judge/fault/drafter_of.h"
#include "tools/judge/fault/edit.h"
#include "tools/judge/fault/kernels.h"
#include "tools/judge/fault/spoil.h"
#include "tools/make/make.h"
#include "tools/judge/trace/write.h"

enum { VEHICLES = 32, PATH = 600 };

typedef struct vehicle {
    char name[160], path[PATH];
    sb_model *model;
} vehicle;

struct sb_campaign {
    sb_campaign_options options;
    vehicle vehicles[VEHICLES];
    size_t vehicle_count;
    size_t edited; /* edited folders so far, each for one fault */
    sb_score score;
};

const char *sb_fault_result_name(sb_fault_result result)
{
    static const char *const names[] = {"caught",      "SURVIVED", "MISPLACED",
                                        "FALSE ALARM", "passed",   "skipped"};
    return names[result];
}

sb_status sb_campaign_new(const sb_campaign_options *options, sb_campaign **out, sb_error *err)
{
    sb_campaign *c = sb_alloc(1, sizeof *c);
    if (!c)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a campaign");
    c->options = *options;
    *out = c;
    return SB_OK;
}

/* Removes a folder that has no subfolders. */
static void remove_folder(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (struct dirent *d; (d = readdir(dir)) != NULL;) {
        char file[PATH + 300];
        snprintf(file, sizeof file, "%s/%s", path, d->d_name);
        unlink(file); /* fails for . and .. */
    }
    closedir(dir);
    rmdir(path);
}

void sb_campaign_free(sb_campaign *c)
{
    if (!c)
        return;
    sb_kernel_forget();
    for (size_t i = 0; i < c->vehicle_count; i++) {
        sb_model_close(c->vehicles[i].model);
        if (!c->options.keep)
            remove_folder(c->vehicles[i].path);
    }
    free(c);
}

int sb_campaign_levels(const sb_campaign *c)
{
    return c->options.levels;
}

uint64_t sb_campaign_seed(const sb_campaign *c)
{
    return c->options.seed;
}

const sb_score *sb_campaign_score(const sb_campaign *c)
{
    return &c->score;
}

/* --- vehicles --------------------------------------------------------------------------------- */

/* "T1:4 bf16 mistakes kv|EDITS": a preset or a shape of kernels.h with its first 4 layers, a
 * format, a recipe, options, edits */
static sb_status make(const char *name, const char *path, sb_error *err)
{
    char copy[160], *word[4] = {NULL}, *next = NULL;
    size_t n = 0;
    snprintf(copy, sizeof copy, "%s", name);
    char *edits = strchr(copy, '|');
    if (edits)
        *edits++ = '\0';
    for (char *w = strtok_r(copy, " ", &next); w && n < 4; w = strtok_r(NULL, " ", &next))
        word[n++] = w;
    if (n < 3)
        return sb_fail(err, SB_ERR_USAGE, "\"%s\" is not a vehicle", name);
    char *layers = strchr(word[0], ':');
    if (layers)
        *layers++ = '\0';
    const sb_make_preset *shape = sb_kernel_shape(word[0]);
    sb_status status =
        sb_make(&(sb_make_options){.dir = path,
                                   .preset = shape ? "T1" : word[0],
                                   .shape = shape,
                                   .format = word[1],
                                   .recipe = word[2],
                                   .layers = layers ? (unsigned)strtoul(layers, NULL, 10) : 0,
                                   .kv_scales = n > 3,
                                   .seed = 42},
                err);
    return status || !edits ? status : sb_edit_folder(path, edits, err);
}

/* Kept folders have a name, others a number. */
static void path_of(const sb_campaign *c, const char *name, size_t number, char path[PATH])
{
    if (c->options.keep)
        snprintf(path, PATH, "%s/%s", c->options.folder, name);
    else
        snprintf(path, PATH, "%s/%c%zu", c->options.folder, *name, number);
}

static sb_status vehicle_of(sb_campaign *c, const char *name, vehicle **out, sb_error *err)
{
    for (size_t i = 0; i < c->vehicle_count; i++)
        if (strcmp(c->vehicles[i].name, name) == 0) {
            *out = &c->vehicles[i];
            return SB_OK;
        }
    if (c->vehicle_count == VEHICLES)
        return sb_fail(err, SB_ERR_USAGE, "more than %d vehicles", VEHICLES);
    vehicle *v = &c->vehicles[c->vehicle_count];
    snprintf(v->name, sizeof v->name, "%s", name);
    path_of(c, "checkpoint", c->vehicle_count, v->path);
    sb_status status = make(name, v->path, err);
    c->vehicle_count++;
    if (!status)
        status = sb_model_open(v->path, &v->model, err);
    *out = v;
    return status;
}

sb_status sb_campaign_model(sb_campaign *c, const char *name, const sb_model **out, sb_error *err)
{
    vehicle *v = NULL;
    sb_status status = vehicle_of(c, name, &v, err);
    *out = status ? NULL : v->model;
    return status;
}

/* --- one trial -------------------------------------------------------------------------------- */

static sb_script script_of(const char *name)
{
    static const struct {
        const char *name;
        sb_script script;
    } all[] = {{"plain", {.prompt = 9, .decode = 3, .sequences = 1}},
               {"rounds", {.prompt = 12, .decode = 2, .rounds = 9, .drafts = 3, .sequences = 1}},
               {"two", {.prompt = 9, .decode = 1, .rounds = 2, .drafts = 2, .sequences = 2}},
               {"given",
                {.prompt = 12,
                 .decode = 2,
                 .rounds = 9,
                 .drafts = 3,
                 .sequences = 1,
                 .drafting = SB_DRAFTING_external}},
               {"hit",
                {.prompt = 20,
                 .calls = 2,
                 .decode = 1,
                 .rounds = 2,
                 .drafts = 2,
                 .sequences = 2,
                 .hit = 16,
                 .block = 8}},
               {"hit inside",
                {.prompt = 20,
                 .calls = 2,
                 .decode = 1,
                 .rounds = 2,
                 .drafts = 2,
                 .sequences = 2,
                 .replay = 1,
                 .hit = 13,
                 .block = 5}},
               {"replay",
                {.prompt = 12, .decode = 2, .rounds = 9, .drafts = 3, .sequences = 1, .replay = 1}},
               {"one call", {.prompt = 12, .decode = 3, .sequences = 1, .calls = 1}},
               {"five calls", {.prompt = 12, .decode = 3, .sequences = 1, .calls = 5}},
               {"by token", {.prompt = 12, .decode = 3, .sequences = 1, .calls = 12}},
               {"long", {.prompt = 105, .decode = 1, .sequences = 1}},
               {"drafter",
                {.prompt = 12,
                 .decode = 2,
                 .rounds = 9,
                 .drafts = 3,
                 .sequences = 1,
                 .drafting = SB_DRAFTING_forced}},
               {"draws", {.prompt = 40, .decode = 220, .sequences = 2}},
               {"few", {.prompt = 5, .sequences = 1}},
               {"pair", {.prompt = 2, .sequences = 1}},
               {"rows", {.prompt = 27, .sequences = 1}},
               {"parts", {.prompt = 258, .decode = 1, .sequences = 1}}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].script;
    return all[0].script;
}

static sb_status set_all(sb_knobs *knobs, const char *settings, sb_error *err)
{
    char copy[200], *next = NULL;
    sb_status status = SB_OK;
    snprintf(copy, sizeof copy, "%s", settings);
    for (char *s = strtok_r(copy, " ", &next); s && !status; s = strtok_r(NULL, " ", &next))
        status = strchr(s, '=') ? sb_knobs_set(knobs, s, err) : sb_knobs_profile(knobs, s, err);
    return status;
}

static void first_place(const sb_outcome *o, char words[SB_WORDS])
{
    const sb_verdicts *v = o->forced.has_failure ? &o->forced : &o->free;
    if (o->refused && !v->has_failure)
        snprintf(words, SB_WORDS, "%s", o->words);
    else if (v->has_failure)
        snprintf(words, SB_WORDS, "%.300s", v->first_failure.words);
    else
        snprintf(words, SB_WORDS, "%.150s%s%.150s", o->forced.reason,
                 *o->forced.reason && *o->free.reason ? "; " : "", o->free.reason);
}

sb_status sb_campaign_see(const sb_trial *trial, sb_finding_of_fault *found, sb_error *err)
{
    sb_outcome outcome;
    sb_status status = sb_trial_run(trial, &outcome, err);
    if (!status) {
        sb_signs_of(&outcome, &found->signs);
        first_place(&outcome, found->place);
        found->tokens = outcome.tokens;
        found->has_peers = outcome.peers.rows > 0;
        memcpy(found->peers, outcome.peers.caught, sizeof found->peers);
        found->has_levels = trial->levels;
        memcpy(found->level, outcome.level, sizeof found->level);
    }
    sb_outcome_clear(&outcome);
    return status;
}

static sb_status base_trial(sb_campaign *c, const sb_fault *f, sb_trial *t, sb_error *err)
{
    *t = (sb_trial){.script = script_of(f->script),
                    .with_forced = 1,
                    .with_free = 1,
                    .perturbed = c->options.levels ? SB_PERTURBED : 2,
                    .levels = c->options.levels,
                    .seed = c->options.seed};
    sb_knobs_exact(&t->knobs);
    sb_status status = set_all(&t->knobs, f->setting, err);
    t->engine_knobs = t->knobs;
    t->rollback = sb_knobs_have_row_states(&t->knobs) && !t->script.replay
                      ? SB_TRACE_ROLLBACK_snapshots
                      : SB_TRACE_ROLLBACK_replay;
    if (!status)
        status = sb_sim_find("sequential", &t->sim, err);
    return status ? status : sb_campaign_model(c, f->vehicle, &t->reference, err);
}

/* --- faults of ops and sessions --------------------------------------------------------------- */

/* "OP ENGINE" */
static sb_status plant_engine(const sb_fault *f, sb_sited *sited, sb_error *err)
{
    const sb_sim *sim = NULL;
    char op[24], name[24];
    size_t i = 0;
    if (sscanf(f->arg, "%23s %23s", op, name) != 2)
        return sb_fail(err, SB_ERR_USAGE, "%s: no op and engine in \"%s\"", f->name, f->arg);
    while (i < sb_op_count() && strcmp(sb_op_name(i), op) != 0)
        i++;
    if (i == sb_op_count())
        return sb_fail(err, SB_ERR_USAGE, "%s: no op %s", f->name, op);
    sb_status status = sb_sim_find(name, &sim, err);
    sited->op = (sb_op)i;
    sited->table = status ? NULL : &sim->backend.ops;
    return status;
}

/* The planted fault and its place. */
typedef struct sb_planting {
    sb_plant plant;
    sb_sited sited;
    sb_spoiler spoiler;
    sb_made_drafter *drafter;
} sb_planting;

static sb_status plant_drafter(const sb_fault *f, sb_trial *t, sb_planting *at, sb_error *err)
{
    const sb_drafter_fault *row = sb_drafter_fault_find(f->arg);
    if (!row)
        return sb_fail(err, SB_ERR_USAGE, "%s: no drafter %s", f->name, f->arg);
    sb_status status = sb_sim_find(row->engine, &t->sim, err);
    if (!status)
        status = sb_made_drafter_new(t->reference, row->kind, 42, &at->drafter, err);
    t->drafter = status ? NULL : &at->drafter->drafter;
    t->drafter_fault = row;
    return status;
}

static sb_status plant(const sb_fault *f, sb_trial *t, sb_planting *at, sb_error *err)
{
    static const sb_planted *const lists[] = {
        [SB_PLANT_op] = sb_op_faults,     [SB_PLANT_special] = sb_specials,
        [SB_PLANT_mistake] = sb_mistakes, [SB_PLANT_slip] = sb_slips,
        [SB_PLANT_hit] = sb_hits,         [SB_PLANT_trace] = sb_spoils,
        [SB_PLANT_covered] = NULL};
    const sb_planted *row = lists[f->plant] ? sb_planted_find(lists[f->plant], f->arg) : NULL;
    if (lists[f->plant] && !row)
        return sb_fail(err, SB_ERR_USAGE, "%s: no fault %s", f->name, f->arg);
    sb_status status = sb_site_read(f->site ? f->site : "", &at->sited.site, err);
    if (status)
        return status;
    switch (f->plant) {
    case SB_PLANT_op:
    case SB_PLANT_special:
    case SB_PLANT_mistake:
        at->plant =
            (sb_plant){.fault = row, .layer = SB_EVERY_LAYER, .from = f->plant != SB_PLANT_special};
        at->sited.plant = (sb_plant){.fault = row, .layer = SB_EVERY_LAYER};
        t->hook = f->site ? sb_sited_hook : sb_plant_hook;
        t->hook_ctx = f->site ? (void *)&at->sited : (void *)&at->plant;
        break;
    case SB_PLANT_engine:
        t->hook = sb_sited_hook;
        t->hook_ctx = &at->sited;
        return plant_engine(f, &at->sited, err);
    case SB_PLANT_slip:
        t->slip = row;
        t->site = f->site ? &at->sited.site : NULL;
        break;
    case SB_PLANT_hit:
        t->hit = row;
        break;
    case SB_PLANT_feed:
        t->feeds_other = 1;
        t->site = &at->sited.site;
        break;
    case SB_PLANT_knob:
        return set_all(&t->engine_knobs, f->arg, err);
    case SB_PLANT_trace:
        at->spoiler.spoil = row->spoil;
        at->spoiler.site = &at->sited.site;
        t->spoiler = &at->spoiler;
        break;
    case SB_PLANT_kernel:
        return sb_kernel_plant(f, t, err);
    case SB_PLANT_drafter:
        return plant_drafter(f, t, at, err);
    case SB_PLANT_draw:
        t->draw = sb_draw_fault_find(f->arg);
        t->with_forced = 0;
        return t->draw ? SB_OK : sb_fail(err, SB_ERR_USAGE, "%s: no sampler %s", f->name, f->arg);
    case SB_PLANT_self:
        t->sim = NULL;
        t->self = 1;
        break;
    case SB_PLANT_edit:
    case SB_PLANT_file:
    case SB_PLANT_none:
    case SB_PLANT_covered:
        break;
    }
    return SB_OK;
}

/* Records the engine's steps as the trace that a user would have: its head states the reference's
 * checkpoint and knobs. */
static sb_status record(const sb_campaign *c, int kernel, sb_trial *t, sb_trace_writer **out,
                        sb_error *err)
{
    char path[PATH];
    sb_trace_head head = {.engine = "samebit fault",
                          .has_knobs = 1,
                          .knobs = t->knobs,
                          .vocab_size = t->reference->config.vocab_size,
                          .rollback = t->rollback,
                          .drafter =
                              t->drafter ? SB_TRACE_DRAFTER_eagle3 : SB_TRACE_DRAFTER_unknown,
                          .prefix = t->script.hit ? SB_TRACE_PREFIX_full : SB_TRACE_PREFIX_unknown};
    if (t->script.hit && t->script.hit % t->script.block == 0) {
        head.prefix = SB_TRACE_PREFIX_block;
        head.prefix_block = (uint32_t)t->script.block;
    }
    if (!c->options.keep)
        return SB_OK;
    snprintf(head.arithmetic, sizeof head.arithmetic, "%s",
             kernel ? t->sim->arithmetic : "library");
    path_of(c, "trace", 0, path);
    sb_status status = sb_checkpoint_digest(t->reference->checkpoint, &head.checkpoint, err);
    if (!status)
        status = sb_trace_begin(path, &head, out, err);
    t->record = sb_trace_write;
    t->record_ctx = *out;
    return status;
}

static sb_status run_planted(sb_campaign *c, const sb_fault *f, const sb_model *engine,
                             sb_finding_of_fault *found, sb_error *err)
{
    sb_trial t;
    sb_planting at = {.spoiler.seen = 0};
    sb_trace_writer *writer = NULL;
    sb_status status = base_trial(c, f, &t, err);
    if (!status)
        status = plant(f, &t, &at, err);
    t.engine = engine;
    if (!status)
        status = record(c, f->plant == SB_PLANT_kernel, &t, &writer, err);
    if (!status)
        status = sb_campaign_see(&t, found, err);
    if (!status && writer)
        status = sb_trace_commit(writer, err);
    if (!status && t.hook == sb_sited_hook && !at.sited.ran)
        status = sb_fail(err, SB_ERR_USAGE, "%s: its site is never reached", f->name);
    sb_trace_writer_free(writer);
    sb_kernel_unplant();
    sb_plant_clear(&at.plant);
    sb_sited_clear(&at.sited);
    sb_spoiler_clear(&at.spoiler);
    sb_made_drafter_free(at.drafter);
    return status;
}

/* --- faults of files -------------------------------------------------------------------------- */

static void add_check(void *signs, const char *check)
{
    char name[48];
    snprintf(name, sizeof name, "check:%.30s", check);
    sb_sign_add(signs, name);
}

static sb_status run_edited(sb_campaign *c, const sb_fault *f, sb_finding_of_fault *found,
                            sb_error *err)
{
    char path[PATH];
    sb_model *engine = NULL;
    sb_error why = {""};
    path_of(c, "engine", c->edited++, path);
    sb_status status = make(f->vehicle, path, err);
    if (!status)
        status = sb_edit_folder(path, f->arg, err);
    if (!status && f->plant == SB_PLANT_file)
        status = sb_ask_check(path, add_check, &found->signs, err);
    if (!status && strcmp(f->script, "none") != 0) {
        if (sb_model_open(path, &engine, &why)) {
            sb_sign_add(&found->signs, "refused");
            snprintf(found->place, sizeof found->place, "%.300s", why.text);
        } else {
            status = run_planted(c, f, engine, found, err);
        }
    }
    sb_model_close(engine);
    if (!c->options.keep)
        remove_folder(path);
    return status;
}

/* T-70: the first level that fails although the next one does not, or the first other view that
 * fails although the highest level does not; SB_TRACE_VIEWS if there is none. */
static unsigned weakened(const sb_finding_of_fault *found)
{
    for (unsigned view = 0; view < SB_TRACE_VIEWS && found->has_levels; view++) {
        const unsigned more = view + 1 < SB_TRACE_LEVELS ? view + 1 : SB_TRACE_LEVELS - 1;
        if (found->level[view] == SB_VERDICT_FAIL && found->level[more] != SB_VERDICT_FAIL)
            return view;
    }
    return SB_TRACE_VIEWS;
}

/* Adds a finding to the score of its kind. True if it failed at any level. */
static int count_levels(sb_level_score *score, const sb_finding_of_fault *found)
{
    int any = 0;
    score->planted += (size_t)found->has_levels;
    for (unsigned level = 0; level < SB_TRACE_VIEWS && found->has_levels; level++) {
        int failed = found->level[level] == SB_VERDICT_FAIL;
        score->failed[level] += (size_t)failed;
        any |= failed;
    }
    return any;
}

/* --- the judgement ---------------------------------------------------------------------------- */

void sb_campaign_judge(sb_campaign *c, sb_finding_of_fault *found)
{
    const sb_fault *f = found->fault;
    sb_score *s = &c->score;
    int clean = !f || f->benign;
    if (clean) {
        int alarm = count_levels(&s->correct, found) || sb_sign_has(&found->signs, "fail") ||
                    sb_sign_has(&found->signs, "bias") || sb_sign_has(&found->signs, "refused");
        found->result = alarm ? SB_FAULT_ALARM : SB_FAULT_PASSED;
        s->benign++;
        s->false_alarms += (size_t)alarm;
        s->mistrusted += !alarm && sb_sign_has(&found->signs, "mistrusted");
        s->clean_tokens += found->tokens;
    } else {
        const char *loud = sb_signs_loud(&found->signs, f->quiet, f->fires);
        unsigned weak = weakened(found);
        int caught = sb_signs_all(&found->signs, f->fires) && weak == SB_TRACE_VIEWS;
        if (weak + 1 < SB_TRACE_LEVELS)
            snprintf(found->place, sizeof found->place, "fails at level %u, but not at %u", weak,
                     weak + 1);
        else if (weak < SB_TRACE_VIEWS)
            snprintf(found->place, sizeof found->place, "fails by %s, but not at level %d",
                     sb_view_name(weak), SB_TRACE_LEVELS - 1);
        found->result = !caught ? SB_FAULT_SURVIVED : loud ? SB_FAULT_MISPLACED : SB_FAULT_CAUGHT;
        s->planted++;
        s->caught += (size_t)caught;
        s->survived += (size_t)!caught;
        s->misplaced += caught && loud;
        count_levels(&s->levels[f->plant], found);
    }
    for (int p = 0; p < SB_PEERS && found->has_peers; p++)
        *(clean ? &s->peers_alarms[p] : &s->peers_caught[p]) += (size_t)found->peers[p];
    *(clean ? &s->peers_clean : &s->peers_faults) += (size_t)found->has_peers;
    if (c->options.found)
        c->options.found(c->options.found_ctx, found);
}

void sb_campaign_count(sb_campaign *c, const char *axis, const char *name,
                       const sb_finding_of_fault *found)
{
    sb_score *s = &c->score;
    size_t i = 0;
    while (i < s->kind_count &&
           (strcmp(s->kinds[i].axis, axis) != 0 || strcmp(s->kinds[i].name, name) != 0))
        i++;
    if (i == SB_CLEAN_KINDS)
        return;
    sb_clean_kind *k = &s->kinds[i];
    if (i == s->kind_count) {
        *k = (sb_clean_kind){.axis = axis, .name = name};
        s->kind_count++;
    }
    if (!found)
        return;
    k->runs++;
    k->tokens += found->tokens;
    k->false_alarms += found->result == SB_FAULT_ALARM;
    k->mistrusted += found->result != SB_FAULT_ALARM && sb_sign_has(&found->signs, "mistrusted");
}

sb_status sb_campaign_fault(sb_campaign *c, const sb_fault *f, sb_error *err)
{
    sb_finding_of_fault found = {.fault = f};
    sb_status status;
    const char *why_not = sb_fault_why_not(f);
    if (why_not) {
        found.result = SB_FAULT_SKIPPED;
        snprintf(found.place, sizeof found.place, "%s", why_not);
        c->score.skipped++;
        if (c->options.found)
            c->options.found(c->options.found_ctx, &found);
        return SB_OK;
    }
    if (f->plant == SB_PLANT_edit || f->plant == SB_PLANT_file)
        status = run_edited(c, f, &found, err);
    else
        status = run_planted(c, f, NULL, &found, err);
    if (!status)
        sb_campaign_judge(c, &found);
    return status;
}
