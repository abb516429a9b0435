#include "tests/hf/voice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/rng.h"
#include "ref/run/session.h"

const size_t voice_traced[VOICE_TRACED] = {0, 5, 11};

const float *voice_values(voice *v, const char *name)
{
    const sb_tensor *t = hf_find(&v->fixture, "%s", name);
    if (!t) {
        fprintf(stderr, "%s has no %s\n", v->fixture.name, name);
        abort();
    }
    return hf_values(&v->arena, t);
}

static uint32_t *whole_numbers(voice *v, const char *name)
{
    const float *values = voice_values(v, name);
    uint32_t *ids = hf_alloc(&v->arena, v->entries, sizeof *ids);
    for (size_t i = 0; i < v->entries; i++)
        ids[i] = (uint32_t)values[i];
    return ids;
}

sb_status voice_open(const char *name, voice *out, sb_error *err)
{
    const char *folder = getenv("SAMEBIT_MTP");
    char path[320];
    *out = (voice){0};
    if (!folder)
        folder = "golden/mtp";
    snprintf(out->fixture.name, sizeof out->fixture.name, "%s", name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    sb_status status = sb_model_open(path, &out->fixture.model, err);
    if (status)
        return status;
    snprintf(path, sizeof path, "%s/%s.expect.safetensors", folder, name);
    status = sb_safetensors_open(path, &out->fixture.file, err);
    if (status) {
        sb_model_close(out->fixture.model);
        return status;
    }
    const sb_tensor *ids = hf_find(&out->fixture, "draft_ids");
    if (!ids || hf_row_size(ids) != VOICE_DRAFTS) {
        voice_close(out);
        return sb_fail(err, SB_ERR_INPUT, "%s: draft_ids is missing or of another depth", path);
    }
    out->entries = hf_rows(ids);
    out->tokens = whole_numbers(out, "tokens");
    out->next = whole_numbers(out, "next");
    out->draft_ids = hf_values(&out->arena, ids);
    return SB_OK;
}

void voice_close(voice *v)
{
    sb_safetensors_close(&v->fixture.file);
    sb_model_close(v->fixture.model);
    hf_release(&v->arena);
}

/* T-15: "x (1 + s 2^-24), rounded, with seeded s in -1, 0, 1" */
static void round_anew(voice_run *run, const char *name, float *data, size_t count)
{
    uint64_t key = sb_rng_key(run->seed, name);
    for (size_t i = 0; i < count; i++) {
        double s = (double)sb_rng_below(key, run->draws + i, 3) - 1.0;
        data[i] = (float)((double)data[i] * (1.0 + s * 0x1p-24));
    }
    run->draws += count;
}

/* Replaces the output of our trunk by the recorded one, before and after the final norm. */
static void give_hidden(voice_run *run, const char *name, float *data, size_t count)
{
    char last[64];
    snprintf(last, sizeof last, "layers.%u.output",
             (unsigned)run->v->fixture.model->config.layers - 1);
    const char *from = strcmp(name, "norm") == 0 ? "hidden"
                       : strcmp(name, last) == 0 ? "hidden.before_norm"
                                                 : NULL;
    size_t H = run->v->fixture.model->config.hidden_size;
    if (from)
        memcpy(data, voice_values(run->v, from) + run->fed * H, count * sizeof *data);
}

static sb_status watch(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                       sb_error *err)
{
    voice_run *run = ctx;
    (void)err;
    if (strncmp(name, "mtp.", 4) != 0) {
        give_hidden(run, name, data, rows * cols);
        return SB_OK;
    }
    if (strcmp(name, "mtp.embed") == 0) { /* a call of the head begins */
        run->first += run->rows;
        run->rows = rows;
    }
    if (run->f)
        voice_force(run, name, data, rows, cols);
    else if (run->seed && !strstr(name, "router_ids"))
        round_anew(run, name, data, rows * cols);
    return SB_OK;
}

static sb_status begin(voice_run *run, sb_session **session)
{
    const sb_session_options options = {
        .backend = run->backend, .knobs = run->knobs, .tap = watch, .tap_ctx = run, .mtp = 1};
    run->first = run->rows = run->fed = 0;
    return sb_session_new(run->v->fixture.model, &options, session, &run->err);
}

/* Makes the drafts after entry t, which the session has not made yet. */
static sb_status draft(voice_run *run, sb_session *session, size_t t, float *logits)
{
    size_t V = run->v->fixture.model->config.vocab_size;
    sb_status status = SB_OK;
    for (size_t j = 0; j < VOICE_DRAFTS && !status; j++) {
        uint32_t token = j ? (uint32_t)run->proposed[t * VOICE_DRAFTS + j - 1] : run->v->next[t];
        status = sb_session_draft(session, token, logits + j * V, &run->err);
    }
    return status;
}

sb_status voice_run_entry(voice_run *run, size_t t)
{
    sb_session *session = NULL;
    sb_status status = begin(run, &session);
    run->entry = t;
    if (!status)
        status = sb_session_feed(session, run->v->tokens, t + 1, &run->err);
    if (!status)
        status = draft(run, session, t, run->logits);
    sb_session_free(session);
    return status;
}

sb_status voice_run_all(voice_run *run)
{
    size_t block = (size_t)VOICE_DRAFTS * run->v->fixture.model->config.vocab_size;
    sb_session *session = NULL;
    sb_status status = begin(run, &session);
    for (size_t t = 0; t < run->v->entries && !status; t++) {
        run->fed = t;
        status = sb_session_feed(session, run->v->tokens + t, 1, &run->err);
        if (!status)
            status = draft(run, session, t, run->logits + t * block);
    }
    sb_session_free(session);
    return status;
}
