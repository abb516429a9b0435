/* mtp.c - the MTP head: a hidden vector and the token behind it, to a guess at the one after. */
#include <string.h>

#include "ref/run/form.h"
#include "ref/run/schedule.h"

/* "the embedding half first" */
static void join(const float *embedding, const float *hidden, size_t rows, size_t H, float *out)
{
    for (size_t t = 0; t < rows; t++) {
        memcpy(out + 2 * t * H, embedding + t * H, H * sizeof *out);
        memcpy(out + (2 * t + 1) * H, hidden + t * H, H * sizeof *out);
    }
}

/* "u = linear( [ rmsnorm( embed(x), pre_fc_norm_embedding ) ; rmsnorm( h,
 * pre_fc_norm_hidden ) ], mtp.fc )" */
static sb_status combine(sb_call *call, const float *hidden, const uint32_t *tokens)
{
    const sb_weights *w = call->model->weights;
    sb_scratch *s = call->s;
    size_t T = call->rows, H = call->model->config.hidden_size;
    sb_status status = SB_RUN(call, embed, "mtp.embed", .table = &w->embed_tokens, .tokens = tokens,
                              .rows = T, .out = s->x);
    if (!status)
        status = sb_show_tap(call, "mtp.embed", s->x, T, H);
    if (!status)
        status = sb_run_rmsnorm(call, &w->mtp[SB_ROLE_mtp_norm_embedding], s->x, T, H, s->y,
                                "mtp.pre_fc_norm_embedding");
    if (!status)
        status = sb_run_rmsnorm(call, &w->mtp[SB_ROLE_mtp_norm_hidden], hidden, T, H, s->out,
                                "mtp.pre_fc_norm_hidden");
    if (status)
        return status;
    join(s->y, s->out, T, H, s->joined);
    return sb_run_linear(call, &w->mtp[SB_ROLE_mtp_fc], s->joined, T, s->x, "mtp.fc");
}

static uint32_t position_of(const sb_knobs *knobs, uint64_t entry)
{
    int64_t position = (int64_t)entry + sb_mtp_position_shift(knobs);
    return position < 0 ? 0 : (uint32_t)position;
}

/* "one full-attention layer as in R-19 with keys and values of its own" */
sb_status sb_run_mtp(sb_call *call, const float *hidden, const uint32_t *tokens)
{
    const sb_config *c = &call->model->config;
    const sb_weights *w = call->model->weights;
    sb_scratch *s = call->s;
    call->layer = SB_NO_LAYER;
    sb_status status = combine(call, hidden, tokens);
    for (size_t t = 0; t < call->rows; t++)
        s->position[t] = position_of(call->knobs, call->position + t);
    call->layer = c->layers;
    s->stream = s->x;
    if (!status)
        status = sb_run_layer(call, &w->layers[c->layers], 1);
    call->layer = SB_NO_LAYER;
    return status ? status
                  : sb_run_rmsnorm(call, &w->mtp[SB_ROLE_mtp_norm], s->stream, call->rows,
                                   c->hidden_size, s->hidden, "mtp.norm");
}
