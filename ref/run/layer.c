/* layer.c - a decoder layer of each kind, op by op in the order of its formulas.
 *
 * The arrays are those of the call's scratch: x is the residual stream, y is the input and `out`
 * the output of a mixer or an MLP. An op that follows a failed one does nothing (call.h). */
#include "ref/run/layer.h"

#include <string.h>

#include "ref/ops/knob.h"
#include "ref/ops/kv_cache.h"
#include "ref/run/form.h"

/* The stored matrix of a role in this layer. */
#define W(role) (&layer->w[SB_ROLE_##role])

static void linear_of(sb_call *call, sb_linear_kind kind, const char *tap, const sb_matrix *weight,
                      const float *in, float *out)
{
    SB_RUN(call, linear, SB_MADE({tap, out, weight->rows}), .weight = weight, .kind = kind,
           .in = in, .rows = call->rows, .out = out);
}

static void linear(sb_call *call, const char *tap, const sb_matrix *weight, const float *in,
                   float *out)
{
    linear_of(call, SB_LINEAR_layer, tap, weight, in, out);
}

/* Normalises `heads` vectors of n elements in each row. */
static void rmsnorm(sb_call *call, const char *tap, const sb_matrix *weight, const float *in,
                    size_t heads, size_t n, float *out)
{
    SB_RUN(call, rmsnorm, SB_MADE({tap, out, heads * n}), .in = in, .weight = weight,
           .eps = call->model->config.eps_f32, .rows = call->rows * heads, .n = n, .out = out,
           .plain = call->model->config.plain_norms);
}

/* --- linear attention: y to out --------------------------------------------------------------- */

/* S-16: "in a layer of linear attention a row begins with the states that its parent leaves": the
 * slot of the trail for the state before row t. */
static size_t slot_before(const sb_tree *tree, size_t t)
{
    return t ? tree->parent[t] + 1 : 0;
}

static void conv(sb_call *call, const sb_conv_args *all, size_t channels)
{
    static const char tap[] = "linear_attn.conv";
    const sb_value made[] = {{tap, all->out, channels}, {0}};
    const size_t state = sb_state_conv_size(&call->model->config);
    if (!call->tree) {
        sb_run_op(call, SB_OP_conv, all, NULL, made);
        return;
    }
    for (size_t t = 0; t < call->rows && !call->status; t++) {
        sb_conv_args one = *all;
        memcpy(one.state, sb_trail_conv(call->trail, call->layer, slot_before(call->tree, t)),
               state * sizeof *one.state);
        one.in += t * channels;
        one.out += t * channels;
        one.rows = 1;
        one.trail = sb_trail_conv(call->trail, call->layer, t + 1);
        sb_run_op(call, SB_OP_conv, &one, &(const sb_at){t, 0}, SB_MADE({.tap = tap}));
    }
    sb_run_tap(call, tap, all->out, call->rows, channels);
}

static void delta_rule(sb_call *call, int chunks, const sb_delta_rule_args *all)
{
    static const char tap[] = "linear_attn.core_out";
    const size_t width = sb_config_value_width(&call->model->config);
    const size_t state = sb_state_recurrent_size(&call->model->config);
    const sb_value made[] = {{tap, all->out, width}, {0}};
    if (!call->tree) {
        sb_run_op(call, chunks ? SB_OP_delta_rule_chunk : SB_OP_delta_rule, all, NULL, made);
        return;
    }
    for (size_t t = 0; t < call->rows && !call->status; t++) {
        sb_delta_rule_args one = *all;
        memcpy(one.state, sb_trail_recurrent(call->trail, call->layer, slot_before(call->tree, t)),
               state * sizeof *one.state);
        one.q += t * one.k_heads * one.dk;
        one.k += t * one.k_heads * one.dk;
        one.v += t * one.v_stride;
        one.g += t * one.v_heads;
        one.beta += t * one.v_heads;
        one.out += t * width;
        one.rows = 1;
        one.trail = sb_trail_recurrent(call->trail, call->layer, t + 1);
        sb_run_op(call, SB_OP_delta_rule, &one, &(const sb_at){t, 0}, SB_MADE({.tap = tap}));
    }
    sb_run_tap(call, tap, all->out, call->rows, width);
}

static void linear_attention(sb_call *call, const sb_layer *layer)
{
    const sb_config *c = &call->model->config;
    const size_t T = call->rows, C = sb_config_conv_channels(c);
    const size_t Kd = sb_config_key_width(c), Vd = sb_config_value_width(c), nV = c->lin_v_heads;
    const int chunks = sb_takes_chunks(call->knobs, call->kind, T, call->position == 0);
    const sb_form form = sb_form_of(call->kind);
    sb_layer_state *state = &call->state->layers[call->layer];
    sb_trail *trail = call->trail;
    sb_scratch *s = call->s;

    linear(call, "linear_attn.in_proj_qkv", W(in_proj_qkv), s->y, s->qkv);
    linear(call, "linear_attn.in_proj_z", W(in_proj_z), s->y, s->z);
    linear(call, "linear_attn.in_proj_b", W(in_proj_b), s->y, s->b);
    linear(call, "linear_attn.in_proj_a", W(in_proj_a), s->y, s->a);
    conv(call,
         &(const sb_conv_args){.in = s->qkv,
                               .weight = W(conv1d),
                               .rows = T,
                               .state = state->conv,
                               .trail = trail ? sb_trail_conv(trail, call->layer, 1) : NULL,
                               .form = form,
                               .out = s->conv},
         C);
    SB_RUN(call, gates, SB_MADE({"linear_attn.g", s->g, nV}, {"linear_attn.beta", s->beta, nV}),
           .a = s->a, .b = s->b, .a_log = W(A_log), .dt_bias = W(dt_bias), .rows = T, .heads = nV,
           .form = form, .g = s->g, .beta = s->beta);
    SB_RUN(call, l2norm, SB_MADE({"linear_attn.q", s->lin_q, Kd}, {"linear_attn.k", s->lin_k, Kd}),
           .qkv = s->conv, .rows = T, .stride = C, .heads = c->lin_k_heads, .dk = c->lin_k_dim,
           .eps = sb_l2norm_eps(call->knobs, c), .recurrent = !chunks, .form = form, .q = s->lin_q,
           .k = s->lin_k);
    delta_rule(call, chunks,
               &(const sb_delta_rule_args){
                   .q = s->lin_q,
                   .k = s->lin_k,
                   .v = s->conv + 2 * Kd,
                   .v_stride = C,
                   .g = s->g,
                   .beta = s->beta,
                   .rows = T,
                   .k_heads = c->lin_k_heads,
                   .v_heads = nV,
                   .dk = c->lin_k_dim,
                   .dv = c->lin_v_dim,
                   .state = state->recurrent,
                   .trail = trail ? sb_trail_recurrent(trail, call->layer, 1) : NULL,
                   .out = s->core});
    SB_RUN(call, gated_rmsnorm, SB_MADE({"linear_attn.norm", s->normed, Vd}), .in = s->core,
           .z = s->z, .weight = W(linear_norm), .eps = c->eps_f32, .rows = T, .heads = nV,
           .n = c->lin_v_dim, .out = s->normed);
    linear(call, "linear_attn.out_proj", W(linear_out_proj), s->normed, s->out);
}

/* --- full attention: in to out ----------------------------------------------------------------- */

static void rope(sb_call *call, const char *tap, size_t heads, float *x)
{
    const sb_config *c = &call->model->config;
    const uint32_t *position = call->s->position;
    SB_RUN(call, rope, SB_MADE({tap, x, heads * c->head_dim}), .x = x, .rows = call->rows,
           .heads = heads, .hd = c->head_dim, .rd = c->rotary_dim, .theta = c->rope_theta,
           .position = {position, position, position},
           .section = c->has_mrope ? c->mrope_section : NULL, .yarn_factor = c->yarn.factor,
           .yarn_attention = c->yarn.attention, .yarn_low = c->yarn.low, .yarn_high = c->yarn.high);
}

/* Applies K-24 to the new keys and values. */
static void store(const sb_call *call, const sb_layer *layer, float *keys, float *values)
{
    const size_t count = call->rows * sb_config_kv_width(&call->model->config);
    if (call->status)
        return;
    sb_kv_store(call->knobs, layer->k_scale, keys, count, keys);
    sb_kv_store(call->knobs, layer->v_scale, call->s->value, count, values);
}

/* Norms queries or keys, or copies them where there is no norm. */
static void norm_heads(sb_call *call, const char *tap, const sb_matrix *weight, const float *in,
                       size_t heads, float *out)
{
    const size_t hd = call->model->config.head_dim;
    if (weight->data)
        rmsnorm(call, tap, weight, in, heads, hd, out);
    else if (!call->status)
        memcpy(out, in, call->rows * heads * hd * sizeof *out);
}

/* S-16: "a row sees the positions before the round, the rows on the path to it, and itself", "at
 * the position of the token and its depth". The keys and values of all rows stand in the cache, one
 * after the other. For each row, those on its path are laid side by side, so that the op sees what
 * it would see if this path had been fed alone. Afterwards all rows stand where they stood. */
static void attend(sb_call *call, const sb_attention_args *all, float *keys, float *values)
{
    static const char tap[] = "self_attn.core_out";
    const size_t row = all->kv_heads * all->hd, width = all->heads * all->hd;
    const sb_value made[] = {{tap, all->out, width}, {0}};
    const sb_tree *tree = call->tree;
    sb_scratch *s = call->s;
    if (!tree) {
        sb_run_op(call, SB_OP_attention, all, NULL, made);
        return;
    }
    if (call->status)
        return;
    memcpy(s->key, keys, call->rows * row * sizeof *keys);
    memcpy(s->value, values, call->rows * row * sizeof *values);
    for (size_t t = 0; t < call->rows && !call->status; t++) {
        sb_attention_args one = *all;
        for (size_t on = t, at = tree->depth[t] + 1; at-- > 0; on = tree->parent[on]) {
            memcpy(keys + at * row, s->key + on * row, row * sizeof *keys);
            memcpy(values + at * row, s->value + on * row, row * sizeof *values);
        }
        one.q += t * width;
        one.out += t * width;
        one.first += tree->depth[t];
        one.rows = 1;
        sb_run_op(call, SB_OP_attention, &one, &(const sb_at){t, 0}, SB_MADE({.tap = tap}));
    }
    memcpy(keys, s->key, call->rows * row * sizeof *keys);
    memcpy(values, s->value, call->rows * row * sizeof *values);
    sb_run_tap(call, tap, all->out, call->rows, width);
}

void sb_run_attention(sb_call *call, const sb_layer *layer, const float *in)
{
    const sb_config *c = &call->model->config;
    const size_t T = call->rows, Qd = sb_config_query_width(c), hd = c->head_dim;
    const size_t first = (size_t)call->position, before = first * sb_config_kv_width(c);
    sb_layer_state *state = &call->state->layers[call->layer];
    float *keys = state->keys + before, *values = state->values + before;
    sb_scratch *s = call->s;
    const int gated = c->attn_output_gate;

    linear(call, "self_attn.q_proj", W(q_proj), in, gated ? s->packed : s->query);
    linear(call, "self_attn.k_proj", W(k_proj), in, s->key);
    linear(call, "self_attn.v_proj", W(v_proj), in, s->value);
    if (gated)
        SB_RUN(call, split_gate,
               SB_MADE({"self_attn.query", s->query, Qd}, {"self_attn.gate", s->gate, Qd}),
               .in = s->packed, .rows = T, .heads = c->heads, .hd = hd, .query = s->query,
               .gate = s->gate);
    norm_heads(call, "self_attn.q_norm", W(q_norm), s->query, c->heads, s->query_normed);
    rope(call, "self_attn.q_rope", c->heads, s->query_normed);
    norm_heads(call, "self_attn.k_norm", W(k_norm), s->key, c->kv_heads, keys);
    rope(call, "self_attn.k_rope", c->kv_heads, keys);
    store(call, layer, keys, values);
    attend(call,
           &(const sb_attention_args){.q = s->query_normed,
                                      .keys = state->keys,
                                      .values = state->values,
                                      .rows = T,
                                      .first = first,
                                      .heads = c->heads,
                                      .kv_heads = c->kv_heads,
                                      .hd = hd,
                                      .key_scale = sb_kv_scale(call->knobs, layer->k_scale),
                                      .value_scale = sb_kv_scale(call->knobs, layer->v_scale),
                                      .out = s->attended},
           keys, values);
    if (gated)
        SB_RUN(call, attn_gate, SB_MADE({"self_attn.gated", s->attended, Qd}), .in = s->attended,
               .gate = s->gate, .count = T * Qd, .out = s->attended);
    linear(call, "self_attn.o_proj", W(o_proj), s->attended, s->out);
}

/* --- one MLP, or experts and perhaps a gated shared expert: y to out ------------------------- */

static void swiglu(sb_call *call, const char *tap, sb_mlp_kind kind, float *gate, const float *up,
                   size_t n)
{
    SB_RUN(call, swiglu, SB_MADE({tap, gate, n}), .gate = gate, .up = up, .count = call->rows * n,
           .kind = kind, .out = gate);
}

static void dense_mlp(sb_call *call, const sb_layer *layer)
{
    sb_scratch *s = call->s;
    linear(call, "mlp.gate_proj", W(gate_proj), s->y, s->gate_out);
    linear(call, "mlp.up_proj", W(up_proj), s->y, s->up_out);
    swiglu(call, "mlp.swiglu", SB_MLP_dense, s->gate_out, s->up_out, W(gate_proj)->rows);
    linear(call, "mlp.out", W(down_proj), s->gate_out, s->out);
}

static void shared_expert(sb_call *call, const sb_layer *layer)
{
    sb_scratch *s = call->s;
    linear(call, "mlp.shared_expert.gate_proj", W(shared_gate_proj), s->y, s->shared_gate);
    linear(call, "mlp.shared_expert.up_proj", W(shared_up_proj), s->y, s->shared_up);
    swiglu(call, "mlp.shared_expert.swiglu", SB_MLP_shared, s->shared_gate, s->shared_up,
           W(shared_gate_proj)->rows);
    linear(call, "mlp.shared_expert", W(shared_down_proj), s->shared_gate, s->shared_out);
    linear_of(call, SB_LINEAR_shared_gate, "mlp.shared_expert_gate", W(shared_expert_gate), s->y,
              s->shared_logit);
}

/* Copies the expert ids to ids_shown, the floats that taps see. Checks that the experts exist
 * before their weights are looked up. */
static void take_ids(sb_call *call)
{
    const sb_config *c = &call->model->config;
    const size_t k = c->experts_per_token;
    for (size_t i = 0; i < call->rows * k && !call->status; i++) {
        const uint32_t id = call->s->ids[i];
        call->s->ids_shown[i] = (float)id;
        if (id >= c->experts)
            call->status = sb_fail(call->err, SB_ERR_DIFF,
                                   "layer %u: in slot %zu of row %zu the router chose expert %u; "
                                   "there are %u",
                                   call->layer, i % k, i / k, id, c->experts);
    }
    sb_run_tap(call, "mlp.router_ids", call->s->ids_shown, call->rows, k);
    sb_run_tap(call, "mlp.router_weights", call->s->weights, call->rows, k);
    if (!call->status)
        sb_pager_experts(sb_call_pager(call), call->layer, call->s->ids, call->rows * k);
}

/* The arguments for one projection of every kept expert of every row. The output is (T, k, n).
 * `each` neighbouring slots share a row of `in`. */
static sb_expert_linear_args projection(const sb_call *call, const sb_matrix *weight,
                                        sb_linear_kind kind, const float *in, size_t each,
                                        float *out)
{
    const sb_config *c = &call->model->config;
    return (sb_expert_linear_args){.weight = weight,
                                   .stride = sizeof(sb_expert),
                                   .experts = c->experts,
                                   .ids = call->s->ids,
                                   .rows = call->rows,
                                   .kept = c->experts_per_token,
                                   .each = each,
                                   .kind = kind,
                                   .in = in,
                                   .out = out};
}

static void kept_experts(sb_call *call, const sb_expert *experts)
{
    static const char *const taps[] = {"mlp.experts.gate_proj", "mlp.experts.up_proj",
                                       "mlp.experts.down_proj"};
    const sb_config *c = &call->model->config;
    const size_t k = c->experts_per_token;
    sb_scratch *s = call->s;
    const sb_expert_linear_args gate_up[] = {
        projection(call, &experts->gate, SB_LINEAR_expert_in, s->y, k, s->gate_out),
        projection(call, &experts->up, SB_LINEAR_expert_in, s->y, k, s->up_out)};
    const sb_expert_linear_args down =
        projection(call, &experts->down, SB_LINEAR_expert_down, s->gate_out, 1, s->expert_out);
    sb_run_experts(call, gate_up, 2, taps);
    swiglu(call, "mlp.experts.swiglu", SB_MLP_expert, s->gate_out, s->up_out,
           k * c->moe_intermediate);
    sb_run_experts(call, &down, 1, taps + 2);
}

static void mixture_of_experts(sb_call *call, const sb_layer *layer)
{
    const sb_config *c = &call->model->config;
    const size_t k = c->experts_per_token;
    sb_scratch *s = call->s;
    linear_of(call, SB_LINEAR_router, "mlp.gate", W(router), s->y, s->router_logits);
    SB_RUN(call, router, SB_MADE({.tap = "mlp.router_ids"}), .logits = s->router_logits,
           .rows = call->rows, .experts = c->experts, .kept = k, .renormalise = c->norm_topk_prob,
           .ids = s->ids, .weights = s->weights);
    take_ids(call);
    if (c->shared_intermediate) /* else R-17: "f_shared = 0 and l_shared = 0", as allocated */
        shared_expert(call, layer);
    kept_experts(call, layer->experts);
    const sb_moe_combine_args first = {.expert_out = s->expert_out,
                                       .weights = s->weights,
                                       .ids = s->ids,
                                       .shared_out = s->shared_out,
                                       .kept = k,
                                       .n = c->hidden_size,
                                       .out = s->out};
    sb_run_combine(call, &first, s->shared_logit, "mlp.out");
}

/* --- the layer: x to x ------------------------------------------------------------------------ */

/* x = x + out; K-48: "Under sum, the norm reads RN(x + y) instead" - here s->sum, the input of the
 * next norm */
static void residual(sb_call *call, const char *tap)
{
    sb_scratch *s = call->s;
    const size_t H = call->model->config.hidden_size;
    float *sum = SB_IS(call->knobs, norm_input, sum) ? s->sum : NULL;
    SB_RUN(call, add, SB_MADE({tap, s->x, H}), .a = s->x, .b = s->out, .count = call->rows * H,
           .out = s->x, .sum = sum);
    s->stream = sum ? sum : s->x;
}

void sb_run_second_half(sb_call *call, const sb_layer *layer)
{
    sb_scratch *s = call->s;
    residual(call, "attn_residual");
    rmsnorm(call, "post_attention_layernorm", W(post_attention_layernorm), s->stream, 1,
            call->model->config.hidden_size, s->y);
    if (layer->experts)
        mixture_of_experts(call, layer);
    else
        dense_mlp(call, layer);
    residual(call, "output");
}

/* "x = x + mixer( rmsnorm(x, input_layernorm) ), then x = x + mlp( rmsnorm(x,
 * post_attention_layernorm) )" */
void sb_run_layer(sb_call *call, const sb_layer *layer, int full)
{
    const sb_config *c = &call->model->config;
    sb_scratch *s = call->s;
    sb_pager_enter(sb_call_pager(call), call->layer);
    rmsnorm(call, "input_layernorm", W(input_layernorm), s->stream, 1, c->hidden_size, s->y);
    if (full)
        sb_run_attention(call, layer, s->y);
    else
        linear_attention(call, layer);
    sb_run_second_half(call, layer);
    sb_pager_leave(sb_call_pager(call), call->layer);
}
