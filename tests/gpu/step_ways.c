#include "tests/gpu/step_ways.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/step/step.h"
#include "ref/base/mem.h"
#include "ref/ops/knob.h"
#include "ref/run/session.h"
#include "ref/state/state.h"

enum { PROMPT = 5, DECODES = 3, WIDEST = 3, TIMES = 3, DRAFTS = 2, CALLS = 64, POSITIONS = 256 };

static const struct way {
    const char *name;
    int steps, eager, fused, independent;
} ways[] = {
    {"op by op", 0, 1, 0, 1},        {"launched, independent", 1, 1, 0, 1},
    {"launched", 1, 1, 0, 0},        {"graphs, independent", 1, 0, 0, 1},
    {"graphs", 1, 0, 0, 0},          {"fused, launched, independent", 1, 1, 1, 1},
    {"fused, launched", 1, 1, 1, 0}, {"fused, graphs, independent", 1, 0, 1, 1},
    {"fused, graphs", 1, 0, 1, 0},
};
enum { WAYS = sizeof ways / sizeof *ways };

typedef struct play {
    const sb_backend *backend;
    const sb_model *model;
    const sb_knobs *knobs;
    const struct way *way;
    sb_session *session;
    float *logits; /* (V) */
    sb_digest digest[CALLS];
    char call[CALLS][40];
    size_t calls;
    sb_error *err;
} play;

static uint32_t token_of(const play *p, size_t i)
{
    return (uint32_t)((i * 7919 + 13) % p->model->config.vocab_size);
}

/* Notes a call: the logits of all rows, and the states. */
static sb_status note(play *p, size_t first, size_t rows)
{
    const size_t V = p->model->config.vocab_size;
    sb_digest state = {""};
    sb_hash *hash = sb_hash_new();
    sb_status status = hash ? sb_session_fetch_state(p->session, p->err)
                            : sb_fail(p->err, SB_ERR_MEMORY, "out of memory");
    for (size_t r = first; r < first + rows && !status; r++) {
        status = sb_session_logits(p->session, r, p->logits, p->err);
        if (!status)
            sb_hash_f32(hash, p->logits, V);
    }
    if (!status)
        status = sb_state_digest(sb_session_state(p->session), &state, p->err);
    if (!status) {
        sb_hash_bytes(hash, state.hex, sizeof state.hex);
        if (sb_session_state(p->session)->has_mtp)
            status = sb_state_mtp_digest(sb_session_state(p->session), &state, p->err);
        sb_hash_bytes(hash, state.hex, sizeof state.hex);
        p->digest[p->calls++] = sb_hash_end(hash);
    }
    sb_hash_free(hash);
    return status;
}

static sb_status play_verify(play *p, size_t width, size_t round)
{
    uint32_t tokens[WIDEST];
    for (size_t i = 0; i < width; i++)
        tokens[i] = token_of(p, 31 * i + 7 * width + round);
    snprintf(p->call[p->calls], sizeof *p->call, "verify %zu of %zu rows", round, width);
    sb_status status = sb_session_verify(p->session, tokens, width, SB_ROLLBACK_snapshots, p->err);
    status = status ? status : note(p, 0, width);
    return status ? status : sb_session_keep(p->session, 1 + (width + round) % width, p->err);
}

/* The logits of drafts, which leave the state alone; the next call notes it. */
static sb_status play_drafts(play *p)
{
    const size_t V = p->model->config.vocab_size;
    for (size_t round = 0; round < TIMES; round++) {
        for (size_t i = 0; i < DRAFTS; i++) {
            const sb_status status =
                sb_session_draft(p->session, token_of(p, 5 * round + i), p->logits, p->err);
            if (status)
                return status;
            snprintf(p->call[p->calls], sizeof *p->call, "draft %zu, %zu", round, i);
            p->digest[p->calls++] = sb_digest_f32(p->logits, V);
        }
        sb_session_forget_drafts(p->session);
    }
    return SB_OK;
}

static sb_status play_calls(play *p)
{
    uint32_t tokens[PROMPT];
    for (size_t i = 0; i < PROMPT; i++)
        tokens[i] = token_of(p, i);
    snprintf(p->call[p->calls], sizeof *p->call, "the prompt");
    sb_status status = sb_session_feed(p->session, tokens, PROMPT, p->err);
    status = status ? status : note(p, PROMPT - 1, 1);
    for (size_t i = 0; i < DECODES && !status; i++) {
        const uint32_t token = token_of(p, PROMPT + i);
        snprintf(p->call[p->calls], sizeof *p->call, "decode step %zu", i);
        status = sb_session_verify(p->session, &token, 1, SB_ROLLBACK_snapshots, p->err);
        status = status ? status : note(p, 0, 1);
        status = status ? status : sb_session_keep(p->session, 1, p->err);
    }
    for (size_t width = 2; width <= WIDEST; width++)
        for (size_t round = 0; round < TIMES && !status; round++)
            status = play_verify(p, width, round);
    return status || !sb_session_has_mtp(p->session) ? status : play_drafts(p);
}

static sb_status play_way(play *p)
{
    const int mtp = sb_model_has_mtp(p->model);
    const sb_gpu_step_options step_options = {.rows = PROMPT,
                                              .slots = WIDEST,
                                              .positions = POSITIONS,
                                              .mtp = mtp,
                                              .eager = p->way->eager,
                                              .fused = p->way->fused,
                                              .independent = p->way->independent};
    sb_gpu_step *step = NULL;
    sb_resident resident;
    sb_session_options options = {.backend = p->backend, .knobs = p->knobs, .mtp = mtp};
    sb_status status = SB_OK;
    p->calls = 0;
    if (p->way->steps) {
        status = sb_gpu_step_open(p->backend, p->model, p->knobs, &step_options, &step, p->err);
        if (!status) {
            resident = sb_gpu_step_resident(step);
            options.resident = &resident;
        }
    }
    if (!status)
        status = sb_session_new(p->model, &options, &p->session, p->err);
    if (!status)
        status = play_calls(p);
    sb_session_free(p->session);
    p->session = NULL;
    sb_gpu_step_close(step);
    return status;
}

static void hold(const play *p, const play *by, step_ways *found)
{
    size_t i = 0;
    while (i < p->calls && i < by->calls && strcmp(p->digest[i].hex, by->digest[i].hex) == 0)
        i++;
    if (i == p->calls && i == by->calls)
        return;
    if (found->differ++ == 0)
        snprintf(found->first, sizeof found->first, "\"%s\" differs from \"%s\" first in %s",
                 p->way->name, by->way->name, i < p->calls ? p->call[i] : "the number of calls");
}

static void tell(const play *p, FILE *out)
{
    for (size_t i = 0; i < p->calls; i++)
        fprintf(out, "%s: %s %s\n", p->way->name, p->call[i], p->digest[i].hex);
    fflush(out);
}

sb_status step_ways_compare(const sb_backend *backend, const sb_model *model, const sb_knobs *knobs,
                            FILE *out, step_ways *found, sb_error *err)
{
    play *const p = sb_alloc(2, sizeof *p); /* the first way, and another one */
    float *const logits = sb_alloc(model->config.vocab_size, sizeof *logits);
    sb_hash *const all = sb_hash_new();
    sb_status status = p && logits && all ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    *found = (step_ways){.first = ""};
    for (size_t i = 0; i < WAYS && !status; i++) {
        play *const now = &p[i > 0];
        *now = (play){.backend = backend,
                      .model = model,
                      .knobs = knobs,
                      .way = &ways[i],
                      .logits = logits,
                      .err = err};
        status = play_way(now);
        tell(now, out);
        if (!status)
            hold(now, p, found);
        found->ways++;
    }
    if (!status) {
        found->calls = p->calls;
        for (size_t i = 0; i < p->calls; i++)
            sb_hash_bytes(all, p->digest[i].hex, sizeof p->digest[i].hex);
        memcpy(found->all, sb_hash_end(all).hex, sizeof found->all);
    }
    sb_hash_free(all);
    free(logits);
    free(p);
    return status;
}

/* --- replays ---------------------------------------------------------------------------------- */
enum { STEPS = 16, ROUNDS = 8 };

/* One sequence. The host waits at its end only. *launches counts the parts after the prompt. */
static sb_status play_sequence(sb_gpu_step *step, const sb_model *model, int rounds,
                               size_t *launches, sb_error *err)
{
    uint32_t tokens[PROMPT];
    for (size_t i = 0; i < PROMPT; i++)
        tokens[i] = (uint32_t)((i * 7919 + 13) % model->config.vocab_size);
    sb_status status = sb_gpu_step_reset(step, err);
    status = status ? status : sb_gpu_step_feed(step, tokens, PROMPT, err);
    for (int i = 0; i < STEPS && !status; i++, ++*launches)
        status = sb_gpu_step_run(step, 1, err);
    for (int i = 0; i < rounds && !status; i++, *launches += DRAFTS + 2) {
        for (size_t d = 0; d < DRAFTS && !status; d++)
            status = sb_gpu_step_draft(step, d, err);
        status = status ? status : sb_gpu_step_run(step, DRAFTS + 1, err);
        status = status ? status : sb_gpu_step_accept(step, err);
    }
    return status;
}

static sb_status digest_of(sb_gpu_step *step, const sb_model *model, float *logits, int rounds,
                           sb_digest *out, sb_error *err)
{
    const size_t rows = rounds ? DRAFTS + 1 : 1;
    uint32_t picked[DRAFTS + 1];
    sb_state *state = NULL;
    sb_digest digest;
    size_t kept = 0;
    sb_hash *hash = sb_hash_new();
    sb_status status = hash ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    if (!status && rounds)
        status = sb_gpu_step_kept(step, &kept, err);
    status = status ? status : sb_gpu_step_picked(step, picked, rows, err);
    for (size_t r = 0; r < rows && !status; r++) {
        sb_hash_u64(hash, picked[r]);
        status = sb_gpu_step_logits(step, r, logits, err);
        if (!status)
            sb_hash_f32(hash, logits, model->config.vocab_size);
    }
    status = status ? status : sb_gpu_step_state(step, &state, err);
    status = status ? status : sb_state_digest(state, &digest, err);
    if (!status) {
        sb_hash_u64(hash, kept);
        sb_hash_bytes(hash, digest.hex, sizeof digest.hex);
        *out = sb_hash_end(hash);
    }
    sb_state_free(state);
    sb_hash_free(hash);
    return status;
}

sb_status step_replays_compare(const sb_backend *backend, const sb_model *model,
                               const sb_knobs *knobs, size_t replays, step_replays *found,
                               sb_error *err)
{
    const int mtp = sb_model_has_mtp(model), rounds = mtp ? ROUNDS : 0;
    float *const logits = sb_alloc(model->config.vocab_size, sizeof *logits);
    sb_digest first = {""}, now = {""};
    sb_status status = logits ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    *found = (step_replays){.all = ""};
    for (int replayed = 0; replayed < 2 && !status; replayed++) {
        const sb_gpu_step_options options = {.rows = PROMPT,
                                             .slots = DRAFTS + 1,
                                             .positions = POSITIONS,
                                             .mtp = mtp,
                                             .eager = !replayed,
                                             .fused = replayed,
                                             .independent = !replayed};
        sb_gpu_step *step = NULL;
        size_t launches = 0;
        status = sb_gpu_step_open(backend, model, knobs, &options, &step, err);
        do {
            status = status ? status : play_sequence(step, model, rounds, &launches, err);
            status = status ? status : digest_of(step, model, logits, rounds, &now, err);
            if (replayed) {
                found->sequences++;
                found->differ += !status && strcmp(first.hex, now.hex) != 0;
            }
        } while (replayed && !status && launches < replays);
        if (!replayed)
            first = now;
        found->replays = launches;
        sb_gpu_step_close(step);
    }
    memcpy(found->all, first.hex, sizeof found->all);
    free(logits);
    return status;
}
