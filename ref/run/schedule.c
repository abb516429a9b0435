#include "ref/run/schedule.h"

#include <stdio.h>

#include "ref/base/bytes.h"

/* The message of an op that failed, unless a hook has left one. */
static sb_status failed(const sb_call *call, sb_op op, const char *name, sb_status status)
{
    const char *why = call->backend->why ? call->backend->why() : NULL;
    if (call->err && call->err->text[0])
        return status;
    if (!why || !*why)
        why = status == SB_ERR_MEMORY ? "out of memory" : "";
    return sb_fail(call->err, status, "op %s (%s) failed%s%s", sb_op_name(op), name,
                   *why ? ": " : "", why);
}

sb_status sb_run_op(const sb_call *call, sb_op op, const char *name, const sb_at *at,
                    const void *args)
{
    const sb_op_call one = {.op = op,
                            .layer = call->layer,
                            .name = name,
                            .kind = call->kind,
                            .position = call->position,
                            .rows = call->rows,
                            .row = at ? at->row : 0,
                            .slot = at ? at->slot : 0,
                            .single = at != NULL,
                            .args = args,
                            .knobs = call->knobs,
                            .table = &call->backend->ops,
                            .err = call->err};
    if (call->err)
        call->err->text[0] = '\0';
    sb_status status = call->hook ? call->hook(call->hook_ctx, &one) : sb_op_run(&one);
    return status ? failed(call, op, name, status) : SB_OK;
}

/* A table whose `linear` was exchanged keeps its say about experts: those of the reference are for
 * its own op alone. */
static int experts_apart(const sb_call *call)
{
    const sb_backend *ref = sb_backend_ref(), *by = call->backend;
    return (call->hook && !call->hook_skips_experts) ||
           (by->experts == ref->experts && by->ops.linear != ref->ops.linear);
}

/* The same of pairs, which stand for `experts` as well. */
static int pair_apart(const sb_call *call)
{
    const sb_backend *ref = sb_backend_ref(), *by = call->backend;
    return experts_apart(call) ||
           (by->expert_pair == ref->expert_pair &&
            (by->ops.linear != ref->ops.linear || by->experts != ref->experts));
}

static sb_status ran_experts(const sb_call *call, const char *name, sb_status status)
{
    return status && status != SB_ERR_UNSUPPORTED ? failed(call, SB_OP_linear, name, status)
                                                  : status;
}

sb_status sb_run_experts(const sb_call *call, const char *name, const sb_expert_linear_args *args)
{
    if (!call->backend->experts || experts_apart(call))
        return SB_ERR_UNSUPPORTED;
    if (call->err)
        call->err->text[0] = '\0';
    return ran_experts(call, name, call->backend->experts(call->knobs, args));
}

sb_status sb_run_expert_pair(const sb_call *call, const char *name,
                             const sb_expert_linear_args pair[2])
{
    if (!call->backend->expert_pair || pair_apart(call))
        return SB_ERR_UNSUPPORTED;
    if (call->err)
        call->err->text[0] = '\0';
    return ran_experts(call, name, call->backend->expert_pair(call->knobs, pair));
}

/* One more in the exponent carries into the sign of infinities and NaNs alone. */
static uint32_t beyond(float x)
{
    return (sb_bits_f32(x) & 0x7fffffffu) + 0x00800000u;
}

/* Without a way out of the loop, and so many at a time: that becomes vectors. */
static int all_finite(const float *data, size_t n)
{
    enum { LANES = 16 };
    uint32_t any[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            any[l] |= beyond(data[i + l]);
    for (; i < n; i++)
        any[0] |= beyond(data[i]);
    for (size_t l = 1; l < LANES; l++)
        any[0] |= any[l];
    return !(any[0] >> 31);
}

/* S-6: "A value that is not finite in any tap stops the call with the tap, row and column." */
sb_status sb_show_tap(const sb_call *call, const char *name, float *data, size_t rows, size_t cols)
{
    char full[128];
    uint32_t trunk = call->model->config.layers;
    if (call->layer == SB_NO_LAYER)
        snprintf(full, sizeof full, "%s", name);
    else if (call->layer >= trunk)
        snprintf(full, sizeof full, "mtp.layers.%u.%s", (unsigned)(call->layer - trunk), name);
    else
        snprintf(full, sizeof full, "layers.%u.%s", (unsigned)call->layer, name);
    int good = all_finite(data, rows * cols);
    for (size_t i = 0; i < rows * cols && !good; i++)
        if (!sb_is_finite_f32(data[i]))
            return sb_fail(call->err, SB_ERR_NUMERIC,
                           "%s: row %zu (position %llu), column %zu is %s (bits %08x); expected a "
                           "finite value",
                           full, i / cols, (unsigned long long)(call->position + i / cols),
                           i % cols, data[i] != data[i] ? "NaN" : "infinite",
                           (unsigned)sb_bits_f32(data[i]));
    return call->tap ? call->tap(call->tap_ctx, full, data, rows, cols, call->err) : SB_OK;
}

sb_status sb_run_linear_of(sb_call *call, sb_linear_kind kind, const sb_matrix *weight,
                           const float *in, size_t rows, float *out, const char *tap)
{
    sb_status status = SB_RUN(call, linear, tap, .weight = weight, .kind = kind, .in = in,
                              .rows = rows, .out = out);
    return status ? status : sb_show_tap(call, tap, out, rows, weight->rows);
}

sb_status sb_run_linear(sb_call *call, const sb_matrix *weight, const float *in, size_t rows,
                        float *out, const char *tap)
{
    return sb_run_linear_of(call, SB_LINEAR_layer, weight, in, rows, out, tap);
}

sb_status sb_run_rmsnorm(sb_call *call, const sb_matrix *weight, const float *in, size_t rows,
                         size_t n, float *out, const char *tap)
{
    sb_status status = SB_RUN(call, rmsnorm, tap, .in = in, .weight = weight,
                              .eps = call->model->config.eps_f32, .rows = rows, .n = n, .out = out);
    return status ? status : sb_show_tap(call, tap, out, rows, n);
}

/* x = x + out; K-48: "sum norms RN(x + y)" - the next norm reads that */
static sb_status residual(sb_call *call, const char *tap)
{
    sb_scratch *s = call->s;
    size_t H = call->model->config.hidden_size;
    float *sum = SB_IS(call->knobs, norm_input, sum) ? s->sum : NULL;
    sb_status status = SB_RUN(call, add, tap, .a = s->x, .b = s->out, .count = call->rows * H,
                              .out = s->x, .sum = sum);
    s->stream = sum ? sum : s->x;
    return status ? status : sb_show_tap(call, tap, s->x, call->rows, H);
}

sb_pager *sb_call_pager(const sb_call *call)
{
    return call->backend->ops.linear == sb_backend_ref()->ops.linear ? call->model->pager : NULL;
}

/* "x = x + mixer( rmsnorm(x, input_layernorm) ), then x = x + mlp( rmsnorm(x,
 * post_attention_layernorm) )" */
sb_status sb_run_layer(sb_call *call, const sb_layer *layer, int full)
{
    sb_scratch *s = call->s;
    size_t H = call->model->config.hidden_size;
    sb_pager_enter(sb_call_pager(call), call->layer);
    sb_status status = sb_run_rmsnorm(call, &layer->w[SB_ROLE_input_layernorm], s->stream,
                                      call->rows, H, s->y, "input_layernorm");
    if (!status)
        status = full ? sb_run_attention(call, layer) : sb_run_gdn(call, layer);
    if (!status)
        status = residual(call, "attn_residual");
    if (!status)
        status = sb_run_rmsnorm(call, &layer->w[SB_ROLE_post_attention_layernorm], s->stream,
                                call->rows, H, s->y, "post_attention_layernorm");
    if (!status)
        status = sb_run_mlp(call, layer);
    if (!status)
        status = residual(call, "output");
    sb_pager_leave(sb_call_pager(call), call->layer);
    return status;
}

sb_status sb_run_trunk(sb_call *call, const uint32_t *tokens)
{
    const sb_config *c = &call->model->config;
    const sb_weights *w = call->model->weights;
    sb_scratch *s = call->s;
    for (size_t t = 0; t < call->rows; t++)
        s->position[t] = (uint32_t)(call->position + t);
    call->layer = SB_NO_LAYER;
    sb_status status = SB_RUN(call, embed, "embed", .table = &w->embed_tokens, .tokens = tokens,
                              .rows = call->rows, .out = s->x);
    if (!status)
        status = sb_show_tap(call, "embed", s->x, call->rows, c->hidden_size);
    s->stream = s->x;
    for (uint32_t i = 0; i < c->layers && !status; i++) {
        call->layer = i;
        status = sb_run_layer(call, &w->layers[i], c->layer_is_full[i]);
    }
    call->layer = SB_NO_LAYER;
    if (status)
        return status;
    return sb_run_rmsnorm(call, &w->final_norm, s->stream, call->rows, c->hidden_size, s->hidden,
                          "norm");
}

sb_status sb_run_head(sb_call *call, size_t row, size_t count, const char *tap, float *logits)
{
    const sb_weights *w = call->model->weights;
    const float *hidden = call->s->hidden + row * call->model->config.hidden_size;
    call->layer = SB_NO_LAYER;
    call->position += row;
    sb_pager_enter(sb_call_pager(call), w->layer_count);
    sb_status status =
        sb_run_linear_of(call, SB_LINEAR_head, &w->lm_head, hidden, count, logits, tap);
    sb_pager_leave(sb_call_pager(call), w->layer_count);
    return status;
}
