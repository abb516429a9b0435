/* mlp.c - the feed-forward half of a layer: experts with a gated shared expert, or one dense MLP.
 */
#include <stdatomic.h>

#include "ref/base/threads.h"
#include "ref/run/schedule.h"

/* The taps of the four ops of one MLP. */
typedef struct mlp_taps {
    const char *gate, *up, *swiglu, *down;
} mlp_taps;

/* down( swiglu( gate(x), up(x) ) ) of all rows. */
static sb_status feed_forward(sb_call *call, const sb_matrix *gate, const sb_matrix *up,
                              const sb_matrix *down, const mlp_taps *taps, sb_mlp_kind kind,
                              float *gate_out, float *up_out, float *out)
{
    sb_scratch *s = call->s;
    size_t T = call->rows;
    sb_status status = sb_run_linear(call, gate, s->y, T, gate_out, taps->gate);
    if (!status)
        status = sb_run_linear(call, up, s->y, T, up_out, taps->up);
    if (!status)
        status = SB_RUN(call, swiglu, taps->swiglu, .gate = gate_out, .up = up_out,
                        .count = T * gate->rows, .kind = kind, .out = gate_out);
    if (!status)
        status = sb_show_tap(call, taps->swiglu, gate_out, T, gate->rows);
    return status ? status : sb_run_linear(call, down, gate_out, T, out, taps->down);
}

/* What a backend chose must exist before its weights are looked up. */
static sb_status check_ids(const sb_call *call)
{
    const sb_config *c = &call->model->config;
    const size_t k = c->experts_per_token;
    for (size_t i = 0; i < call->rows * k; i++)
        if (call->s->ids[i] >= c->experts)
            return sb_fail(call->err, SB_ERR_DIFF,
                           "layer %u: in slot %zu of row %zu the router chose expert %u; there are "
                           "%u",
                           call->layer, i % k, i / k, call->s->ids[i], c->experts);
    return SB_OK;
}

static sb_status route(sb_call *call, const sb_layer *layer)
{
    const sb_config *c = &call->model->config;
    sb_scratch *s = call->s;
    size_t k = c->experts_per_token, T = call->rows;
    sb_status status = sb_run_linear_of(call, SB_LINEAR_router, &layer->w[SB_ROLE_router], s->y, T,
                                        s->router_logits, "mlp.gate");
    if (!status)
        status = SB_RUN(call, router, "mlp.router_ids", .logits = s->router_logits, .rows = T,
                        .experts = c->experts, .kept = k, .renormalise = c->norm_topk_prob,
                        .ids = s->ids, .weights = s->weights);
    if (!status)
        status = check_ids(call);
    for (size_t i = 0; i < T * k && !status; i++)
        s->ids_shown[i] = (float)s->ids[i];
    if (!status)
        status = sb_show_tap(call, "mlp.router_ids", s->ids_shown, T, k);
    return status ? status : sb_show_tap(call, "mlp.router_weights", s->weights, T, k);
}

static sb_status shared_expert(sb_call *call, const sb_layer *layer)
{
    static const mlp_taps taps = {"mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj",
                                  "mlp.shared_expert.swiglu", "mlp.shared_expert"};
    sb_scratch *s = call->s;
    sb_status status =
        feed_forward(call, &layer->w[SB_ROLE_shared_gate_proj], &layer->w[SB_ROLE_shared_up_proj],
                     &layer->w[SB_ROLE_shared_down_proj], &taps, SB_MLP_shared, s->shared_gate,
                     s->shared_up, s->shared_out);
    return status ? status
                  : sb_run_linear_of(call, SB_LINEAR_shared_gate,
                                     &layer->w[SB_ROLE_shared_expert_gate], s->y, call->rows,
                                     s->shared_logit, "mlp.shared_expert_gate");
}

typedef enum expert_part { EXPERT_gate, EXPERT_up, EXPERT_down } expert_part;

/* What the op is of the pair of row i / kept and slot i mod kept alone. */
static sb_status one_expert(sb_call *call, const char *tap, const sb_expert_linear_args *all,
                            size_t i)
{
    const sb_matrix *w = sb_expert_weight(all, all->ids[i]);
    sb_linear_args args = {.weight = w,
                           .kind = all->kind,
                           .in = all->in + i / all->each * w->cols,
                           .rows = 1,
                           .out = all->out + i * w->rows};
    return sb_run_op(call, SB_OP_linear, tap, &(const sb_at){i / all->kept, i % all->kept}, &args);
}

/* One projection of every kept expert of every row: (T, k, n) from the rows of `in`, which `each`
 * neighbouring slots share. */
static sb_expert_linear_args expert_args(const sb_call *call, const sb_layer *layer,
                                         expert_part part, const float *in, size_t each, float *out)
{
    const sb_config *c = &call->model->config;
    const sb_expert *e = layer->experts;
    return (sb_expert_linear_args){.weight = part == EXPERT_gate ? &e->gate
                                             : part == EXPERT_up ? &e->up
                                                                 : &e->down,
                                   .stride = sizeof *e,
                                   .experts = c->experts,
                                   .ids = call->s->ids,
                                   .rows = call->rows,
                                   .kept = c->experts_per_token,
                                   .each = each,
                                   .kind = part == EXPERT_down ? SB_LINEAR_expert_down
                                                               : SB_LINEAR_layer,
                                   .in = in,
                                   .out = out};
}

static sb_status show_experts(const sb_call *call, const sb_expert_linear_args *args,
                              const char *tap)
{
    return sb_show_tap(call, tap, args->out, args->rows, args->kept * args->weight->rows);
}

static sb_status expert_linear(sb_call *call, const sb_expert_linear_args *args, const char *tap)
{
    sb_status status = sb_run_experts(call, tap, args);
    if (status == SB_ERR_UNSUPPORTED) {
        status = SB_OK;
        for (size_t i = 0; i < args->rows * args->kept && !status; i++)
            status = one_expert(call, tap, args, i);
    }
    return status ? status : show_experts(call, args, tap);
}

/* Neither of the two reads what the other, or its tap, has written. */
static sb_status gate_and_up(sb_call *call, const sb_layer *layer)
{
    sb_scratch *s = call->s;
    const char *const gate = "mlp.experts.gate_proj", *const up = "mlp.experts.up_proj";
    const size_t k = call->model->config.experts_per_token;
    const sb_expert_linear_args pair[2] = {
        expert_args(call, layer, EXPERT_gate, s->y, k, s->gate_out),
        expert_args(call, layer, EXPERT_up, s->y, k, s->up_out)};
    sb_status status = sb_run_expert_pair(call, gate, pair);
    if (status == SB_ERR_UNSUPPORTED) {
        status = expert_linear(call, &pair[0], gate);
        return status ? status : expert_linear(call, &pair[1], up);
    }
    if (!status)
        status = show_experts(call, &pair[0], gate);
    return status ? status : show_experts(call, &pair[1], up);
}

static sb_status experts(sb_call *call, const sb_layer *layer)
{
    const sb_config *c = &call->model->config;
    sb_scratch *s = call->s;
    size_t k = c->experts_per_token, I = c->moe_intermediate, T = call->rows;
    const sb_expert_linear_args down =
        expert_args(call, layer, EXPERT_down, s->gate_out, 1, s->expert_out);
    sb_status status = gate_and_up(call, layer);
    if (!status)
        status = SB_RUN(call, swiglu, "mlp.experts.swiglu", .gate = s->gate_out, .up = s->up_out,
                        .count = T * k * I, .out = s->gate_out);
    if (!status)
        status = sb_show_tap(call, "mlp.experts.swiglu", s->gate_out, T, k * I);
    return status ? status : expert_linear(call, &down, "mlp.experts.down_proj");
}

static sb_moe_combine_args combine_args(const sb_call *call, size_t t)
{
    const sb_config *c = &call->model->config;
    const sb_scratch *s = call->s;
    const size_t H = c->hidden_size, k = c->experts_per_token;
    return (sb_moe_combine_args){.expert_out = s->expert_out + t * k * H,
                                 .weights = s->weights + t * k,
                                 .ids = s->ids + t * k,
                                 .shared_out = s->shared_out + t * H,
                                 .shared_logit = s->shared_logit[t],
                                 .kept = k,
                                 .n = H,
                                 .out = s->out + t * H};
}

typedef struct combining {
    const sb_call *call;
    atomic_int failed;
} combining;

static void combine_row(void *ctx, size_t t, size_t worker)
{
    combining *j = ctx;
    const sb_moe_combine_args args = combine_args(j->call, t);
    (void)worker;
    if (sb_backend_ref()->ops.moe_combine(j->call->knobs, &args))
        atomic_store(&j->failed, 1);
}

/* All rows on all threads, where nobody watches and the op is the reference's, which threads may
 * run at the same time. Whether that was done; if one of them fails, it is to be done again. */
static int combined_together(const sb_call *call)
{
    const sb_op_table *ref = &sb_backend_ref()->ops;
    const size_t T = call->rows;
    combining j = {.call = call};
    if (call->hook || call->backend->ops.moe_combine != ref->moe_combine ||
        !sb_worth_threads((double)T * call->model->config.hidden_size * SB_COST_rounded))
        return 0;
    sb_parallel_for(T, 1, combine_row, &j);
    return !j.failed;
}

static sb_status mixture(sb_call *call, const sb_layer *layer)
{
    const sb_config *c = &call->model->config;
    sb_scratch *s = call->s;
    const size_t H = c->hidden_size, k = c->experts_per_token;
    sb_status status = route(call, layer);
    if (!status) {
        sb_pager_experts(sb_call_pager(call), call->layer, s->ids, call->rows * k);
        status = shared_expert(call, layer);
    }
    if (!status)
        status = experts(call, layer);
    const int done = !status && combined_together(call);
    for (size_t t = 0; t < call->rows && !status && !done; t++) {
        const sb_moe_combine_args args = combine_args(call, t);
        status = sb_run_op(call, SB_OP_moe_combine, "mlp.out", &(const sb_at){t, 0}, &args);
    }
    return status ? status : sb_show_tap(call, "mlp.out", s->out, call->rows, H);
}

sb_status sb_run_mlp(sb_call *call, const sb_layer *layer)
{
    static const mlp_taps taps = {"mlp.gate_proj", "mlp.up_proj", "mlp.swiglu", "mlp.out"};
    sb_scratch *s = call->s;
    if (call->model->config.experts)
        return mixture(call, layer);
    return feed_forward(call, &layer->w[SB_ROLE_gate_proj], &layer->w[SB_ROLE_up_proj],
                        &layer->w[SB_ROLE_down_proj], &taps, SB_MLP_dense, s->gate_out, s->up_out,
                        s->out);
}
