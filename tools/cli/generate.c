#include "tools/cli/generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/cli/cli.h"
#include "tools/cli/continued.h"
#include "tools/cli/npy.h"
#include "tools/cli/stepped.h"
#include "tools/cli/traced.h"

/* The run of one sequence. */
typedef struct course {
    const sb_request *request;
    const sb_sequence *prompt;
    size_t sequence, n, V;
    sb_state_file *from;    /* of --state-in, or NULL */
    sb_state_origin origin; /* of --state-in and --state-out */
    uint64_t before;        /* positions fed before this run */
    sb_session *session;
    sb_rounds *rounds;
    sb_npy *npy;         /* NULL: --logits was not given */
    sb_capture *capture; /* NULL: --trace was not given */
    const sb_stepped *stepped;
    const sb_eagle3 *drafter;           /* of --drafter DIR, or NULL */
    const sb_eagle3_identity *identity; /* its, for state files */
    float *logits;                      /* (V) */
    uint32_t *text; /* (text_count) for an n-gram: fed and emitted tokens; else NULL */
    size_t text_count;
    sb_generated out;
} course;

/* Feeds the prompt and saves its logits; c->logits gets the last row's. */
static sb_status feed_prompt(course *c, sb_error *err)
{
    size_t rows = c->prompt->count;
    sb_status status = sb_session_feed(c->session, c->prompt->ids, rows, err);
    for (size_t row = c->npy ? 0 : rows - 1; row < rows && !status; row++) {
        status = sb_session_logits(c->session, row, c->logits, err);
        if (!status && c->npy)
            status = sb_npy_append(c->npy, c->logits, c->V, err);
    }
    if (!status)
        status = sb_rounds_fed(c->rounds, c->prompt->ids, rows, err);
    return status || !c->capture ? status : sb_capture_end(c->capture, NULL, err);
}

static void emit(course *c, uint32_t token, const float *logits)
{
    sb_generated *out = &c->out;
    out->tokens[out->count] = token;
    /* D-2: "the digest of its V logits in binary32" */
    out->logits[out->count++] = sb_digest_f32(logits, c->V);
    if (c->text)
        c->text[c->text_count++] = token;
    sb_progress(NULL, "token", out->count, c->n);
}

static sb_round *new_round(sb_generated *out, sb_error *err)
{
    sb_round *more = sb_grow(out->rounds, out->round_count, &out->round_room, sizeof *more);
    if (!more) {
        (void)sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu rounds", out->round_count + 1);
        return NULL;
    }
    out->rounds = more;
    return &out->rounds[out->round_count];
}

/* The text before the first emitted token, for a drafter that looks in it. */
static sb_status begin_text(course *c, sb_error *err)
{
    size_t before = (size_t)c->before, prompt = c->prompt->count;
    if (c->request->drafter.kind != SB_DRAFTER_ngram)
        return SB_OK;
    c->text = sb_alloc(before + prompt + c->n, sizeof *c->text);
    if (!c->text)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the text");
    if (before)
        memcpy(c->text, c->from->tokens, before * sizeof *c->text);
    memcpy(c->text + before, c->prompt->ids, prompt * sizeof *c->text);
    c->text_count = before + prompt;
    return SB_OK;
}

/* The drafts of the round, unless the head or an EAGLE-3 drafter makes them. */
static sb_status propose(const course *c, sb_round_ask *ask, uint32_t room[SB_MAX_DRAFTS],
                         sb_error *err)
{
    const sb_draft_place place = {.sequence = c->sequence,
                                  .round = c->out.round_count,
                                  .position = sb_session_position(c->session),
                                  .text = c->text,
                                  .count = c->text_count,
                                  .needs_odds = sb_request_is_residual(c->request)};
    return sb_drafter_propose(&c->request->drafter, &place, room, ask, err);
}

/* One round, cut at the end of -n. Its kept rows are the positions of --logits. */
static sb_status next_round(course *c, sb_error *err)
{
    sb_generated *out = &c->out;
    sb_round *round = new_round(out, err);
    if (!round)
        return SB_ERR_MEMORY;
    sb_round_ask ask = {.token = out->tokens[out->count - 1],
                        .drafts = (size_t)sb_pattern_at(&c->request->drafts, out->round_count, 0),
                        .forced = sb_pattern_at(&c->request->forced, out->round_count, -1),
                        .limit = c->n - out->count};
    uint32_t drafts[SB_MAX_DRAFTS];
    sb_status status = propose(c, &ask, drafts, err);
    if (status)
        return status;
    if (c->capture)
        sb_capture_round(c->capture, out->round_count);
    status = sb_rounds_next(c->rounds, &ask, round, err);
    if (!status && c->capture)
        status = sb_capture_end(c->capture, round, err);
    for (size_t i = 0; c->npy && i < round->emitted && !status; i++)
        status =
            sb_npy_append(c->npy, sb_rounds_logits(c->rounds, sb_round_row(round, i)), c->V, err);
    if (status)
        return status;
    for (size_t i = 0; i < round->emitted; i++)
        emit(c, round->tokens[i], sb_rounds_logits(c->rounds, sb_round_row(round, i)));
    out->round_count++;
    return SB_OK;
}

/* Position, entries and digests of the state. */
static sb_status describe_state(course *c, sb_error *err)
{
    sb_generated *out = &c->out;
    sb_status status = sb_session_fetch_state(c->session, err);
    if (status)
        return status;
    const sb_state *state = sb_session_state(c->session);
    out->fed = state->position;
    out->entries = state->mtp_entries;
    out->has_mtp = state->has_mtp;
    status = sb_state_digest(state, &out->target, err);
    if (!status && out->has_mtp)
        status = sb_state_mtp_digest(state, &out->mtp, err);
    sb_drafter_state entries;
    if (status || !c->drafter || !sb_eagle3_entries(sb_rounds_drafter(c->rounds), &entries))
        return status;
    out->has_drafter = 1;
    out->drafter_entries = entries.entries;
    return sb_drafter_state_digest(&entries, &out->drafter, err);
}

static sb_status go(course *c, sb_error *err)
{
    uint32_t token = 0;
    sb_status status = begin_text(c, err);
    if (!status)
        status = feed_prompt(c, err);
    if (!status && c->n) {
        uint64_t position = sb_session_position(c->session);
        status = sb_rounds_pick(c->rounds, c->logits, position, &token, err);
        if (!status)
            emit(c, token, c->logits);
    }
    while (c->out.count < c->n && !status) {
        status = next_round(c, err);
        if (status && c->out.speculative) {
            char where[32];
            snprintf(where, sizeof where, "round %zu", c->out.round_count);
            return sb_fail_in(err, status, where);
        }
    }
    if (!status && c->capture)
        status = sb_capture_finish(c->capture, err);
    return status ? status : describe_state(c, err);
}

/* Prepares --state-in and --state-out, and continues from --state-in. */
static sb_status resume(course *c, sb_error *err)
{
    const sb_request *r = c->request;
    if (!r->state_in && !r->state_out)
        return SB_OK;
    c->origin =
        (sb_state_origin){.knobs = &r->knobs,
                          .profile = r->profile,
                          .kernels = r->kernels && sb_gpu_computes(SB_OP_linear, &r->knobs)};
    sb_status status =
        sb_checkpoint_digest(sb_session_model(c->session)->checkpoint, &c->origin.checkpoint, err);
    if (!status && c->from)
        status = sb_state_resume(c->session, c->from, r->state_in, &c->origin, err);
    c->before = sb_session_position(c->session);
    return status;
}

/* Saves the final state with the ids of its whole sequence. */
static sb_status save_state(course *c, sb_error *err)
{
    sb_state state = *sb_session_state(c->session);
    sb_drafter_state entries;
    size_t fed = (size_t)(state.position - c->before), prompt = c->prompt->count;
    uint32_t *ids = sb_alloc(fed, sizeof *ids), *all = NULL;
    sb_status status = ids ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for token ids");
    if (!status) {
        memcpy(ids, c->prompt->ids, prompt * sizeof *ids);
        memcpy(ids + prompt, c->out.tokens, (fed - prompt) * sizeof *ids);
        status = sb_state_join(c->from, c->before, ids, fed, &all, err);
    }
    c->origin.tokens = all;
    if (c->drafter && sb_eagle3_entries(sb_rounds_drafter(c->rounds), &entries)) {
        state.drafter = &entries;
        c->origin.drafter = c->identity;
    }
    if (!status)
        status = sb_state_save(c->request->state_out, &state, &c->origin, err);
    free(ids);
    free(all);
    return status;
}

/* The head is fed along if there is one; after --state-in only if the state has one. */
static int feeds_head(const course *c, const sb_model *model)
{
    return sb_model_has_mtp(model) && (!c->from || c->from->state->has_mtp);
}

/* Prepares a sequence before it is fed. */
static sb_status prepare(course *c, const sb_model *model, size_t sequence, sb_error *err)
{
    const sb_request *r = c->request;
    sb_session_options options = {
        .backend = r->engine, .knobs = &r->knobs, .mtp = feeds_head(c, model)};
    if (c->drafter)
        options.states = sb_eagle3_states(c->drafter);
    if (c->stepped->step)
        options.resident = &c->stepped->resident;
    sb_sampling sampling = r->sampling;
    sb_round_options rounds = r->rounds;
    sampling.sequence = sequence;
    rounds.sampling = &sampling;
    rounds.drafter = c->drafter;
    if (!r->drafts.count)
        rounds.rollback = SB_ROLLBACK_replay; /* without drafts no rollback has to be possible */
    c->logits = sb_alloc(c->V, sizeof *c->logits);
    c->out.tokens = sb_alloc(c->n, sizeof *c->out.tokens);
    c->out.logits = sb_alloc(c->n, sizeof *c->out.logits);
    if (!c->logits || !c->out.tokens || !c->out.logits)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for logits");
    if (c->capture)
        sb_capture_join(c->capture, &options);
    sb_status status = sb_session_new(model, &options, &c->session, err);
    if (!status && c->capture)
        sb_capture_follow(c->capture, c->session, (uint32_t)sequence, (uint32_t)sequence);
    if (!status)
        status = resume(c, err);
    if (!status)
        status = sb_rounds_new(c->session, &rounds, &c->rounds, err);
    if (!status && c->from && c->drafter)
        status = sb_eagle3_restore(sb_rounds_drafter(c->rounds), c->from->entries, err);
    if (!status && r->logits_file)
        status = sb_npy_begin(r->logits_file, c->prompt->count + (c->n ? c->n - 1 : 0), c->V,
                              &c->npy, err);
    return status;
}

static void finish(course *c)
{
    sb_npy_free(c->npy);
    sb_rounds_free(c->rounds);
    sb_state_file_free(c->from);
    sb_session_free(c->session);
    free(c->logits);
    free(c->text);
    free(c->out.tokens);
    free(c->out.logits);
    free(c->out.rounds);
}

static uint32_t most_drafts(const sb_request *r)
{
    uint32_t most = 0;
    for (size_t i = 0; i < r->drafts.count; i++)
        most = r->drafts.ids[i] > most ? r->drafts.ids[i] : most;
    return most;
}

static sb_status check_head(const sb_model *model, const sb_request *r, sb_error *err)
{
    if (!most_drafts(r) || r->drafter.kind != SB_DRAFTER_head || sb_model_has_mtp(model))
        return SB_OK;
    return sb_fail(
        err, SB_ERR_USAGE,
        "--draft %u, but the checkpoint has no MTP head to draft with: it lacks mtp.fc.weight, "
        "mtp.norm.weight, mtp.pre_fc_norm_embedding.weight, mtp.pre_fc_norm_hidden.weight or "
        "mtp.layers.0.*; 'samebit check CKPT --need mtp' names what is missing",
        (unsigned)most_drafts(r));
}

/* Opens --state-in, if it is given. */
static sb_status open_state(course *c, sb_error *err)
{
    const sb_request *r = c->request;
    sb_status status = r->state_in ? sb_state_file_open(r->state_in, &c->from, err) : SB_OK;
    if (!status && c->from && r->drafter.kind == SB_DRAFTER_eagle3)
        status = sb_state_file_has_entries(c->from, r->state_in, c->identity, r->drafter.name, err);
    else if (!status && c->from)
        sb_state_note_entries(c->from, r->state_in);
    if (!status && c->from && r->drafter.kind == SB_DRAFTER_ngram && !c->from->tokens)
        return sb_fail(
            err, SB_ERR_USAGE,
            "--drafter %s, but the state %s was saved without the tokens that it looks in",
            SB_SHOW(r->drafter.name), SB_SHOW(r->state_in));
    if (status || !c->from || c->from->state->has_mtp || r->drafter.kind != SB_DRAFTER_head ||
        !most_drafts(r))
        return status;
    return sb_fail(err, SB_ERR_USAGE,
                   "--draft %u, but the state %s was saved without an MTP head; the head cannot "
                   "draft without the entries of earlier tokens",
                   (unsigned)most_drafts(r), SB_SHOW(r->state_in));
}

/* What the sequences of a run share. */
typedef struct journey {
    const sb_model *model;
    const sb_request *request;
    sb_traced traced;
    sb_stepped stepped;
    sb_eagle3 *drafter;
    sb_eagle3_identity identity;
    int opened; /* sb_stepped_open was called */
    sb_generated_fn take;
    void *ctx;
} journey;

static sb_status run_sequence(journey *j, size_t sequence, sb_error *err)
{
    const sb_request *r = j->request;
    course c = {.request = r,
                .prompt = &r->sequences[sequence],
                .sequence = sequence,
                .n = (size_t)r->generate,
                .V = j->model->config.vocab_size,
                .capture = j->traced.capture,
                .stepped = &j->stepped,
                .drafter = j->drafter,
                .identity = &j->identity,
                .out = {.speculative = r->drafts.count > 0, .kernels = r->kernels}};
    sb_status status = open_state(&c, err);
    if (!status && !j->opened) /* --state-in allows one sequence only */
        status = sb_stepped_open(j->model, r, c.from ? c.from->state->position : 0,
                                 feeds_head(&c, j->model), &j->stepped, err);
    j->opened = 1;
    if (!status)
        status = prepare(&c, j->model, sequence, err);
    if (!status)
        status = go(&c, err);
    if (!status && c.npy)
        status = sb_npy_commit(c.npy, err);
    if (!status && r->state_out)
        status = save_state(&c, err);
    c.out.stepped = j->stepped.step != NULL;
    c.out.why = j->stepped.why;
    if (!status)
        status = j->take(j->ctx, sequence, &c.out, err);
    finish(&c);
    return status;
}

sb_status sb_generate(const sb_model *model, const sb_request *r, sb_generated_fn take, void *ctx,
                      sb_error *err)
{
    journey j = {.model = model, .request = r, .take = take, .ctx = ctx};
    sb_status status = check_head(model, r, err);
    if (!status)
        status = sb_prompts_check_ids(&r->from, r->sequences, r->sequence_count,
                                      model->config.vocab_size, err);
    if (!status && r->drafter.file)
        status =
            sb_draft_file_check(r->drafter.file, model->config.vocab_size, r->sequence_count, err);
    if (!status && r->drafter.kind == SB_DRAFTER_eagle3)
        status = sb_eagle3_open(r->drafter.name, model, &j.drafter, err);
    if (!status && r->drafter.kind == SB_DRAFTER_eagle3 && (r->state_in || r->state_out))
        status = sb_eagle3_identify(j.drafter, &j.identity, err);
    if (!status)
        status = sb_traced_begin(model, r, &j.traced, err);
    for (size_t i = 0; i < r->sequence_count && !status; i++) {
        status = run_sequence(&j, i, err);
        if (status == SB_ERR_UNSUPPORTED && j.stepped.step) {
            sb_stepped_give_up(&j.stepped, err);
            status = run_sequence(&j, i, err);
        }
    }
    sb_stepped_close(&j.stepped);
    if (!status)
        status = sb_traced_commit(&j.traced, err);
    sb_traced_free(&j.traced);
    sb_eagle3_close(j.drafter);
    return status;
}
