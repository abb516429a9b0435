/* mixer.cc - the two kinds of token mixing of ref/run/layer.c, over resident arrays. */
#include "gpu/step/call.h"
#include "ref/ops/kv_cache.h"

static void project(sb_step_call &c, const sb_matrix *w)
{
    const sb_scratch *s = c.s;
    const sb_step_matrix all[] = {{"linear_attn.in_proj_qkv", &w[SB_ROLE_in_proj_qkv], s->qkv},
                                  {"linear_attn.in_proj_z", &w[SB_ROLE_in_proj_z], s->z},
                                  {"linear_attn.in_proj_b", &w[SB_ROLE_in_proj_b], s->b},
                                  {"linear_attn.in_proj_a", &w[SB_ROLE_in_proj_a], s->a}};
    c.matrices(all, 4);
}

/* The arguments of the ops between the projections of linear attention. */
struct gdn_args {
    sb_conv_args conv;
    sb_gates_args gates;
    sb_l2norm_args norm;
    sb_delta_rule_args rule;
    sb_gated_rmsnorm_args gated;
    sb_gpu_slots slots;
};
static gdn_args args_of(const sb_step_call &c, const sb_matrix *w, float *conv, float *states)
{
    const sb_config *m = c.config;
    const sb_scratch *s = c.s;
    const sb_form form = sb_form_of(c.kind);
    gdn_args a = gdn_args();
    a.conv = {s->qkv, &w[SB_ROLE_conv1d], c.rows, conv, c.trail ? conv : nullptr, form, s->conv};
    a.gates = {s->a, s->b,   &w[SB_ROLE_A_log], &w[SB_ROLE_dt_bias], c.rows, m->lin_v_heads, form,
               s->g, s->beta};
    a.norm = {s->conv,        c.rows,       sb_config_conv_channels(m),
              m->lin_k_heads, m->lin_k_dim, sb_l2norm_eps(c.knobs, m),
              !c.chunks,      form,         s->lin_q,
              s->lin_k};
    a.rule = {s->lin_q,
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
    a.gated = {s->core,      s->z,     &w[SB_ROLE_linear_norm], m->eps_f32, c.rows, m->lin_v_heads,
               m->lin_v_dim, s->normed};
    a.slots = {c.step->slot, c.step->slots};
    return a;
}

/* Runs these ops one by one, without fused kernels. */
static void run_apart(sb_step_call &c, const gdn_args &a)
{
    SB_STEP(c, "linear_attn.conv", sb_gpu_conv_slots(c.gpu, &a.conv, &a.slots));
    SB_STEP(c, "linear_attn.g", sb_gpu_gates(c.gpu, c.knobs, &a.gates));
    SB_STEP(c, "linear_attn.q", sb_gpu_l2norm(c.gpu, c.knobs, &a.norm));
    if (c.chunks)
        SB_STEP(c, "linear_attn.core_out",
                sb_gpu_delta_rule_chunk_slots(c.gpu, c.knobs, &a.rule, &a.slots));
    else
        SB_STEP(c, "linear_attn.core_out",
                sb_gpu_delta_rule_slots(c.gpu, c.knobs, &a.rule, &a.slots));
    SB_STEP(c, "linear_attn.norm", sb_gpu_gated_rmsnorm(c.gpu, c.knobs, &a.gated));
}
static void run_fused(sb_step_call &c, const gdn_args &a, const sb_gpu_staged *staged)
{
    const sb_gpu_gdn_args all = {&a.conv, &a.gates, &a.norm, &a.rule};
    const sb_gpu_staged nowhere = {nullptr, nullptr};
    sb_gated_rmsnorm_args gated = a.gated;
    gated.out = staged ? nullptr : gated.out;
    SB_STEP(c, "linear_attn.core_out", sb_gpu_gdn(c.gpu, c.knobs, &all, &a.slots));
    SB_STEP(c, "linear_attn.norm",
            sb_gpu_gdn_end(c.gpu, &gated, &a.conv, &a.slots, staged ? staged : &nowhere));
}

void sb_step_gdn(sb_step_call &c, const sb_layer *layer)
{
    const sb_config *m = c.config;
    const sb_scratch *s = c.s;
    const sb_matrix *w = layer->w;
    const size_t place = c.linear++ * c.step->slots;
    const gdn_args a =
        args_of(c, w, c.step->conv + place * 3 * sb_config_conv_channels(m),
                c.step->recurrent + place * m->lin_v_heads * m->lin_k_dim * m->lin_v_dim);
    const bool fused = c.fused && !c.chunks;
    const sb_gpu_staged *staged = fused ? c.stages_for(w[SB_ROLE_linear_out_proj]) : nullptr;
    project(c, w);
    if (fused)
        run_fused(c, a, staged);
    else
        run_apart(c, a);
    c.matrix("linear_attn.out_proj", w[SB_ROLE_linear_out_proj],
             {s->normed, staged ? staged->layers : nullptr}, s->out);
}

static sb_rope_args rotation(const sb_step_call &c, size_t heads, float *x)
{
    const sb_config *m = c.config;
    const uint32_t *at = c.s->position;
    return {x,
            c.rows,
            heads,
            m->head_dim,
            m->rotary_dim,
            m->rope_theta,
            {at, at, at},
            m->has_mrope ? m->mrope_section : nullptr,
            m->yarn.factor,
            m->yarn.attention,
            m->yarn.low,
            m->yarn.high};
}

/* Computes the table of rotations once for all layers. */
sb_status sb_step_turns(const sb_step_call &c)
{
    const sb_rope_args args = rotation(c, 0, nullptr);
    return c.fused ? sb_gpu_turns(c.gpu, &args, c.step->fused.turns) : SB_OK;
}

/* Norms each head, then rotates the result in place. */
static void norm_and_rope(sb_step_call &c, const sb_matrix &weight, const float *in, size_t heads,
                          float *out, const char *norm_name, const char *rope_name)
{
    const sb_rope_args rope = rotation(c, heads, out);
    c.norm(norm_name, weight, in, c.rows * heads, c.config->head_dim, out);
    SB_STEP(c, rope_name, sb_gpu_rope(c.gpu, c.knobs, &rope));
}

/* Appends keys and values to the cache and computes queries, without fused kernels. */
static void append_apart(sb_step_call &c, const sb_matrix *w, const sb_gpu_cache &cache, float z_k,
                         float z_v)
{
    const sb_config *m = c.config;
    const sb_scratch *s = c.s;
    const size_t kv = sb_config_kv_width(m);
    norm_and_rope(c, w[SB_ROLE_k_norm], s->key, m->kv_heads, c.step->keys_now, "self_attn.k_norm",
                  "self_attn.k_rope");
    SB_STEP(c, "keys",
            sb_gpu_append(c.gpu, c.knobs, c.step->keys_now, c.rows, kv, z_k, cache.keys, &cache));
    SB_STEP(c, "values",
            sb_gpu_append(c.gpu, c.knobs, s->value, c.rows, kv, z_v, cache.values, &cache));
}
static void query_apart(sb_step_call &c, const sb_matrix *w)
{
    const sb_config *m = c.config;
    const sb_scratch *s = c.s;
    const sb_split_gate_args split = {s->packed, c.rows, m->heads, m->head_dim, s->query, s->gate};
    SB_STEP(c, "self_attn.query", sb_gpu_split_gate(c.gpu, c.knobs, &split));
    norm_and_rope(c, w[SB_ROLE_q_norm], s->query, m->heads, s->query_normed, "self_attn.q_norm",
                  "self_attn.q_rope");
}
static void heads_fused(sb_step_call &c, const sb_matrix *w, const sb_gpu_cache &cache, float z_k,
                        float z_v, size_t queries, bool gates)
{
    const sb_config *m = c.config;
    const sb_scratch *s = c.s;
    const sb_gpu_heads_args args = {s->packed,
                                    s->key,
                                    s->value,
                                    c.step->fused.turns,
                                    &w[SB_ROLE_q_norm],
                                    &w[SB_ROLE_k_norm],
                                    c.rows,
                                    queries,
                                    m->kv_heads,
                                    m->head_dim,
                                    m->rotary_dim,
                                    m->eps_f32,
                                    z_k,
                                    z_v,
                                    s->query_normed,
                                    gates ? s->gate : nullptr};
    SB_STEP(c, "self_attn.q_rope", sb_gpu_heads(c.gpu, c.knobs, &args, &cache));
}

static void project_heads(sb_step_call &c, const sb_matrix *w, bool queries)
{
    const sb_scratch *s = c.s;
    const sb_step_matrix all[] = {{"self_attn.q_proj", &w[SB_ROLE_q_proj], s->packed},
                                  {"self_attn.k_proj", &w[SB_ROLE_k_proj], s->key},
                                  {"self_attn.v_proj", &w[SB_ROLE_v_proj], s->value}};
    c.matrices(queries ? all : all + 1, queries ? 3 : 2);
}

/* Returns the cache of the current attention layer. */
static sb_gpu_cache cache_of(sb_step_call &c)
{
    const size_t positions = c.step->options.positions;
    const size_t place = c.full++ * positions * c.step->kv_row;
    return {c.step->keys + place, c.step->values + place, c.step->first, positions, c.reach};
}

void sb_step_entries(sb_step_call &c, const sb_layer *layer)
{
    const float z_k = sb_kv_scale(c.knobs, layer->k_scale);
    const float z_v = sb_kv_scale(c.knobs, layer->v_scale);
    const sb_gpu_cache cache = cache_of(c);
    project_heads(c, layer->w, false);
    if (c.fused)
        heads_fused(c, layer->w, cache, z_k, z_v, 0, false);
    else
        append_apart(c, layer->w, cache, z_k, z_v);
}

void sb_step_attention(sb_step_call &c, const sb_layer *layer)
{
    const sb_config *m = c.config;
    const sb_scratch *s = c.s;
    const float z_k = sb_kv_scale(c.knobs, layer->k_scale);
    const float z_v = sb_kv_scale(c.knobs, layer->v_scale);
    const sb_gpu_cache cache = cache_of(c);
    const sb_attention_args args = {s->query_normed, nullptr,     nullptr,     c.rows, 0,
                                    m->heads,        m->kv_heads, m->head_dim, z_k,    z_v,
                                    s->attended};
    const sb_attn_gate_args gate = {s->attended, s->gate, c.rows * sb_config_query_width(m),
                                    s->attended};
    const sb_gpu_staged *staged = c.stages_for(layer->w[SB_ROLE_o_proj]);
    project_heads(c, layer->w, true);
    if (c.fused) {
        heads_fused(c, layer->w, cache, z_k, z_v, m->heads, !staged);
    } else {
        query_apart(c, layer->w);
        append_apart(c, layer->w, cache, z_k, z_v);
    }
    SB_STEP(c, "self_attn.core_out", sb_gpu_attention_cache(c.gpu, c.knobs, &args, &cache));
    if (staged)
        SB_STEP(c, "self_attn.gated",
                sb_gpu_attn_gate_staged(c.gpu, s->attended, s->packed, c.rows, m->heads,
                                        m->head_dim, staged->layers));
    else
        SB_STEP(c, "self_attn.gated", sb_gpu_attn_gate(c.gpu, c.knobs, &gate));
    c.matrix("self_attn.o_proj", layer->w[SB_ROLE_o_proj],
             {s->attended, staged ? staged->layers : nullptr}, s->out);
}
