/* mixer.c - the two kinds of token mixing: gated delta rule and gated attention. */
#include "ref/ops/kv_cache.h"
#include "ref/run/form.h"
#include "ref/run/schedule.h"

static sb_form form_of(const sb_call *call)
{
    return sb_form_of(call->kind);
}

static int takes_chunks(const sb_call *call)
{
    return sb_takes_chunks(call->knobs, call->kind, call->rows, call->position == 0);
}

static sb_status project(sb_call *call, const sb_layer *layer)
{
    sb_scratch *s = call->s;
    sb_status status = sb_run_linear(call, &layer->w[SB_ROLE_in_proj_qkv], s->y, call->rows, s->qkv,
                                     "linear_attn.in_proj_qkv");
    if (!status)
        status = sb_run_linear(call, &layer->w[SB_ROLE_in_proj_z], s->y, call->rows, s->z,
                               "linear_attn.in_proj_z");
    if (!status)
        status = sb_run_linear(call, &layer->w[SB_ROLE_in_proj_b], s->y, call->rows, s->b,
                               "linear_attn.in_proj_b");
    if (!status)
        status = sb_run_linear(call, &layer->w[SB_ROLE_in_proj_a], s->y, call->rows, s->a,
                               "linear_attn.in_proj_a");
    return status;
}

/* Convolution, gates and norms: everything the delta rule reads. */
static sb_status prepare(sb_call *call, const sb_layer *layer, float *conv_state, float *conv_trail)
{
    const sb_config *c = &call->model->config;
    sb_scratch *s = call->s;
    size_t C = sb_config_conv_channels(c), Kd = sb_config_key_width(c), T = call->rows;
    sb_status status = SB_RUN(call, conv, "linear_attn.conv", .in = s->qkv,
                              .weight = &layer->w[SB_ROLE_conv1d], .rows = T, .state = conv_state,
                              .trail = conv_trail, .form = form_of(call), .out = s->conv);
    if (!status)
        status = sb_show_tap(call, "linear_attn.conv", s->conv, T, C);
    if (!status)
        status = SB_RUN(call, gates, "linear_attn.g", .a = s->a, .b = s->b,
                        .a_log = &layer->w[SB_ROLE_A_log], .dt_bias = &layer->w[SB_ROLE_dt_bias],
                        .rows = T, .heads = c->lin_v_heads, .form = form_of(call), .g = s->g,
                        .beta = s->beta);
    if (!status)
        status = sb_show_tap(call, "linear_attn.g", s->g, T, c->lin_v_heads);
    if (!status)
        status = sb_show_tap(call, "linear_attn.beta", s->beta, T, c->lin_v_heads);
    if (!status)
        status = SB_RUN(call, l2norm, "linear_attn.q", .qkv = s->conv, .rows = T, .stride = C,
                        .heads = c->lin_k_heads, .dk = c->lin_k_dim,
                        .eps = sb_l2norm_eps(call->knobs, c), .recurrent = !takes_chunks(call),
                        .form = form_of(call), .q = s->lin_q, .k = s->lin_k);
    if (!status)
        status = sb_show_tap(call, "linear_attn.q", s->lin_q, T, Kd);
    if (!status)
        status = sb_show_tap(call, "linear_attn.k", s->lin_k, T, Kd);
    return status;
}

static sb_status delta_rule(sb_call *call, float *recurrent, float *trail)
{
    const sb_config *c = &call->model->config;
    sb_scratch *s = call->s;
    sb_delta_rule_args args = {.q = s->lin_q,
                               .k = s->lin_k,
                               .v = s->conv + 2 * (size_t)sb_config_key_width(c),
                               .v_stride = sb_config_conv_channels(c),
                               .g = s->g,
                               .beta = s->beta,
                               .rows = call->rows,
                               .k_heads = c->lin_k_heads,
                               .v_heads = c->lin_v_heads,
                               .dk = c->lin_k_dim,
                               .dv = c->lin_v_dim,
                               .state = recurrent,
                               .trail = trail,
                               .out = s->core};
    sb_op op = takes_chunks(call) ? SB_OP_delta_rule_chunk : SB_OP_delta_rule;
    sb_status status = sb_run_op(call, op, "linear_attn.core_out", NULL, &args);
    return status ? status
                  : sb_show_tap(call, "linear_attn.core_out", s->core, call->rows,
                                sb_config_value_width(c));
}

sb_status sb_run_gdn(sb_call *call, const sb_layer *layer)
{
    const sb_config *c = &call->model->config;
    sb_layer_state *state = &call->state->layers[call->layer];
    sb_scratch *s = call->s;
    sb_trail *trail = call->trail;
    sb_status status = project(call, layer);
    if (!status)
        status =
            prepare(call, layer, state->conv, trail ? sb_trail_conv(trail, call->layer, 1) : NULL);
    if (!status)
        status = delta_rule(call, state->recurrent,
                            trail ? sb_trail_recurrent(trail, call->layer, 1) : NULL);
    if (!status)
        status =
            SB_RUN(call, gated_rmsnorm, "linear_attn.norm", .in = s->core, .z = s->z,
                   .weight = &layer->w[SB_ROLE_linear_norm], .eps = c->eps_f32, .rows = call->rows,
                   .heads = c->lin_v_heads, .n = c->lin_v_dim, .out = s->normed);
    if (!status)
        status =
            sb_show_tap(call, "linear_attn.norm", s->normed, call->rows, sb_config_value_width(c));
    if (!status)
        status = sb_run_linear(call, &layer->w[SB_ROLE_linear_out_proj], s->normed, call->rows,
                               s->out, "linear_attn.out_proj");
    return status;
}

/* Norm per head, then rotation in place. */
static sb_status norm_and_rope(sb_call *call, const sb_matrix *weight, const float *in,
                               size_t heads, float *out, const char *norm_tap, const char *rope_tap)
{
    const sb_config *c = &call->model->config;
    const uint32_t *position = call->s->position;
    sb_status status =
        SB_RUN(call, rmsnorm, norm_tap, .in = in, .weight = weight, .eps = c->eps_f32,
               .rows = call->rows * heads, .n = c->head_dim, .out = out);
    if (!status)
        status = sb_show_tap(call, norm_tap, out, call->rows, heads * c->head_dim);
    if (!status)
        status = SB_RUN(call, rope, rope_tap, .x = out, .rows = call->rows, .heads = heads,
                        .hd = c->head_dim, .rd = c->rotary_dim, .theta = c->rope_theta,
                        .position = {position, position, position},
                        .section = c->has_mrope ? c->mrope_section : NULL);
    if (!status)
        status = sb_show_tap(call, rope_tap, out, call->rows, heads * c->head_dim);
    return status;
}

static sb_status queries_and_keys(sb_call *call, const sb_layer *layer)
{
    const sb_config *c = &call->model->config;
    sb_scratch *s = call->s;
    sb_status status = sb_run_linear(call, &layer->w[SB_ROLE_q_proj], s->y, call->rows, s->packed,
                                     "self_attn.q_proj");
    if (!status)
        status = sb_run_linear(call, &layer->w[SB_ROLE_k_proj], s->y, call->rows, s->key,
                               "self_attn.k_proj");
    if (!status)
        status = sb_run_linear(call, &layer->w[SB_ROLE_v_proj], s->y, call->rows, s->value,
                               "self_attn.v_proj");
    if (!status)
        status = SB_RUN(call, split_gate, "self_attn.query", .in = s->packed, .rows = call->rows,
                        .heads = c->heads, .hd = c->head_dim, .query = s->query, .gate = s->gate);
    if (!status)
        status =
            sb_show_tap(call, "self_attn.query", s->query, call->rows, sb_config_query_width(c));
    if (!status)
        status = sb_show_tap(call, "self_attn.gate", s->gate, call->rows, sb_config_query_width(c));
    if (!status)
        status = norm_and_rope(call, &layer->w[SB_ROLE_q_norm], s->query, c->heads, s->query_normed,
                               "self_attn.q_norm", "self_attn.q_rope");
    return status;
}

sb_status sb_run_attention(sb_call *call, const sb_layer *layer)
{
    const sb_config *c = &call->model->config;
    sb_layer_state *state = &call->state->layers[call->layer];
    sb_scratch *s = call->s;
    size_t kv = sb_config_kv_width(c), Qd = sb_config_query_width(c), T = call->rows;
    size_t first = (size_t)call->position;
    sb_status status = queries_and_keys(call, layer);
    if (!status)
        status = norm_and_rope(call, &layer->w[SB_ROLE_k_norm], s->key, c->kv_heads,
                               state->keys + first * kv, "self_attn.k_norm", "self_attn.k_rope");
    if (status)
        return status;
    float *keys = state->keys + first * kv, *values = state->values + first * kv;
    sb_kv_store(call->knobs, layer->k_scale, keys, T * kv, keys);
    sb_kv_store(call->knobs, layer->v_scale, s->value, T * kv, values);
    status = SB_RUN(call, attention, "self_attn.core_out", .q = s->query_normed,
                    .keys = state->keys, .values = state->values, .rows = T, .first = first,
                    .heads = c->heads, .kv_heads = c->kv_heads, .hd = c->head_dim,
                    .key_scale = sb_kv_scale(call->knobs, layer->k_scale),
                    .value_scale = sb_kv_scale(call->knobs, layer->v_scale), .out = s->attended);
    if (!status)
        status = sb_show_tap(call, "self_attn.core_out", s->attended, T, Qd);
    if (!status)
        status = SB_RUN(call, attn_gate, "self_attn.gated", .in = s->attended, .gate = s->gate,
                        .count = T * Qd, .out = s->attended);
    if (!status)
        status = sb_show_tap(call, "self_attn.gated", s->attended, T, Qd);
    if (!status)
        status = sb_run_linear(call, &layer->w[SB_ROLE_o_proj], s->attended, T, s->out,
                               "self_attn.o_proj");
    return status;
}
