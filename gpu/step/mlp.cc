/* mlp.cc - the feed-forward half of a layer of ref/run/layer.c, over resident arrays. */
#include "gpu/op/experts.h"
#include "gpu/step/call.h"

/* The names of the four ops of one MLP. */
struct mlp_names {
    const char *gate, *up, *swiglu, *down;
};

/* down( swiglu( gate(x), up(x) ) ) for all rows. */
static void feed_forward(sb_step_call &c, const sb_matrix &gate, const sb_matrix &up,
                         const sb_matrix &down, const mlp_names &names, sb_mlp_kind kind,
                         float *gate_out, float *up_out, float *out)
{
    const sb_swiglu_args swiglu = {gate_out, up_out, c.rows * gate.rows, kind, gate_out};
    const sb_gpu_staged *staged = c.stages_for(down);
    const sb_step_matrix both[] = {{names.gate, &gate, gate_out}, {names.up, &up, up_out}};
    c.matrices(both, 2);
    if (staged) {
        const sb_gpu_staged layers = {staged->layers, nullptr};
        SB_STEP(c, names.swiglu,
                sb_gpu_swiglu_staged(c.gpu, gate_out, up_out, c.rows, gate.rows, &layers));
    } else {
        SB_STEP(c, names.swiglu, sb_gpu_swiglu(c.gpu, c.knobs, &swiglu));
    }
    c.matrix(names.down, down, {gate_out, staged ? staged->layers : nullptr}, out);
}

/* The logits of the router and of the shared expert's gate, which are one launch where Y-65 allows
 * it, and the choice of experts. */
static void route(sb_step_call &c, const sb_matrix *w)
{
    const sb_config *m = c.config;
    const sb_scratch *s = c.s;
    const sb_router_args router = {s->router_logits,  c.rows, m->experts, m->experts_per_token,
                                   m->norm_topk_prob, s->ids, s->weights};
    const sb_step_matrix all[] = {
        {"mlp.gate", &w[SB_ROLE_router], s->router_logits, SB_LINEAR_router},
        {"mlp.shared_expert_gate", &w[SB_ROLE_shared_expert_gate], s->shared_logit,
         SB_LINEAR_shared_gate}};
    c.matrices(all, 2);
    if (c.fused)
        SB_STEP(c, "mlp.router_ids", sb_gpu_choose(c.gpu, &router, &c.step->fused.choice));
    else
        SB_STEP(c, "mlp.router_ids", sb_gpu_router(c.gpu, c.knobs, &router));
}

static void shared_expert(sb_step_call &c, const sb_matrix *w)
{
    static const mlp_names names = {"mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj",
                                    "mlp.shared_expert.swiglu", "mlp.shared_expert"};
    const sb_scratch *s = c.s;
    feed_forward(c, w[SB_ROLE_shared_gate_proj], w[SB_ROLE_shared_up_proj],
                 w[SB_ROLE_shared_down_proj], names, SB_MLP_shared, s->shared_gate, s->shared_up,
                 s->shared_out);
}

/* The arguments of one projection, for every kept expert of every row. `each` consecutive slots
 * share a row of `in`. */
static sb_expert_linear_args expert_args(const sb_step_call &c, const sb_matrix *first, size_t each,
                                         sb_linear_kind kind, const float *in, float *out)
{
    const sb_config *m = c.config;
    return {first,      sizeof(sb_expert),
            m->experts, c.s->ids,
            c.rows,     m->experts_per_token,
            each,       kind,
            in,         out};
}

/* Runs the gate and up projections of the experts. */
static void experts_in(sb_step_call &c, const sb_expert *e)
{
    const sb_scratch *s = c.s;
    const size_t k = c.config->experts_per_token;
    const sb_expert_linear_args both[] = {
        expert_args(c, &e->gate, k, SB_LINEAR_layer, s->y, s->gate_out),
        expert_args(c, &e->up, k, SB_LINEAR_layer, s->y, s->up_out)};
    const bool takes = c.fused && sb_gpu_takes_staged(c.gpu, c.knobs, &e->gate, SB_LINEAR_layer) &&
                       sb_gpu_takes_staged(c.gpu, c.knobs, &e->up, SB_LINEAR_layer);
    if (c.fused) {
        SB_STEP(c, "mlp.experts.gate_proj",
                sb_gpu_experts_both(c.gpu, c.knobs, both, &c.step->fused.choice,
                                    takes ? c.step->fused.norm.experts : nullptr));
        return;
    }
    SB_STEP(c, "mlp.experts.gate_proj", sb_gpu_experts(c.gpu, c.knobs, both));
    SB_STEP(c, "mlp.experts.up_proj", sb_gpu_experts(c.gpu, c.knobs, both + 1));
}

static void experts_out(sb_step_call &c, const sb_expert *e, const void *staged)
{
    const sb_scratch *s = c.s;
    const sb_expert_linear_args down =
        expert_args(c, &e->down, 1, SB_LINEAR_expert_down, s->gate_out, s->expert_out);
    if (c.fused)
        SB_STEP(c, "mlp.experts.down_proj",
                sb_gpu_experts_chosen(c.gpu, c.knobs, &down, &c.step->fused.choice, staged));
    else
        SB_STEP(c, "mlp.experts.down_proj", sb_gpu_experts(c.gpu, c.knobs, &down));
}

static void experts(sb_step_call &c, const sb_expert *e)
{
    const sb_config *m = c.config;
    const sb_scratch *s = c.s;
    const size_t k = m->experts_per_token;
    const sb_swiglu_args swiglu = {s->gate_out, s->up_out, c.rows * k * m->moe_intermediate,
                                   SB_MLP_expert, s->gate_out};
    const sb_gpu_staged *staged = c.stages_for(e->down);
    experts_in(c, e);
    if (staged) {
        const sb_gpu_staged pairs = {nullptr, staged->experts};
        SB_STEP(c, "mlp.experts.swiglu",
                sb_gpu_swiglu_staged(c.gpu, s->gate_out, s->up_out, c.rows * k, m->moe_intermediate,
                                     &pairs));
    } else {
        SB_STEP(c, "mlp.experts.swiglu", sb_gpu_swiglu(c.gpu, c.knobs, &swiglu));
    }
    experts_out(c, e, staged ? staged->experts : nullptr);
}

static void mixture(sb_step_call &c, const sb_layer *layer)
{
    const sb_config *m = c.config;
    const sb_scratch *s = c.s;
    const sb_moe_combine_args sum = {s->expert_out,        s->weights,     s->ids, s->shared_out, 0,
                                     m->experts_per_token, m->hidden_size, s->out};
    route(c, layer->w);
    shared_expert(c, layer->w);
    experts(c, layer->experts);
    if (c.fused)
        c.added = SB_ADDED_combined;
    else
        SB_STEP(c, "mlp.out", sb_gpu_moe_combine_rows(c.gpu, &sum, c.rows, s->shared_logit));
}

void sb_step_mlp(sb_step_call &c, const sb_layer *layer)
{
    static const mlp_names names = {"mlp.gate_proj", "mlp.up_proj", "mlp.swiglu", "mlp.out"};
    const sb_scratch *s = c.s;
    const sb_matrix *w = layer->w;
    if (c.config->experts)
        mixture(c, layer);
    else
        feed_forward(c, w[SB_ROLE_gate_proj], w[SB_ROLE_up_proj], w[SB_ROLE_down_proj], names,
                     SB_MLP_dense, s->gate_out, s->up_out, s->out);
}
