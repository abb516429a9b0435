/* mlp.cc - the feed-forward half of a layer of ref/run/layer.c, over resident arrays. */
#include "gpu/op/experts.h"
#include "gpu/step/call.h"

/* An MLP of three matrices, its arrays, and the names of its four ops. */
struct mlp {
    const sb_matrix &gate, &up, &down;
    sb_mlp_kind kind;
    float *gate_out, *up_out, *out;
    const char *gate_name, *up_name, *swiglu, *down_name;
};

/* down( swiglu( gate(x), up(x) ) ) for all rows, in three steps. */
static void feed_in(sb_step_call &c, const mlp &m)
{
    const sb_step_matrix both[] = {{m.gate_name, &m.gate, m.gate_out},
                                   {m.up_name, &m.up, m.up_out}};
    c.matrices(both, 2);
}
static void activate(sb_step_call &c, const mlp &m, const sb_gpu_staged *staged)
{
    const sb_swiglu_args swiglu = {m.gate_out, m.up_out, c.rows * m.gate.rows, m.kind, m.gate_out};
    if (staged) {
        const sb_gpu_staged layers = {staged->layers, nullptr};
        SB_STEP(c, m.swiglu,
                sb_gpu_swiglu_staged(c.gpu, m.gate_out, m.up_out, c.rows, m.gate.rows, &layers));
    } else {
        SB_STEP(c, m.swiglu, sb_gpu_swiglu(c.gpu, c.knobs, &swiglu));
    }
}
static void feed_out(sb_step_call &c, const mlp &m, const sb_gpu_staged *staged)
{
    c.matrix(m.down_name, m.down, {m.gate_out, staged ? staged->layers : nullptr}, m.out);
}

/* The logits of the router and of the shared expert's gate, which are one launch where Y-65 allows
 * it. */
static void router_logits(sb_step_call &c, const sb_matrix *w)
{
    const sb_scratch *s = c.s;
    const sb_step_matrix all[] = {
        {"mlp.gate", &w[SB_ROLE_router], s->router_logits, SB_LINEAR_router},
        {"mlp.shared_expert_gate", &w[SB_ROLE_shared_expert_gate], s->shared_logit,
         SB_LINEAR_shared_gate}};
    c.matrices(all, 2);
}

/* The choice of experts. */
static void choose(sb_step_call &c, const sb_gpu_beside *beside)
{
    const sb_config *m = c.config;
    const sb_scratch *s = c.s;
    const sb_router_args router = {s->router_logits,  c.rows, m->experts, m->experts_per_token,
                                   m->norm_topk_prob, s->ids, s->weights};
    if (c.fused)
        SB_STEP(c, "mlp.router_ids", sb_gpu_choose(c.gpu, &router, &c.step->fused.choice, beside));
    else
        SB_STEP(c, "mlp.router_ids", sb_gpu_router(c.gpu, c.knobs, &router));
}

/* The shared expert, and the choice of experts: Y-84: "Other blocks of its launch stage the input
 * of the shared expert's down." */
static void choose_and_share(sb_step_call &c, const sb_matrix *w)
{
    const sb_scratch *s = c.s;
    const mlp shared = {w[SB_ROLE_shared_gate_proj],
                        w[SB_ROLE_shared_up_proj],
                        w[SB_ROLE_shared_down_proj],
                        SB_MLP_shared,
                        s->shared_gate,
                        s->shared_up,
                        s->shared_out,
                        "mlp.shared_expert.gate_proj",
                        "mlp.shared_expert.up_proj",
                        "mlp.shared_expert.swiglu",
                        "mlp.shared_expert"};
    const sb_gpu_staged *staged = c.stages_for(shared.down);
    router_logits(c, w);
    feed_in(c, shared);
    if (staged) {
        const sb_gpu_beside beside = {shared.gate_out, shared.up_out, shared.gate.rows,
                                      staged->layers};
        choose(c, &beside);
    } else {
        choose(c, nullptr);
        activate(c, shared, nullptr);
    }
    feed_out(c, shared, staged);
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
    choose_and_share(c, layer->w);
    experts(c, layer->experts);
    if (c.fused)
        c.added = SB_ADDED_combined;
    else
        SB_STEP(c, "mlp.out", sb_gpu_moe_combine_rows(c.gpu, &sum, c.rows, s->shared_logit));
}

void sb_step_mlp(sb_step_call &c, const sb_layer *layer)
{
    const sb_scratch *s = c.s;
    const sb_matrix *w = layer->w;
    if (c.config->experts) {
        mixture(c, layer);
        return;
    }
    const mlp dense = {w[SB_ROLE_gate_proj],
                       w[SB_ROLE_up_proj],
                       w[SB_ROLE_down_proj],
                       SB_MLP_dense,
                       s->gate_out,
                       s->up_out,
                       s->out,
                       "mlp.gate_proj",
                       "mlp.up_proj",
                       "mlp.swiglu",
                       "mlp.out"};
    const sb_gpu_staged *staged = c.stages_for(dense.down);
    feed_in(c, dense);
    activate(c, dense, staged);
    feed_out(c, dense, staged);
}
