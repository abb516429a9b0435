#include "tools/judge/fault/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/ops/knob.h"
#include "tools/judge/fault/trial_hit.h"
#include "tools/judge/trace/capture.h"
#include "tools/judge/trace/cut.h"

typedef struct run {
    const sb_trial *trial;
    sb_outcome *out;
    sb_capture *capture;
    sb_differ *forced, *free; /* separate, to know which of them found the fault */
    sb_differ *level[SB_TRACE_VIEWS];
    sb_verdicts level_found[SB_TRACE_VIEWS];
    size_t sequence;
    uint64_t round;     /* SB_NOWHERE: none has begun */
    int prompting;      /* the current call is of the prompt, even if it is one token */
    sb_session *mirror; /* the reference, fed the engine's tokens, for the peers */
    uint32_t mirrored;  /* its current sequence */
    uint64_t mirrored_to;
    float *logits;             /* (V) */
    sb_kept_steps kept;        /* of the first sequence, if another one continues it */
    int continues;             /* the next step is the first of the sequence that continues it */
    sb_step_sampling declared; /* of the sampler, if the trial has one */
    sb_plain_drawer *drawer;   /* of the current sequence */
    int declares;              /* the next step is the first of its sequence */
    sb_slip_game game;         /* the engine's session, and its data for slips */
    sb_drafter_game drafter;   /* of the current sequence, if the trial has one */
} run;

/* --- observing the engine --------------------------------------------------------------------- */

/* Copies taps that slips read. */
static sb_status watch(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                       sb_error *err)
{
    run *r = ctx;
    unsigned layer;
    char rest[64];
    if (r->trial->slip && sscanf(name, "layers.%u.%63s", &layer, rest) == 2 &&
        layer < SB_SLIP_LAYERS && strcmp(rest, "linear_attn.g") == 0) {
        float *kept = sb_realloc(r->game.g[layer], rows * cols, sizeof *kept);
        if (!kept)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for a tap");
        memcpy(kept, data, rows * cols * sizeof *kept);
        r->game.g[layer] = kept;
    }
    if (r->trial->drafter)
        sb_drafter_tap(&r->drafter, name, data, rows, cols);
    return r->trial->tap ? r->trial->tap(r->trial->tap_ctx, name, data, rows, cols, err) : SB_OK;
}

enum { MIRRORED = 1024 }; /* rows of a step at most */

/* Feeds the rows of a step to the reference, and compares its logits with the engine's. */
static sb_status mirror(run *r, const sb_step *step, sb_error *err)
{
    const sb_step_value *logits = step->again ? NULL : sb_step_find(&step->taps, "logits");
    uint32_t tokens[MIRRORED];
    size_t n = 0;
    if (!step->row_count || step->rows[0].kind == SB_CALL_draft || step->row_count > MIRRORED)
        return SB_OK;
    for (; n < step->row_count; n++)
        tokens[n] = step->rows[n].token;
    if (step->rows[0].sequence != r->mirrored || step->rows[0].position == 0)
        sb_session_reset(r->mirror);
    r->mirrored = step->rows[0].sequence;
    int verify = step->rows[0].kind == SB_CALL_verify;
    sb_status status = verify ? sb_session_verify(r->mirror, tokens, n, SB_ROLLBACK_replay, err)
                              : sb_session_feed(r->mirror, tokens, n, err);
    for (size_t row = 0; row < n && !status && logits && logits->data; row++) {
        long long at = sb_step_logits_row(step, logits, row);
        if (at < 0 || logits->cols != r->trial->reference->config.vocab_size)
            continue;
        status = sb_session_logits(r->mirror, row, r->logits, err);
        if (!status)
            sb_peers_row(&r->out->peers, r->logits, logits->data + (size_t)at * logits->cols,
                         logits->cols, !SB_IS(&r->trial->knobs, act, f32));
    }
    if (!status && verify)
        status = sb_session_keep(r->mirror,
                                 step->round_count ? step->rounds[0].round.accepted + 1 : n, err);
    return status;
}

/* Ends a level with its verdict. */
static void end_level(run *r, unsigned level, sb_verdict verdict)
{
    r->out->level[level] = verdict;
    sb_differ_free(r->level[level]);
    sb_verdicts_free(&r->level_found[level]);
    r->level[level] = NULL;
}

/* Compares the step as a trace of each level has it. A refused step counts as FAIL. */
static sb_status take_levels(run *r, const sb_step *step, sb_error *err)
{
    for (unsigned level = 0; level < SB_TRACE_VIEWS; level++) {
        sb_step view;
        sb_error why = {""};
        if (!r->level[level])
            continue;
        sb_status status = sb_step_cut(step, level, 0, &view, err);
        if (status)
            return status;
        status = sb_differ_step(r->level[level], &view, &why);
        sb_step_cut_free(&view);
        if (status == SB_ERR_MEMORY)
            return sb_fail(err, status, "%s", why.text);
        if (status)
            end_level(r, level, SB_VERDICT_FAIL);
    }
    return SB_OK;
}

/* The step as the trial's view shows it. */
static sb_status compare_view(run *r, const sb_step *step, sb_error *err)
{
    const sb_trial *t = r->trial;
    sb_step view;
    if (!t->view)
        return sb_differ_step(r->free, step, err);
    sb_status status = sb_step_cut(step, t->view, t->view_seed, &view, err);
    if (!status)
        status = sb_differ_step(r->free, &view, err);
    sb_step_cut_free(&view);
    return status;
}

/* Compares a step, or one that is fed again. */
static sb_status compare_step(void *ctx, const sb_step *step, sb_error *err)
{
    run *r = ctx;
    sb_status status = take_levels(r, step, err);
    if (!status && r->forced)
        status = sb_differ_step(r->forced, step, err);
    if (!status && r->free)
        status = compare_view(r, step, err);
    return status ? status : mirror(r, step, err);
}

/* U-11: names the parent of the sequence in its first step. The steps of its prefix come before. */
static sb_status name_parent(run *r, sb_step *step, sb_error *err)
{
    sb_step_prefix *prefix = sb_step_add_prefix(step);
    if (!prefix)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a step");
    *prefix = (sb_step_prefix){.sequence = (uint32_t)r->sequence, .position = r->trial->script.hit};
    r->continues = 0;
    return sb_kept_again(&r->kept, prefix, compare_step, r, err);
}

/* U-12: declares the sampler in the first step of a sequence. */
static sb_status declare(run *r, sb_step *step, sb_error *err)
{
    sb_step_sampling *sampling = sb_step_add_sampling(step);
    if (!sampling)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a step");
    *sampling = r->declared;
    sampling->sequence = (uint32_t)r->sequence;
    sampling->seed += r->sequence;
    r->declares = 0;
    return SB_OK;
}

static sb_status take_step(void *ctx, const sb_step *step, sb_error *err)
{
    run *r = ctx;
    sb_spoiler *spoiler = r->trial->spoiler;
    sb_status status = SB_OK;
    /* the capture owns the step and drops it after this call */
    sb_step *own = (sb_step *)(uintptr_t)step;
    for (size_t row = 0; row < own->row_count && r->prompting; row++)
        own->rows[row].kind = SB_CALL_prompt;
    if (spoiler)
        status = spoiler->spoil(spoiler, own);
    if (spoiler && spoiler->drop)
        return status;
    if (!status && r->declares)
        status = declare(r, own, err);
    if (!status && r->continues)
        status = name_parent(r, own, err);
    if (!status && r->trial->script.hit && r->sequence == 0)
        status = sb_kept_add(&r->kept, step, err);
    if (!status && r->trial->record)
        status = r->trial->record(r->trial->record_ctx, step, err);
    if (!status)
        status = compare_step(r, step, err);
    r->out->tokens += step->row_count;
    return status;
}

/* --- the script ------------------------------------------------------------------------------- */

/* Applies the slip at its site. */
static void at(run *r, sb_slip_stage stage)
{
    const sb_site *site = r->trial->site;
    sb_state *before = NULL;
    if (!r->trial->slip || r->sequence != 0 ||
        (site && site->round != SB_NOWHERE && site->round != r->round))
        return;
    if (site && r->game.session && sb_state_copy(r->game.live, &before, NULL))
        abort();
    r->trial->slip->at(&r->game, stage);
    if (before)
        sb_site_restore(site, before, r->game.live);
    sb_state_free(before);
}

static sb_status all_logits(run *r, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t row = 0; row < sb_session_rows(r->game.session) && !status; row++)
        status = sb_session_logits(r->game.session, row, r->game.head, err);
    return status;
}

/* S-15: the drafter makes the entries of n of the call's rows. */
static sb_status follow(run *r, const uint32_t *ids, size_t rows, size_t n, int is_round,
                        sb_error *err)
{
    if (!r->trial->drafter)
        return SB_OK;
    r->drafter.rows = is_round ? rows : 0;
    r->drafter.accepted = r->game.accepted;
    return sb_drafter_follow(&r->drafter, r->game.session, ids, rows, n, err);
}

static sb_status feed(run *r, const uint32_t *ids, size_t n, sb_error *err)
{
    sb_status status = sb_session_feed(r->game.session, ids, n, err);
    if (!status)
        status = all_logits(r, err);
    if (!status)
        status = follow(r, ids, n, n, 0, err);
    return status ? status : sb_capture_end(r->capture, NULL, err);
}

/* The first token of call number i of the prompt. */
static size_t call_at(const sb_script *s, size_t i)
{
    size_t n = s->prompt;
    if (s->calls)
        return n * i / s->calls;
    return i == 0 ? 0 : i == 1 ? n - n / 3 : n;
}

/* The token after the row whose logits were read last. */
static sb_status next_token(run *r, uint32_t *token, sb_error *err)
{
    float u;
    if (!r->drawer) {
        *token = sb_greedy(r->game.head, r->trial->reference->config.vocab_size);
        return SB_OK;
    }
    *token = sb_plain_drawer_draw(r->drawer, r->game.head, &u);
    return sb_plain_drawer_feed(r->drawer, *token, 0, err);
}

static sb_status prompt_ids(const sb_trial *t, size_t sequence, uint32_t **out, sb_error *err)
{
    const sb_script *s = &t->script;
    uint64_t key = sb_rng_key(t->seed + sequence, s->name ? s->name : "trial");
    *out = sb_alloc(s->prompt, sizeof **out);
    for (size_t i = 0; i < s->prompt && *out; i++)
        (*out)[i] =
            sb_rng_below(key, s->phrase ? i % s->phrase : i, t->reference->config.vocab_size);
    return *out ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for tokens");
}

static sb_status prompt(run *r, size_t sequence, sb_error *err)
{
    const sb_script *s = &r->trial->script;
    size_t calls = s->calls ? s->calls : 2;
    uint32_t *ids = NULL;
    sb_status status = prompt_ids(r->trial, sequence, &ids, err);
    r->prompting = 1;
    for (size_t i = 0; i < s->prompt && r->drawer && !status; i++)
        status = sb_plain_drawer_feed(r->drawer, ids[i], 1, err);
    for (size_t i = 0; i < calls && !status; i++) {
        size_t first = call_at(s, i), end = call_at(s, i + 1);
        if (first == end)
            continue;
        if (i)
            at(r, SB_SLIP_prompt);
        status = feed(r, ids + first, end - first, err);
    }
    r->prompting = 0;
    if (!status)
        at(r, SB_SLIP_primed);
    for (size_t i = 0; i < s->decode && !status; i++) {
        uint32_t token = 0;
        status = next_token(r, &token, err);
        if (!status)
            status = feed(r, &token, 1, err);
    }
    free(ids);
    return status;
}

/* A random number below `below` for this round. */
static uint32_t drawn(const run *r, const char *what, size_t i, uint32_t below)
{
    uint64_t key = sb_rng_key(r->trial->seed + r->sequence, what);
    return sb_rng_below(key, (uint64_t)r->round * (SB_MAX_DRAFTS + 1) + i, below);
}

static sb_status draft(run *r, uint32_t *tokens, sb_error *err)
{
    sb_slip_game *g = &r->game;
    sb_status status = SB_OK;
    for (size_t i = 0; i < g->drafts && r->trial->script.drafting == SB_DRAFTING_external; i++)
        tokens[i + 1] = drawn(r, "drafts", i, r->trial->reference->config.vocab_size);
    if (r->trial->script.drafting == SB_DRAFTING_external)
        return SB_OK;
    for (size_t i = 0; i < g->drafts && r->trial->drafter && !status; i++)
        status = sb_drafter_draft(&r->drafter, i, tokens[i], &tokens[i + 1], err);
    if (r->trial->drafter)
        return status;
    for (g->draft = 0; g->draft < g->drafts && !status; g->draft++) {
        at(r, SB_SLIP_draft);
        g->drafting = 1;
        status = sb_session_draft(g->session, tokens[g->draft], g->head, err);
        g->drafting = 0;
        if (status)
            break;
        tokens[g->draft + 1] = sb_greedy(g->head, r->trial->reference->config.vocab_size);
        at(r, SB_SLIP_drafted);
    }
    return status;
}

/* Stores the state after each row, for slips that use a wrong one. */
static sb_status take_slots(run *r, size_t rows, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t n = 0; n <= rows && !status; n++) {
        sb_state_free(r->game.slot[n]);
        r->game.slot[n] = NULL;
        status = sb_session_state_at(r->game.session, n, &r->game.slot[n], err);
    }
    return status;
}

/* U-10: true if the number of accepted drafts is forced in this round. */
static int is_forced(const run *r)
{
    sb_drafting drafting = r->trial->script.drafting;
    return drafting == SB_DRAFTING_forced ||
           (drafting == SB_DRAFTING_external && r->round % 2 == 1);
}

static size_t accepted(const run *r, const uint32_t *tokens, const uint32_t *chosen)
{
    size_t n = 0;
    if (is_forced(r))
        return drawn(r, "accepted", 0, (uint32_t)r->game.drafts + 1);
    while (n < r->game.drafts && tokens[n + 1] == chosen[n])
        n++;
    return n;
}

static sb_status one_round(run *r, size_t number, uint32_t *token, sb_error *err)
{
    sb_slip_game *g = &r->game;
    size_t V = r->trial->reference->config.vocab_size, rows;
    int snapshots = !r->trial->script.replay && sb_knobs_have_row_states(&g->knobs);
    uint32_t tokens[SB_MAX_DRAFTS + 1] = {*token}, chosen[SB_MAX_DRAFTS + 1];
    sb_round round = {.position = sb_session_state(g->session)->position};
    r->round = number;
    g->before = number ? g->accepted : 0;
    /* every third round has no drafts; the next round reads the state that it leaves */
    g->drafts = number % 3 == 2 ? 0 : r->trial->script.drafts;
    at(r, SB_SLIP_begin);
    sb_capture_round(r->capture, number);
    sb_status status = draft(r, tokens, err);
    rows = g->drafts + 1;
    if (!status)
        status = sb_session_verify(g->session, tokens, rows,
                                   snapshots ? SB_ROLLBACK_snapshots : SB_ROLLBACK_replay, err);
    for (size_t row = 0; row < rows && !status; row++) {
        status = sb_session_logits(g->session, row, g->head, err);
        chosen[row] = status ? 0 : sb_greedy(g->head, V);
    }
    if (!status && snapshots && r->trial->slip)
        status = take_slots(r, rows, err);
    if (status)
        return status;
    g->accepted = accepted(r, tokens, chosen);
    status = sb_session_keep(g->session, g->accepted + 1, err);
    round.forced = is_forced(r);
    round.drafted = g->drafts;
    round.accepted = g->accepted;
    round.emitted = g->accepted + 1;
    memcpy(round.drafts, tokens + 1, g->drafts * sizeof *tokens);
    memcpy(round.tokens, tokens + 1, g->accepted * sizeof *tokens);
    memcpy(round.chosen, chosen, rows * sizeof *chosen);
    *token = round.tokens[g->accepted] = chosen[g->accepted];
    if (!status)
        at(r, SB_SLIP_kept);
    if (!status)
        status = follow(r, tokens, rows, g->accepted + 1, 1, err);
    if (r->trial->feeds_other && r->trial->site->round == number)
        *token = (*token + 1) % (uint32_t)V;
    return status ? status : sb_capture_end(r->capture, &round, err);
}

/* Begins with the state of a hit: the options are those of the engine, without its capture. */
static sb_status begin_hit(run *r, const sb_session_options *options, sb_error *err)
{
    const sb_script *s = &r->trial->script;
    const size_t calls = s->calls ? s->calls : 2;
    uint32_t *prompts[2] = {NULL, NULL};
    size_t *ends = sb_alloc(calls + 1, sizeof *ends);
    for (size_t i = 0; i <= calls && ends; i++)
        ends[i] = call_at(s, i);
    sb_status status = ends ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for a trial");
    if (!status)
        status = prompt_ids(r->trial, 0, &prompts[0], err);
    if (!status)
        status = prompt_ids(r->trial, 1, &prompts[1], err);
    if (!status)
        status =
            sb_trial_begin_hit(r->trial, options, (const uint32_t *const[]){prompts[0], prompts[1]},
                               ends, r->game.session, err);
    free(ends);
    free(prompts[0]);
    free(prompts[1]);
    r->game.live = (sb_state *)(uintptr_t)sb_session_state(r->game.session);
    r->continues = 1;
    return status;
}

static sb_status begin_draws(run *r, sb_error *err)
{
    const sb_trial *t = r->trial;
    sb_drawing how;
    sb_plain_drawer_free(r->drawer);
    r->drawer = NULL;
    if (!t->draw)
        return SB_OK;
    sb_draw_fault_set(t->draw, &r->declared, &how);
    r->declares = 1;
    return sb_plain_drawer_new(&how, t->reference->config.vocab_size, (uint32_t)r->sequence,
                               t->seed, &r->drawer, err);
}

/* The engine's drafter, whose hook and states go into the options. */
static sb_status prepare_drafter(run *r, sb_error *err)
{
    const sb_trial *t = r->trial;
    if (!t->drafter)
        return SB_OK;
    r->drafter =
        (sb_drafter_game){.fault = t->drafter_fault, .target = t->reference, .sound = t->drafter};
    sb_status status = sb_drafter_prepare(&r->drafter, err);
    r->game.options.states = sb_eagle3_states(&r->drafter.engine);
    if (t->drafter_fault) {
        r->game.options.hook = sb_drafter_hook;
        r->game.options.hook_ctx = &r->drafter;
    }
    return status;
}

static sb_status one_sequence(run *r, size_t sequence, sb_error *err)
{
    const sb_trial *t = r->trial;
    sb_slip_game *g = &r->game;
    r->sequence = sequence;
    r->round = SB_NOWHERE;
    g->options = (sb_session_options){.backend = t->sim ? &t->sim->backend : NULL,
                                      .knobs = &g->knobs,
                                      .tap = watch,
                                      .tap_ctx = r,
                                      .hook = t->hook,
                                      .hook_ctx = t->hook_ctx,
                                      .mtp = sb_model_has_mtp(g->model) && !t->drafter};
    g->knobs = t->engine_knobs;
    at(r, SB_SLIP_open);
    sb_status status = prepare_drafter(r, err);
    const sb_session_options plain = {.backend = g->options.backend,
                                      .knobs = g->options.knobs,
                                      .hook = g->options.hook,
                                      .hook_ctx = g->options.hook_ctx,
                                      .mtp = g->options.mtp};
    sb_capture_join(r->capture, &g->options);
    if (!status)
        status = begin_draws(r, err);
    if (!status)
        status = sb_session_new(g->model, &g->options, &g->session, err);
    if (!status && t->drafter)
        status = sb_drafter_begin(&r->drafter, g->session, err);
    if (!status) {
        g->live = (sb_state *)(uintptr_t)sb_session_state(g->session);
        at(r, SB_SLIP_start);
        sb_capture_follow(r->capture, g->session, (uint32_t)sequence, (uint32_t)sequence);
    }
    if (!status && t->script.hit && sequence == t->script.sequences)
        status = begin_hit(r, &plain, err);
    if (!status) {
        status = prompt(r, sequence, err);
    }
    uint32_t token = status ? 0 : sb_greedy(g->head, t->reference->config.vocab_size);
    for (size_t i = 0; i < t->script.rounds && !status; i++)
        status = one_round(r, i, &token, err);
    if (!status)
        status = sb_capture_finish(r->capture, err);
    sb_capture_drop(r->capture);
    sb_drafter_end(&r->drafter);
    sb_session_free(g->session);
    g->session = NULL;
    return status;
}

/* --- the whole -------------------------------------------------------------------------------- */

static sb_status compare(run *r, int forced, int free, sb_verdicts *verdicts, sb_differ **out,
                         sb_error *err)
{
    const sb_trial *t = r->trial;
    const sb_arithmetic *arithmetic = t->sim    ? sb_arithmetic_of(t->sim->arithmetic)
                                      : t->self ? &sb_arithmetic_library
                                                : &sb_arithmetic_reference;
    sb_differ_options o;
    sb_differ_defaults(&o, &t->knobs, arithmetic, verdicts);
    o.with_forced = forced;
    o.with_free = free;
    o.forced.rollback = o.free.rollback = t->rollback;
    o.forced.external = o.free.external =
        t->script.drafting == SB_DRAFTING_external || t->drafter != NULL;
    o.forced.drafter = o.free.drafter = t->drafter;
    o.forced.mtp = o.free.mtp = t->drafter == NULL;
    o.free.greedy = 1;
    o.free.seed = t->seed;
    if (t->perturbed)
        o.free.perturbed = t->perturbed;
    return sb_differ_new(t->reference, &o, out, err);
}

static sb_status start(run *r, sb_error *err)
{
    const sb_trial *t = r->trial;
    size_t V = t->reference->config.vocab_size;
    sb_status status = SB_OK;
    r->game.model = t->engine ? t->engine : t->reference;
    r->logits = sb_alloc(V, sizeof *r->logits);
    r->game.head = sb_alloc(V, sizeof *r->logits);
    if (!r->logits || !r->game.head)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for logits");
    if (t->together)
        status = compare(r, !t->view || sb_view_has_ops(t->view), 1, &r->out->free, &r->free, err);
    if (t->with_forced && !t->together)
        status = compare(r, 1, 0, &r->out->forced, &r->forced, err);
    if (!status && t->with_free && !t->together)
        status = compare(r, 0, 1, &r->out->free, &r->free, err);
    for (unsigned i = 0; i < SB_TRACE_VIEWS && t->levels && !status; i++)
        status = compare(r, sb_view_has_ops(i), 1, &r->level_found[i], &r->level[i], err);
    if (!status)
        status = sb_capture_new(
            &(sb_capture_options){
                .taps = "all", .states = SB_CAPTURE_ALL_STATES, .take = take_step, .take_ctx = r},
            &r->capture, err);
    if (!status)
        status = sb_session_new(t->reference, &(sb_session_options){.knobs = &t->knobs}, &r->mirror,
                                err);
    return status;
}

/* Makes the verdicts of levels after the last step, or after the engine stopped. */
static sb_status finish_levels(run *r, sb_status ran, sb_error *err)
{
    for (unsigned level = 0; level < SB_TRACE_VIEWS; level++) {
        sb_error why = {""};
        if (!r->level[level])
            continue;
        sb_status status = ran ? ran : sb_differ_finish(r->level[level], &why);
        if (status == SB_ERR_MEMORY)
            return sb_fail(err, status, "out of memory for a comparison");
        end_level(r, level, status ? SB_VERDICT_FAIL : r->level_found[level].verdict);
    }
    return SB_OK;
}

static void end(run *r)
{
    for (unsigned level = 0; level < SB_TRACE_VIEWS; level++)
        if (r->level[level])
            end_level(r, level, SB_VERDICT_none);
    sb_plain_drawer_free(r->drawer);
    sb_capture_free(r->capture);
    sb_differ_free(r->forced);
    sb_differ_free(r->free);
    sb_session_free(r->mirror);
    for (size_t n = 0; n < SB_MAX_DRAFTS + 2; n++)
        sb_state_free(r->game.slot[n]);
    for (size_t i = 0; i < SB_SLIP_LAYERS; i++)
        free(r->game.g[i]);
    sb_kept_free(&r->kept);
    free(r->game.head);
    free(r->game.stored);
    free(r->game.recycled);
    free(r->logits);
}

sb_status sb_trial_run(const sb_trial *trial, sb_outcome *out, sb_error *err)
{
    run r = {.trial = trial, .out = out};
    sb_error why = {""};
    *out = (sb_outcome){.refused = 0};
    sb_status status = start(&r, err);
    if (!status) {
        sb_status ran = SB_OK;
        const size_t sequences = trial->script.sequences + (trial->script.hit > 0);
        for (size_t i = 0; i < sequences && !ran; i++)
            ran = one_sequence(&r, i, &why);
        if (ran && r.forced)
            sb_differ_stop(r.forced);
        if (!ran && r.forced)
            ran = sb_differ_finish(r.forced, &why);
        if (!ran && r.free)
            ran = sb_differ_finish(r.free, &why);
        if (ran != SB_ERR_MEMORY)
            status = finish_levels(&r, ran, err);
        if (ran == SB_ERR_MEMORY) {
            status = sb_fail(err, ran, "%s", why.text);
        } else if (ran) {
            out->refused = 1;
            snprintf(out->words, sizeof out->words, "%.300s", why.text);
        }
        sb_peers_end(&out->peers);
    }
    end(&r);
    return status;
}

void sb_outcome_clear(sb_outcome *outcome)
{
    sb_verdicts_free(&outcome->forced);
    sb_verdicts_free(&outcome->free);
}
