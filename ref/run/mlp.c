/* mlp.c - the feed-forward half of a layer: experts with a gated shared expert, or one dense MLP.
 */
#include "ref/run/schedule.h"

/* down( swiglu( gate(x), up(x) ) ) for `rows` rows; hidden_gate and hidden_up are scratch. */
static sb_status feed_forward(sb_call *call, const sb_matrix *gate, const sb_matrix *up,
                              const sb_matrix *down, const float *x, size_t rows,
                              float *hidden_gate, float *hidden_up, float *out)
{
    sb_status status = sb_run_linear(call, gate, x, rows, hidden_gate, NULL);
    if (!status)
        status = sb_run_linear(call, up, x, rows, hidden_up, NULL);
    if (!status)
        status = SB_RUN(call, swiglu, .gate = hidden_gate, .up = hidden_up,
                        .count = rows * gate->rows, .out = hidden_gate);
    return status ? status : sb_run_linear(call, down, hidden_gate, rows, out, NULL);
}

static sb_status route(sb_call *call, const sb_layer *layer)
{
    const sb_config *c = &call->model->config;
    sb_scratch *s = call->s;
    size_t k = c->experts_per_token, T = call->rows;
    sb_status status =
        sb_run_linear(call, &layer->w[SB_ROLE_router], s->y, T, s->router_logits, "mlp.gate");
    if (!status)
        status = SB_RUN(call, router, .logits = s->router_logits, .rows = T, .experts = c->experts,
                        .kept = k, .renormalise = c->norm_topk_prob, .ids = s->ids,
                        .weights = s->weights);
    for (size_t i = 0; i < T * k; i++)
        s->ids_shown[i] = (float)s->ids[i];
    if (!status)
        status = sb_show_tap(call, "mlp.router_ids", s->ids_shown, T, k);
    return status ? status : sb_show_tap(call, "mlp.router_weights", s->weights, T, k);
}

static sb_status shared_expert(sb_call *call, const sb_layer *layer)
{
    sb_scratch *s = call->s;
    size_t T = call->rows;
    sb_status status = feed_forward(
        call, &layer->w[SB_ROLE_shared_gate_proj], &layer->w[SB_ROLE_shared_up_proj],
        &layer->w[SB_ROLE_shared_down_proj], s->y, T, s->shared_gate, s->shared_up, s->shared_out);
    if (!status)
        status = sb_show_tap(call, "mlp.shared_expert", s->shared_out, T,
                             call->model->config.hidden_size);
    if (!status)
        status = sb_run_linear(call, &layer->w[SB_ROLE_shared_expert_gate], s->y, T,
                               s->shared_logit, "mlp.shared_expert_gate");
    return status;
}

static sb_status experts_of_row(sb_call *call, const sb_layer *layer, size_t t)
{
    const sb_config *c = &call->model->config;
    sb_scratch *s = call->s;
    size_t H = c->hidden_size, k = c->experts_per_token;
    sb_status status = SB_OK;
    for (size_t slot = 0; slot < k && !status; slot++) {
        const sb_expert *e = &layer->experts[s->ids[t * k + slot]];
        status = feed_forward(call, &e->gate, &e->up, &e->down, s->y + t * H, 1, s->gate_out,
                              s->up_out, s->expert_out + slot * H);
    }
    if (status)
        return status;
    return SB_RUN(call, moe_combine, .expert_out = s->expert_out, .weights = s->weights + t * k,
                  .shared_out = s->shared_out + t * H, .shared_logit = s->shared_logit[t],
                  .kept = k, .n = H, .out = s->out + t * H);
}

static sb_status mixture(sb_call *call, const sb_layer *layer)
{
    sb_status status = route(call, layer);
    if (!status)
        status = shared_expert(call, layer);
    for (size_t t = 0; t < call->rows && !status; t++)
        status = experts_of_row(call, layer, t);
    return status;
}

sb_status sb_run_mlp(sb_call *call, const sb_layer *layer)
{
    const sb_config *c = &call->model->config;
    sb_scratch *s = call->s;
    sb_status status;
    if (c->experts)
        status = mixture(call, layer);
    else
        status = feed_forward(call, &layer->w[SB_ROLE_gate_proj], &layer->w[SB_ROLE_up_proj],
                              &layer->w[SB_ROLE_down_proj], s->y, call->rows, s->gate_out,
                              s->up_out, s->out);
    return status ? status : sb_show_tap(call, "mlp.out", s->out, call->rows, c->hidden_size);
}
