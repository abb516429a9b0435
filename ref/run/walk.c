#include "ref/run/walk.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"
#include "ref/run/layer.h"
#include "ref/run/session.h"
#include "ref/run/trunk.h"

struct sb_walk {
    const sb_model *model;
    sb_knobs knobs;
    sb_tap_fn tap;
    void *tap_ctx;
    sb_state *state;
    sb_scratch scratch;
    float *logits; /* (V) */
};

sb_status sb_walk_new(const sb_model *model, const sb_knobs *knobs, sb_tap_fn tap, void *tap_ctx,
                      sb_walk **out, sb_error *err)
{
    sb_walk *w = sb_alloc(1, sizeof *w);
    if (!w)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a walk");
    w->model = model;
    w->tap = tap;
    w->tap_ctx = tap_ctx;
    if (knobs)
        w->knobs = *knobs;
    else
        sb_knobs_exact(&w->knobs);
    w->logits = sb_alloc(model->config.vocab_size, sizeof *w->logits);
    sb_status status = sb_state_new(&model->config, sb_model_has_mtp(model), &w->state, err);
    if (!status && (!w->logits || sb_scratch_reserve(&w->scratch, &model->config, SB_WALK_ROWS)))
        status = sb_fail(err, SB_ERR_MEMORY, "out of memory for a walk");
    if (status) {
        sb_walk_free(w);
        return status;
    }
    *out = w;
    return SB_OK;
}

void sb_walk_free(sb_walk *w)
{
    if (!w)
        return;
    sb_state_free(w->state);
    sb_scratch_free(&w->scratch);
    free(w->logits);
    free(w);
}

static int keeps_sum(const sb_walk *w)
{
    return SB_IS(&w->knobs, norm_input, sum);
}

size_t sb_walk_width(const sb_walk *w)
{
    return (size_t)w->model->config.hidden_size * (keeps_sum(w) ? 2 : 1);
}

/* Copies rows of a stream to the scratch. Each row has x, then the unrounded sum (K-48). */
static void put(sb_walk *w, const float *stream, size_t rows)
{
    size_t H = w->model->config.hidden_size, width = sb_walk_width(w);
    for (size_t t = 0; t < rows; t++) {
        memcpy(w->scratch.x + t * H, stream + t * width, H * sizeof *stream);
        if (keeps_sum(w))
            memcpy(w->scratch.sum + t * H, stream + t * width + H, H * sizeof *stream);
    }
    w->scratch.stream = keeps_sum(w) ? w->scratch.sum : w->scratch.x;
}

static void get(const sb_walk *w, float *stream, size_t rows)
{
    size_t H = w->model->config.hidden_size, width = sb_walk_width(w);
    for (size_t t = 0; t < rows; t++) {
        memcpy(stream + t * width, w->scratch.x + t * H, H * sizeof *stream);
        if (keeps_sum(w))
            memcpy(stream + t * width + H, w->scratch.stream + t * H, H * sizeof *stream);
    }
}

static sb_call begin(sb_walk *w, uint64_t position, size_t rows, uint32_t layer, sb_error *err)
{
    for (size_t t = 0; t < rows; t++)
        w->scratch.position[t] = (uint32_t)(position + t);
    return (sb_call){.model = w->model,
                     .backend = sb_backend_ref(),
                     .knobs = &w->knobs,
                     .tap = w->tap,
                     .tap_ctx = w->tap_ctx,
                     .kind = SB_CALL_prompt,
                     .state = w->state,
                     .position = position,
                     .s = &w->scratch,
                     .rows = rows,
                     .layer = layer,
                     .err = err};
}

/* Empties the part of the state that one layer reads, and makes room for n tokens. The state's
 * position stays 0, because each call carries its own position. */
static sb_status restart(sb_walk *w, uint32_t layer, size_t n, sb_error *err)
{
    const sb_config *c = &w->model->config;
    sb_layer_state *own = &w->state->layers[layer];
    w->state->mtp_entries = 0;
    if (own->conv)
        memset(own->conv, 0, sb_state_conv_size(c) * sizeof *own->conv);
    if (own->recurrent)
        memset(own->recurrent, 0, sb_state_recurrent_size(c) * sizeof *own->recurrent);
    return sb_state_reserve(w->state, n, err);
}

static size_t rows_from(size_t at, size_t n)
{
    return n - at < SB_WALK_ROWS ? n - at : SB_WALK_ROWS;
}

sb_status sb_walk_embed(sb_walk *w, const uint32_t *tokens, size_t n, float *stream, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < n; i++)
        if (tokens[i] >= w->model->config.vocab_size)
            return sb_fail(err, SB_ERR_USAGE, "token %zu is id %u; expected an id below %u", i,
                           (unsigned)tokens[i], (unsigned)w->model->config.vocab_size);
    for (size_t at = 0; at < n && !status; at += SB_WALK_ROWS) {
        size_t rows = rows_from(at, n);
        sb_call call = begin(w, at, rows, SB_NO_LAYER, err);
        status = sb_run_embed(&call, tokens + at);
        get(w, stream + at * sb_walk_width(w), rows);
    }
    return status;
}

sb_status sb_walk_layer(sb_walk *w, uint32_t layer, size_t n, float *stream, sb_error *err)
{
    size_t width = sb_walk_width(w);
    int full = w->model->config.layer_is_full[layer];
    sb_status status = restart(w, layer, n, err);
    for (size_t at = 0; at < n && !status; at += SB_WALK_ROWS) {
        size_t rows = rows_from(at, n);
        sb_call call = begin(w, at, rows, layer, err);
        put(w, stream + at * width, rows);
        sb_run_layer(&call, &w->model->weights->layers[layer], full);
        status = call.status;
        get(w, stream + at * width, rows);
    }
    return status;
}

sb_status sb_walk_logits(sb_walk *w, const float *stream, float *logits, sb_error *err)
{
    sb_call call = begin(w, 0, 1, SB_NO_LAYER, err);
    put(w, stream, 1);
    sb_run_norm(&call, w->scratch.hidden);
    return sb_run_head(&call, 0, 1, "logits", logits);
}

/* Computes the input of the MTP head for one token (K-28). */
static sb_status feature(sb_walk *w, const float *stream, float *out, sb_error *err)
{
    size_t H = w->model->config.hidden_size;
    put(w, stream, 1);
    if (SB_IS(&w->knobs, mtp_hidden, residual)) {
        memcpy(out, w->scratch.x, H * sizeof *out);
        return SB_OK;
    }
    sb_call call = begin(w, 0, 1, SB_NO_LAYER, err);
    return sb_run_norm(&call, out);
}

/* Makes the entries of S-7, one after the other. */
sb_status sb_walk_drafts(sb_walk *w, const float *stream, const uint32_t *tokens, size_t n,
                         uint32_t *guess, sb_error *err)
{
    const sb_config *c = &w->model->config;
    if (!w->state->has_mtp)
        return sb_fail(err, SB_ERR_USAGE, "the checkpoint has no MTP head");
    size_t first = SB_IS(&w->knobs, mtp_first, zeros) ? 0 : 1;
    float *hidden = sb_alloc(c->hidden_size, sizeof *hidden);
    sb_status status = hidden ? restart(w, c->layers, n + 1, err)
                              : sb_fail(err, SB_ERR_MEMORY, "out of memory for a hidden vector");
    for (size_t t = first; t < n && !status; t++) {
        if (t > 0)
            status = feature(w, stream + (t - 1) * sb_walk_width(w), hidden, err);
        sb_call call = begin(w, w->state->mtp_entries, 1, c->layers, err);
        call.status = status;
        status = sb_run_mtp(&call, hidden, tokens + t);
        w->state->mtp_entries++;
        if (t > 0)
            status = sb_run_head(&call, 0, 1, "mtp.logits", w->logits);
        if (!status && t > 0)
            guess[t] = sb_greedy(w->logits, c->vocab_size);
    }
    free(hidden);
    return status;
}
