/* eagle3.c - the rows of a drafter op by op, and its entries beside a session (S-15). */
#include "ref/run/eagle3.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/run/eagle3_weights.h"
#include "ref/run/layer.h"

struct sb_eagle3_drafts {
    const sb_eagle3 *drafter;
    sb_session *session;
    sb_state *state; /* keys and values; position: the number of entries */
    sb_scratch scratch;
    float *states; /* (room, n Ht) of the entries to make */
    float *normed; /* (room, n Ht) */
    float *fused;  /* (room, H) */
    float *logits; /* (Vd) */
    size_t room;
    float *pending;   /* (n Ht) states of the last token, whose entry needs the next one */
    int has_pending;  /* 0: no token has been fed */
    int failed;       /* entries are missing: only a reset helps */
    uint64_t drafted; /* steps since the last entry */
};

/* --- rows ------------------------------------------------------------------------------------- */

static void rmsnorm(sb_call *call, const char *tap, const sb_matrix *weight, const float *in,
                    size_t rows, float *out)
{
    const size_t n = weight->cols;
    SB_RUN(call, rmsnorm, SB_MADE({.tap = tap}), .in = in, .weight = weight,
           .eps = call->model->config.eps_f32, .rows = rows, .n = n, .out = out, .plain = 1);
    sb_run_tap(call, tap, out, rows, n);
}

static void linear(sb_call *call, sb_linear_kind kind, const char *tap, const sb_matrix *weight,
                   const float *in, float *out)
{
    SB_RUN(call, linear, SB_MADE({.tap = tap}), .weight = weight, .kind = kind, .in = in,
           .rows = call->rows, .out = out);
    sb_run_tap(call, tap, out, call->rows, weight->rows);
}

/* One norm for each state of each row: (rows, n, Ht) */
static void norm_states(sb_eagle3_drafts *d, sb_call *call, const float *states)
{
    const sb_eagle3 *w = d->drafter;
    const size_t n = w->config.states, Ht = w->config.target_hidden;
    const sb_value made[] = {{.tap = "drafter.fc_norm"}, {0}};
    for (size_t i = 0; i < call->rows * n; i++) {
        const sb_rmsnorm_args args = {.in = states + i * Ht,
                                      .weight = &w->fc_norm[i % n],
                                      .eps = w->config.layer.eps_f32,
                                      .rows = 1,
                                      .n = Ht,
                                      .out = d->normed + i * Ht,
                                      .plain = 1};
        sb_run_op(call, SB_OP_rmsnorm, &args, &(const sb_at){.row = i / n, .slot = i % n}, made);
    }
    sb_run_tap(call, "drafter.fc_norm", d->normed, call->rows, n * Ht);
}

/* "h = linear( s, fc )", after one norm of all states, or one of each. Writes d->fused. */
static void fuse(sb_eagle3_drafts *d, sb_call *call, float *states)
{
    const sb_eagle3 *w = d->drafter;
    const size_t width = (size_t)w->config.states * w->config.target_hidden;
    sb_run_tap(call, "drafter.states", states, call->rows, width);
    if (w->config.norm_before_fc)
        rmsnorm(call, "drafter.input_norm", &w->input_norm, states, call->rows, d->normed);
    if (w->config.fc_norm)
        norm_states(d, call, states);
    if (w->config.norm_before_fc || w->config.fc_norm)
        states = d->normed;
    linear(call, SB_LINEAR_layer, "drafter.fc", &w->fc, states, d->fused);
}

/* "attention without a gate over [ e ; f ], e first" */
static void join(const float *e, const float *h, size_t rows, size_t H, float *out)
{
    for (size_t t = 0; t < rows; t++) {
        memcpy(out + 2 * t * H, e + t * H, H * sizeof *out);
        memcpy(out + (2 * t + 1) * H, h + t * H, H * sizeof *out);
    }
}

/* scratch->x is y, scratch->hidden is its norm. states: NULL for a further draft, whose h is
 * in d->fused. */
static void decode(sb_eagle3_drafts *d, sb_call *call, float *states, const uint32_t *tokens)
{
    const sb_eagle3 *w = d->drafter;
    const sb_layer *layer = &w->weights.layers[0];
    const size_t H = w->config.layer.hidden_size;
    const float *h = d->fused;
    sb_scratch *s = call->s;
    for (size_t t = 0; t < call->rows; t++)
        s->position[t] = (uint32_t)(call->position + t);
    SB_RUN(call, embed, SB_MADE({"drafter.embed", s->x, H}), .table = &w->weights.embed_tokens,
           .tokens = tokens, .rows = call->rows, .out = s->x);
    if (states)
        fuse(d, call, states);
    else
        sb_run_tap(call, "drafter.hidden", d->fused, call->rows, H);
    rmsnorm(call, "drafter.input_layernorm", &layer->w[SB_ROLE_input_layernorm], s->x, call->rows,
            s->y);
    rmsnorm(call, "drafter.hidden_norm", &w->hidden_norm, h, call->rows, s->out);
    if (call->status)
        return;
    join(s->y, s->out, call->rows, H, s->joined);
    memcpy(s->x, w->config.norm_before_residual ? s->out : h, call->rows * H * sizeof *h);
    call->layer = 0; /* its state, and its name in messages */
    sb_run_attention(call, layer, s->joined);
    sb_run_second_half(call, layer);
    call->layer = SB_NO_LAYER;
    rmsnorm(call, "drafter.norm", &w->weights.final_norm, s->stream, call->rows, s->hidden);
}

/* A call of the drafter, whose ops and values the session's hook and tap see. */
static sb_call begin(sb_eagle3_drafts *d, sb_call_kind kind, size_t rows, sb_error *err)
{
    const sb_session_options of = sb_session_options_of(d->session);
    return (sb_call){.model = &d->drafter->model,
                     .backend = of.backend,
                     .knobs = of.knobs,
                     .tap = of.tap,
                     .tap_ctx = of.tap_ctx,
                     .hook = of.hook,
                     .hook_ctx = of.hook_ctx,
                     .kind = kind,
                     .state = d->state,
                     .position = d->state->position + d->drafted,
                     .s = &d->scratch,
                     .rows = rows,
                     .layer = SB_NO_LAYER,
                     .drafter = sb_session_model(d->session)->config.layers + 1,
                     .err = err};
}

/* Makes room for rows in every array. */
static sb_status reserve(sb_eagle3_drafts *d, size_t rows, sb_error *err)
{
    const sb_eagle3_config *c = &d->drafter->config;
    const size_t n = (size_t)c->states * c->target_hidden, H = c->layer.hidden_size;
    if (sb_scratch_reserve(&d->scratch, &c->layer, rows))
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a drafter of %zu rows", rows);
    if (rows > d->room) {
        free(d->states);
        free(d->normed);
        free(d->fused);
        d->states = sb_alloc(rows, n * sizeof *d->states);
        d->normed = sb_alloc(rows, n * sizeof *d->normed);
        d->fused = sb_alloc(rows, H * sizeof *d->fused);
        d->room = d->states && d->normed && d->fused ? rows : 0;
        if (!d->room)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for a drafter of %zu rows", rows);
    }
    return sb_state_reserve(d->state, d->drafted + rows, err);
}

/* --- entries ---------------------------------------------------------------------------------- */

static int keeps_states(const sb_session *session, const sb_eagle3 *drafter)
{
    const sb_session_states has = sb_session_states_of(session), needs = sb_eagle3_states(drafter);
    return has.count == needs.count &&
           memcmp(has.after, needs.after, needs.count * sizeof *needs.after) == 0;
}

sb_status sb_eagle3_drafts_new(const sb_eagle3 *drafter, sb_session *session,
                               sb_eagle3_drafts **out, sb_error *err)
{
    const sb_eagle3_config *c = &drafter->config;
    if (!keeps_states(session, drafter))
        return sb_fail(err, SB_ERR_USAGE, "the session does not keep the states of this drafter");
    sb_eagle3_drafts *d = sb_alloc(1, sizeof *d);
    if (!d)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the entries of a drafter");
    d->drafter = drafter;
    d->session = session;
    d->pending = sb_alloc((size_t)c->states * c->target_hidden, sizeof *d->pending);
    d->logits = sb_alloc(c->draft_vocab, sizeof *d->logits);
    sb_status status = d->pending && d->logits
                           ? sb_state_new(&c->layer, 0, &d->state, err)
                           : sb_fail(err, SB_ERR_MEMORY, "out of memory for a drafter");
    if (status) {
        sb_eagle3_drafts_free(d);
        return status;
    }
    *out = d;
    return SB_OK;
}

void sb_eagle3_drafts_free(sb_eagle3_drafts *d)
{
    if (!d)
        return;
    sb_state_free(d->state);
    sb_scratch_free(&d->scratch);
    free(d->states);
    free(d->normed);
    free(d->fused);
    free(d->logits);
    free(d->pending);
    free(d);
}

void sb_eagle3_reset(sb_eagle3_drafts *d)
{
    sb_state_reset(d->state);
    d->has_pending = 0;
    d->drafted = 0;
    d->failed = 0;
}

sb_status sb_eagle3_assign(sb_eagle3_drafts *d, const sb_eagle3_drafts *from, sb_error *err)
{
    const sb_eagle3_config *c = &d->drafter->config;
    sb_status status = sb_state_assign(d->state, from->state, err);
    if (status)
        return status;
    memcpy(d->pending, from->pending, (size_t)c->states * c->target_hidden * sizeof *d->pending);
    d->has_pending = from->has_pending;
    d->failed = from->failed;
    d->drafted = 0;
    return SB_OK;
}

/* S-15: "The entry of s_t and x_{t+1} is made when x_{t+1} is fed" */
sb_status sb_eagle3_follow_states(sb_eagle3_drafts *d, const float *kept, const uint32_t *tokens,
                                  size_t n, sb_error *err)
{
    const sb_eagle3_config *c = &d->drafter->config;
    const size_t row = (size_t)c->states * c->target_hidden;
    const size_t first = d->has_pending ? 1 : 0, rows = n - 1 + first;
    d->drafted = 0;
    if (d->failed)
        return sb_fail(err, SB_ERR_USAGE, "the drafter lacks entries since a failure; reset it");
    d->failed = 1;
    sb_status status = reserve(d, n, err);
    if (status)
        return status;
    if (d->has_pending)
        memcpy(d->states, d->pending, row * sizeof *kept);
    memcpy(d->states + first * row, kept, (n - 1) * row * sizeof *kept);
    if (rows) {
        sb_call call = begin(d, sb_session_kind(d->session), rows, err);
        decode(d, &call, d->states, tokens + (n - rows));
        if (call.status)
            return call.status;
    }
    d->state->position += rows;
    memcpy(d->pending, kept + (n - 1) * row, row * sizeof *kept);
    d->has_pending = 1;
    d->failed = 0;
    return SB_OK;
}

sb_status sb_eagle3_follow(sb_eagle3_drafts *d, const uint32_t *tokens, size_t n, sb_error *err)
{
    return sb_eagle3_follow_states(d, sb_session_states_kept(d->session), tokens, n, err);
}

int sb_eagle3_entries(const sb_eagle3_drafts *d, sb_drafter_state *out)
{
    const sb_eagle3_config *c = &d->drafter->config;
    *out = (sb_drafter_state){.kv_heads = c->layer.kv_heads,
                              .head_dim = c->layer.head_dim,
                              .states = c->states,
                              .width = c->target_hidden,
                              .entries = d->state->position,
                              .keys = d->state->layers[0].keys,
                              .values = d->state->layers[0].values,
                              .pending = d->pending};
    return d->has_pending && !d->failed;
}

sb_status sb_eagle3_restore(sb_eagle3_drafts *d, const sb_drafter_state *from, sb_error *err)
{
    sb_drafter_state own;
    (void)sb_eagle3_entries(d, &own);
    if (from->kv_heads != own.kv_heads || from->head_dim != own.head_dim ||
        from->states != own.states || from->width != own.width)
        return sb_fail(err, SB_ERR_USAGE, "the entries are those of a drafter of another shape");
    sb_eagle3_reset(d);
    sb_status status = sb_state_reserve(d->state, from->entries, err);
    if (status)
        return status;
    const size_t kv = sb_drafter_kv_size(from);
    if (kv) {
        memcpy(d->state->layers[0].keys, from->keys, kv * sizeof *from->keys);
        memcpy(d->state->layers[0].values, from->values, kv * sizeof *from->values);
    }
    memcpy(d->pending, from->pending, sb_drafter_pending_size(from) * sizeof *from->pending);
    d->state->position = from->entries;
    d->has_pending = 1;
    return SB_OK;
}

void sb_eagle3_forget(sb_eagle3_drafts *d)
{
    d->drafted = 0;
}

/* The row of the head with the largest logit, and its token. */
static void choose(sb_call *call, const sb_eagle3 *w, const float *logits, uint32_t *draft)
{
    if (call->status)
        return;
    const uint32_t row = sb_greedy(logits, w->config.draft_vocab);
    float ids[] = {(float)row, (float)w->target_of[row]};
    *draft = w->target_of[row];
    sb_run_tap(call, "drafter.top_ids", ids, 1, 2);
}

/* S-15: "The first draft after x_P comes from the entry of s_{P-1} and x_P" */
sb_status sb_eagle3_draft(sb_eagle3_drafts *d, uint32_t token, float *logits, uint32_t *draft,
                          sb_error *err)
{
    const sb_eagle3 *w = d->drafter;
    const size_t H = w->config.layer.hidden_size,
                 row = (size_t)w->config.states * w->config.target_hidden;
    if (d->failed)
        return sb_fail(err, SB_ERR_USAGE, "the drafter lacks entries since a failure; reset it");
    if (!d->has_pending)
        return sb_fail(err, SB_ERR_USAGE, "cannot draft before the first token");
    if (token >= w->config.layer.vocab_size)
        return sb_fail(err, SB_ERR_USAGE, "token id %u; expected an id below %u", (unsigned)token,
                       (unsigned)w->config.layer.vocab_size);
    const int again = d->drafted > 0;
    const float *back = w->config.norm_output ? d->scratch.hidden : d->scratch.x;
    if (again)
        memcpy(d->fused, back, H * sizeof *back);
    sb_status status = reserve(d, 1, err);
    if (status)
        return status;
    logits = logits ? logits : d->logits;
    if (!again) /* a tap may overwrite what it sees, but the entry needs these states, too */
        memcpy(d->states, d->pending, row * sizeof *d->states);
    sb_call call = begin(d, SB_CALL_draft, 1, err);
    decode(d, &call, again ? NULL : d->states, &token);
    linear(&call, SB_LINEAR_head, "drafter.logits", &w->weights.lm_head, d->scratch.hidden, logits);
    choose(&call, w, logits, draft);
    if (call.status) {
        d->drafted = 0;
        return call.status;
    }
    d->drafted++;
    return SB_OK;
}
