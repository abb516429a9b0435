/* forced_attention.c - the ops of a full attention layer. */
#include "ref/fast/fast.h"
#include "tests/hf/forced.h"

#include <string.h>

/* The two halves of every head of the packed query projection, computed without the op that splits
 * it. */
typedef struct halves {
    float *query, *gate; /* (T, nQ hd) */
} halves;

static halves split(forced *f, const float *packed, size_t rows)
{
    const sb_config *c = &f->fixture->model->config;
    size_t hd = c->head_dim, count = rows * c->heads * hd;
    halves h = {hf_floats(&f->arena, count), hf_floats(&f->arena, count)};
    for (size_t i = 0; i < rows * c->heads; i++) {
        memcpy(h.query + i * hd, packed + 2 * i * hd, hd * sizeof *packed);
        memcpy(h.gate + i * hd, packed + (2 * i + 1) * hd, hd * sizeof *packed);
    }
    return h;
}

/* transformers records the results that use the halves: the norm of one, the product with the
 * other. */
static void check_split(forced *f, const forced_call *call, const float *packed, const float *core,
                        const float *q_norm, const float *gated)
{
    const sb_config *c = &f->fixture->model->config;
    size_t hd = c->head_dim, rows = call->count * c->heads, count = rows * hd;
    forced_out query = forced_room(f, count), gate = forced_room(f, count);
    const sb_split_gate_args args = {.in = packed,
                                     .rows = call->count,
                                     .heads = c->heads,
                                     .hd = hd,
                                     .query = query.got,
                                     .gate = gate.got};
    FORCED_RUN(f, split_gate, args);
    halves right = split(f, packed, call->count);
    const sb_rmsnorm_args norm = {.in = right.query,
                                  .rows = rows,
                                  .n = hd,
                                  .eps = c->eps_f32,
                                  .weight =
                                      &forced_layer(f, f->fixture->attention)->w[SB_ROLE_q_norm]};
    FORCED_BOUND(f, rmsnorm, norm, query, NULL);
    sb_rmsnorm_args ours = norm;
    ours.in = memcpy(hf_floats(&f->arena, count), query.got, count * sizeof(float));
    ours.out = query.got;
    forced_status(f, sb_rmsnorm_fast(&f->knobs, &ours));
    forced_compare(f, FORCED_split_gate, "q_norm of the query half", &query, q_norm, hd);

    const sb_attn_gate_args product = {.in = core, .gate = right.gate, .count = count};
    FORCED_BOUND(f, attn_gate, product, gate, NULL);
    sb_attn_gate_args mine = product;
    mine.gate = memcpy(hf_floats(&f->arena, count), gate.got, count * sizeof(float));
    mine.out = gate.got;
    forced_status(f, sb_attn_gate_fast(&f->knobs, &mine));
    forced_compare(f, FORCED_split_gate, "gated by the gate half", &gate, gated, hd);
}

/* R-7 for queries or keys, at the positions of the recorded rows. */
static void check_rope(forced *f, const char *tap, const forced_call *call, const float *in,
                       size_t heads, const float *want)
{
    const sb_config *c = &f->fixture->model->config;
    size_t count = call->count * heads * c->head_dim;
    forced_out out = forced_room(f, count);
    memcpy(out.got, in, count * sizeof *in);
    const sb_rope_args args = {.x = out.got,
                               .rows = call->count,
                               .heads = heads,
                               .hd = c->head_dim,
                               .rd = c->rotary_dim,
                               .theta = c->rope_theta,
                               .position = {call->at, call->at, call->at},
                               .section = c->has_mrope ? c->mrope_section : NULL,
                               .yarn_factor = c->yarn.factor,
                               .yarn_attention = c->yarn.attention,
                               .yarn_low = c->yarn.low,
                               .yarn_high = c->yarn.high};
    FORCED_BOUND(f, rope, args, out, NULL);
    FORCED_RUN(f, rope, args);
    forced_compare(f, FORCED_rope, tap, &out, want, heads * c->head_dim);
}

/* one recorded row at a time over the recorded keys and values up to it. */
static void check_core(forced *f, const forced_call *call, const float *q, const float *keys,
                       const float *values, const float *want)
{
    const sb_config *c = &f->fixture->model->config;
    size_t width = (size_t)c->heads * c->head_dim;
    for (size_t i = 0; i < call->count; i++) {
        forced_out out = forced_room(f, width);
        const sb_attention_args args = {.q = q + i * width,
                                        .keys = keys,
                                        .values = values,
                                        .rows = 1,
                                        .first = call->at[i],
                                        .heads = c->heads,
                                        .kv_heads = c->kv_heads,
                                        .hd = c->head_dim,
                                        .out = out.got};
        FORCED_BOUND(f, attention, args, out, NULL);
        FORCED_RUN(f, attention, args);
        forced_compare(f, FORCED_attention, "self_attn.core_out", &out, want + i * width, width);
    }
}

static void check_gate(forced *f, const float *core, const float *gate, size_t count,
                       const float *want)
{
    const sb_config *c = &f->fixture->model->config;
    forced_out out = forced_room(f, count);
    const sb_attn_gate_args args = {.in = core, .gate = gate, .count = count, .out = out.got};
    FORCED_BOUND(f, attn_gate, args, out, NULL);
    FORCED_RUN(f, attn_gate, args);
    forced_compare(f, FORCED_attn_gate, "self_attn.gated", &out, want,
                   (size_t)c->heads * c->head_dim);
}

void forced_check_attention(forced *f, const forced_call *call)
{
    const sb_config *c = &f->fixture->model->config;
    unsigned layer = f->fixture->attention;
    const sb_matrix *w = forced_layer(f, layer)->w;
    size_t n = call->length, kv = (size_t)c->kv_heads * c->head_dim, rows = call->count;
    size_t count = rows * c->heads * c->head_dim;
    const char *const taps[] = {"input_layernorm",  "self_attn.q_proj", "self_attn.k_proj",
                                "self_attn.v_proj", "self_attn.q_norm", "self_attn.k_norm",
                                "self_attn.q_rope", "self_attn.k_rope", "self_attn.core_out",
                                "self_attn.o_proj", "self_attn.gated"};
    float *v[11] = {NULL};
    for (size_t i = 0; i < (c->attn_output_gate ? 11 : 10); i++) {
        v[i] = forced_values(f, FORCED_attention, n, layer, taps[i]);
        if (!v[i])
            return;
    }
    const float *y = v[0], *packed = v[1], *q_norm = v[4], *k_norm = v[5], *core = v[8];
    const float *query = packed, *out = core;
    if (c->attn_output_gate) {
        halves right = split(f, packed, rows);
        check_split(f, call, packed, core, q_norm, v[10]);
        check_gate(f, core, right.gate, count, v[10]);
        query = right.query;
        out = v[10];
    }
    forced_linear(f, taps[1], &w[SB_ROLE_q_proj], y, rows, packed);
    forced_linear(f, taps[2], &w[SB_ROLE_k_proj], y, rows, v[2]);
    forced_linear(f, taps[3], &w[SB_ROLE_v_proj], y, rows, forced_rows(f, v[3], kv, call));
    forced_rmsnorm(f, taps[4], &w[SB_ROLE_q_norm], query, rows * c->heads, q_norm);
    forced_rmsnorm(f, taps[5], &w[SB_ROLE_k_norm], v[2], rows * c->kv_heads, k_norm);
    check_rope(f, taps[6], call, q_norm, c->heads, v[6]);
    check_rope(f, taps[7], call, k_norm, c->kv_heads, forced_rows(f, v[7], kv, call));
    check_core(f, call, v[6], v[7], v[3], core);
    forced_linear(f, taps[9], &w[SB_ROLE_o_proj], out, rows, v[9]);
}
