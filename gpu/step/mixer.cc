/* mixer.cc - the two kinds of token mixing: ref/run/mixer.c over resident arrays. */
#include "gpu/step/call.h"

extern "C" {
#include "ref/ops/kv_cache.h"
}

static void project(sb_step_call &c, const sb_matrix *w)
{
    const sb_scratch *s = c.s;
    c.matrix("linear_attn.in_proj_qkv", w[SB_ROLE_in_proj_qkv], s->y, s->qkv);
    c.matrix("linear_attn.in_proj_z", w[SB_ROLE_in_proj_z], s->y, s->z);
    c.matrix("linear_attn.in_proj_b", w[SB_ROLE_in_proj_b], s->y, s->b);
    c.matrix("linear_attn.in_proj_a", w[SB_ROLE_in_proj_a], s->y, s->a);
}

/* Convolution, gates and norms: everything the delta rule reads. */
static void prepare(sb_step_call &c, const sb_matrix *w, float *states, const sb_gpu_slots &slots)
{
    const sb_config *m = c.config;
    const sb_scratch *s = c.s;
    const sb_form form = sb_form_of(c.kind);
    const sb_conv_args conv = {
        s->qkv, &w[SB_ROLE_conv1d], c.rows, states, c.trail ? states : nullptr, form, s->conv};
    const sb_gates_args gates = {
        s->a, s->b,   &w[SB_ROLE_A_log], &w[SB_ROLE_dt_bias], c.rows, m->lin_v_heads, form,
        s->g, s->beta};
    const sb_l2norm_args norm = {s->conv,        c.rows,       sb_config_conv_channels(m),
                                 m->lin_k_heads, m->lin_k_dim, sb_l2norm_eps(c.knobs, m),
                                 !c.chunks,      form,         s->lin_q,
                                 s->lin_k};
    SB_STEP(c, "linear_attn.conv", sb_gpu_conv_slots(c.gpu, &conv, &slots));
    SB_STEP(c, "linear_attn.g", sb_gpu_gates(c.gpu, c.knobs, &gates));
    SB_STEP(c, "linear_attn.q", sb_gpu_l2norm(c.gpu, c.knobs, &norm));
}

static void delta_rule(sb_step_call &c, float *states, const sb_gpu_slots &slots)
{
    const sb_config *m = c.config;
    const sb_scratch *s = c.s;
    const sb_delta_rule_args args = {s->lin_q,
                                     s->lin_k,
                                     s->conv + 2 * static_cast<size_t>(sb_config_key_width(m)),
                                     sb_config_conv_channels(m),
                                     s->g,
                                     s->beta,
                                     c.rows,
                                     m->lin_k_heads,
                                     m->lin_v_heads,
                                     m->lin_k_dim,
                                     m->lin_v_dim,
                                     states,
                                     c.trail ? states : nullptr,
                                     s->core};
    if (c.chunks)
        SB_STEP(c, "linear_attn.core_out",
                sb_gpu_delta_rule_chunk_slots(c.gpu, c.knobs, &args, &slots));
    else
        SB_STEP(c, "linear_attn.core_out", sb_gpu_delta_rule_slots(c.gpu, c.knobs, &args, &slots));
}

void sb_step_gdn(sb_step_call &c, const sb_layer *layer)
{
    const sb_config *m = c.config;
    const sb_scratch *s = c.s;
    const sb_matrix *w = layer->w;
    const sb_gpu_slots slots = {c.step->slot, c.step->slots};
    const size_t place = c.linear++ * slots.count;
    const sb_gated_rmsnorm_args norm = {s->core,      s->z,     &w[SB_ROLE_linear_norm],
                                        m->eps_f32,   c.rows,   m->lin_v_heads,
                                        m->lin_v_dim, s->normed};
    project(c, w);
    prepare(c, w, c.step->conv + place * 3 * sb_config_conv_channels(m), slots);
    delta_rule(c, c.step->recurrent + place * m->lin_v_heads * m->lin_k_dim * m->lin_v_dim, slots);
    SB_STEP(c, "linear_attn.norm", sb_gpu_gated_rmsnorm(c.gpu, c.knobs, &norm));
    c.matrix("linear_attn.out_proj", w[SB_ROLE_linear_out_proj], s->normed, s->out);
}

/* Norm per head, then rotation in place. */
static void norm_and_rope(sb_step_call &c, const sb_matrix &weight, const float *in, size_t heads,
                          float *out, const char *norm_name, const char *rope_name)
{
    const sb_config *m = c.config;
    const uint32_t *at = c.s->position;
    const sb_rope_args rope = {
        out,           c.rows,        heads,        m->head_dim,
        m->rotary_dim, m->rope_theta, {at, at, at}, m->has_mrope ? m->mrope_section : nullptr};
    c.norm(norm_name, weight, in, c.rows * heads, m->head_dim, out);
    SB_STEP(c, rope_name, sb_gpu_rope(c.gpu, c.knobs, &rope));
}

static void queries_and_keys(sb_step_call &c, const sb_matrix *w)
{
    const sb_config *m = c.config;
    const sb_scratch *s = c.s;
    const sb_split_gate_args split = {s->packed, c.rows, m->heads, m->head_dim, s->query, s->gate};
    c.matrix("self_attn.q_proj", w[SB_ROLE_q_proj], s->y, s->packed);
    c.matrix("self_attn.k_proj", w[SB_ROLE_k_proj], s->y, s->key);
    c.matrix("self_attn.v_proj", w[SB_ROLE_v_proj], s->y, s->value);
    SB_STEP(c, "self_attn.query", sb_gpu_split_gate(c.gpu, c.knobs, &split));
    norm_and_rope(c, w[SB_ROLE_q_norm], s->query, m->heads, s->query_normed, "self_attn.q_norm",
                  "self_attn.q_rope");
    norm_and_rope(c, w[SB_ROLE_k_norm], s->key, m->kv_heads, c.step->keys_now, "self_attn.k_norm",
                  "self_attn.k_rope");
}

void sb_step_attention(sb_step_call &c, const sb_layer *layer)
{
    const sb_config *m = c.config;
    const sb_scratch *s = c.s;
    const size_t positions = c.step->options.positions, kv = sb_config_kv_width(m);
    const size_t place = c.full++ * positions * c.step->kv_row;
    const float z_k = sb_kv_scale(c.knobs, layer->k_scale);
    const float z_v = sb_kv_scale(c.knobs, layer->v_scale);
    const sb_gpu_cache cache = {c.step->keys + place, c.step->values + place, c.step->first,
                                positions, c.reach};
    const sb_attention_args args = {s->query_normed, nullptr,     nullptr,     c.rows, 0,
                                    m->heads,        m->kv_heads, m->head_dim, z_k,    z_v,
                                    s->attended};
    const sb_attn_gate_args gate = {s->attended, s->gate, c.rows * sb_config_query_width(m),
                                    s->attended};
    queries_and_keys(c, layer->w);
    SB_STEP(c, "keys",
            sb_gpu_append(c.gpu, c.knobs, c.step->keys_now, c.rows, kv, z_k, cache.keys, &cache));
    SB_STEP(c, "values",
            sb_gpu_append(c.gpu, c.knobs, s->value, c.rows, kv, z_v, cache.values, &cache));
    SB_STEP(c, "self_attn.core_out", sb_gpu_attention_cache(c.gpu, c.knobs, &args, &cache));
    SB_STEP(c, "self_attn.gated", sb_gpu_attn_gate(c.gpu, c.knobs, &gate));
    c.matrix("self_attn.o_proj", layer->w[SB_ROLE_o_proj], s->attended, s->out);
}
