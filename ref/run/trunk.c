/* trunk.c - from tokens to logits; and the MTP head, which predicts the token after the next one
 * from a hidden vector and the next token. */
#include "ref/run/trunk.h"

#include <string.h>

#include "ref/run/form.h"
#include "ref/run/layer.h"

static void rmsnorm(sb_call *call, const char *tap, const sb_matrix *weight, const float *in,
                    float *out)
{
    const sb_config *c = &call->model->config;
    SB_RUN(call, rmsnorm, SB_MADE({tap, out, c->hidden_size}), .in = in, .weight = weight,
           .eps = c->eps_f32, .rows = call->rows, .n = c->hidden_size, .out = out,
           .plain = c->plain_norms);
}

static void linear(sb_call *call, sb_linear_kind kind, const char *tap, const sb_matrix *weight,
                   const float *in, size_t rows, float *out)
{
    SB_RUN(call, linear, SB_MADE({.tap = tap}), .weight = weight, .kind = kind, .in = in,
           .rows = rows, .out = out);
    sb_run_tap(call, tap, out, rows, weight->rows);
}

static void embed(sb_call *call, const char *tap, const uint32_t *tokens)
{
    sb_scratch *s = call->s;
    SB_RUN(call, embed, SB_MADE({tap, s->x, call->model->config.hidden_size}),
           .table = &call->model->weights->embed_tokens, .tokens = tokens, .rows = call->rows,
           .out = s->x);
    s->stream = s->x;
}

sb_status sb_run_embed(sb_call *call, const uint32_t *tokens)
{
    call->layer = SB_NO_LAYER;
    embed(call, "embed", tokens);
    return call->status;
}

/* Keeps the residual stream after `layers` layers, if a drafter reads it. */
static void keep_state(const sb_call *call, uint32_t layers)
{
    const size_t H = call->model->config.hidden_size, n = call->states.count;
    for (size_t i = 0; i < n && !call->status; i++)
        for (size_t t = 0; call->states.after[i] == layers && t < call->rows; t++)
            memcpy(call->kept_states + (t * n + i) * H, call->s->x + t * H, H * sizeof(float));
}

sb_status sb_run_norm(sb_call *call, float *out)
{
    call->layer = SB_NO_LAYER;
    rmsnorm(call, "norm", &call->model->weights->final_norm, call->s->stream, out);
    return call->status;
}

sb_status sb_run_trunk(sb_call *call, const uint32_t *tokens)
{
    const sb_config *c = &call->model->config;
    for (size_t t = 0; t < call->rows; t++)
        call->s->position[t] = (uint32_t)(call->position + (call->tree ? call->tree->depth[t] : t));
    sb_run_embed(call, tokens);
    keep_state(call, 0);
    for (call->layer = 0; call->layer < c->layers; call->layer++) {
        sb_run_layer(call, &call->model->weights->layers[call->layer],
                     c->layer_is_full[call->layer]);
        keep_state(call, call->layer + 1);
    }
    return sb_run_norm(call, call->s->hidden);
}

sb_status sb_run_head(sb_call *call, size_t row, size_t count, const char *tap, float *logits)
{
    const sb_weights *w = call->model->weights;
    const float *hidden = call->s->hidden + row * call->model->config.hidden_size;
    call->layer = SB_NO_LAYER;
    call->position += row;
    sb_pager_enter(sb_call_pager(call), w->layer_count);
    linear(call, SB_LINEAR_head, tap, &w->lm_head, hidden, count, logits);
    sb_pager_leave(sb_call_pager(call), w->layer_count);
    return call->status;
}

/* "the embedding half first" */
static void join(const float *embedding, const float *hidden, size_t rows, size_t H, float *out)
{
    for (size_t t = 0; t < rows; t++) {
        memcpy(out + 2 * t * H, embedding + t * H, H * sizeof *out);
        memcpy(out + (2 * t + 1) * H, hidden + t * H, H * sizeof *out);
    }
}

static uint32_t position_of(const sb_knobs *knobs, uint64_t entry)
{
    int64_t position = (int64_t)entry + sb_mtp_position_shift(knobs);
    return position < 0 ? 0 : (uint32_t)position;
}

/* "u = linear( [ rmsnorm( embed(x), pre_fc_norm_embedding ) ; rmsnorm( h,
 * pre_fc_norm_hidden ) ], mtp.fc )", then "one full-attention layer as in R-19 with keys and values
 * of its own" */
sb_status sb_run_mtp(sb_call *call, const float *hidden, const uint32_t *tokens)
{
    const sb_config *c = &call->model->config;
    const sb_weights *w = call->model->weights;
    sb_scratch *s = call->s;
    for (size_t t = 0; t < call->rows; t++)
        s->position[t] = position_of(call->knobs, call->position + t);
    call->layer = SB_NO_LAYER;
    embed(call, "mtp.embed", tokens);
    rmsnorm(call, "mtp.pre_fc_norm_embedding", &w->mtp[SB_ROLE_mtp_norm_embedding], s->x, s->y);
    rmsnorm(call, "mtp.pre_fc_norm_hidden", &w->mtp[SB_ROLE_mtp_norm_hidden], hidden, s->out);
    if (!call->status)
        join(s->y, s->out, call->rows, c->hidden_size, s->joined);
    linear(call, SB_LINEAR_layer, "mtp.fc", &w->mtp[SB_ROLE_mtp_fc], s->joined, call->rows, s->x);
    call->layer = c->layers;
    sb_run_layer(call, &w->layers[c->layers], 1);
    call->layer = SB_NO_LAYER;
    rmsnorm(call, "mtp.norm", &w->mtp[SB_ROLE_mtp_norm], s->stream, s->hidden);
    return call->status;
}
