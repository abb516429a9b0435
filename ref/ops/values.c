#include "ref/ops/values.h"

static void input(sb_op_values *v, const char *name, const float *data, size_t rows, size_t cols,
                  size_t stride)
{
    v->in[v->inputs++] = (sb_op_value){.name = name,
                                       .data = (float *)(uintptr_t)data,
                                       .rows = rows,
                                       .cols = cols,
                                       .stride = stride};
}

static void output(sb_op_values *v, const char *name, float *data, size_t rows, size_t cols)
{
    v->out[v->outputs++] =
        (sb_op_value){.name = name, .data = data, .rows = rows, .cols = cols, .stride = cols};
}

static void param(sb_op_values *v, const char *name, const sb_matrix *matrix)
{
    v->param[v->params] = matrix;
    v->param_name[v->params++] = name;
}

/* The state stands among the inputs, too: what comes in. */
static void state(sb_op_values *v, float *data, size_t rows, size_t cols)
{
    input(v, "state", data, rows, cols, cols);
    v->state = v->in[v->inputs - 1];
}

static void of_embed(sb_op_values *v, const sb_embed_args *a)
{
    v->in[v->inputs++] = (sb_op_value){.name = "tokens",
                                       .ids = (uint32_t *)(uintptr_t)a->tokens,
                                       .rows = a->rows,
                                       .cols = 1,
                                       .stride = 1};
    param(v, "table", a->table);
    output(v, "out", a->out, a->rows, a->table->cols);
}

static void of_linear(sb_op_values *v, const sb_linear_args *a)
{
    input(v, "in", a->in, a->rows, a->weight->cols, a->weight->cols);
    param(v, "weight", a->weight);
    output(v, "out", a->out, a->rows, a->weight->rows);
}

static void of_rmsnorm(sb_op_values *v, const sb_rmsnorm_args *a)
{
    input(v, "in", a->in, a->rows, a->n, a->n);
    param(v, "weight", a->weight);
    output(v, "out", a->out, a->rows, a->n);
}

static void of_conv(sb_op_values *v, const sb_conv_args *a)
{
    size_t C = a->weight->rows, kw = a->weight->cols;
    input(v, "in", a->in, a->rows, C, C);
    state(v, a->state, kw - 1, C);
    param(v, "weight", a->weight);
    output(v, "out", a->out, a->rows, C);
}

static void of_gates(sb_op_values *v, const sb_gates_args *a)
{
    input(v, "a", a->a, a->rows, a->heads, a->heads);
    input(v, "b", a->b, a->rows, a->heads, a->heads);
    param(v, "a_log", a->a_log);
    param(v, "dt_bias", a->dt_bias);
    output(v, "g", a->g, a->rows, a->heads);
    output(v, "beta", a->beta, a->rows, a->heads);
}

static void of_l2norm(sb_op_values *v, const sb_l2norm_args *a)
{
    size_t n = a->heads * a->dk;
    input(v, "qkv", a->qkv, a->rows, 2 * n, a->stride);
    output(v, "q", a->q, a->rows, n);
    output(v, "k", a->k, a->rows, n);
}

static void of_rope(sb_op_values *v, const sb_rope_args *a)
{
    size_t n = a->heads * a->hd;
    input(v, "x", a->x, a->rows, n, n);
    output(v, "x", a->x, a->rows, n);
}

static void of_delta_rule(sb_op_values *v, const sb_delta_rule_args *a)
{
    size_t k = a->k_heads * a->dk, n = a->v_heads * a->dv;
    input(v, "q", a->q, a->rows, k, k);
    input(v, "k", a->k, a->rows, k, k);
    input(v, "v", a->v, a->rows, n, a->v_stride);
    input(v, "g", a->g, a->rows, a->v_heads, a->v_heads);
    input(v, "beta", a->beta, a->rows, a->v_heads, a->v_heads);
    state(v, a->state, a->v_heads * a->dk, a->dv);
    output(v, "out", a->out, a->rows, n);
}

static void of_gated_rmsnorm(sb_op_values *v, const sb_gated_rmsnorm_args *a)
{
    size_t n = a->heads * a->n;
    input(v, "in", a->in, a->rows, n, n);
    input(v, "z", a->z, a->rows, n, n);
    param(v, "weight", a->weight);
    output(v, "out", a->out, a->rows, n);
}

static void of_attention(sb_op_values *v, const sb_attention_args *a)
{
    size_t q = a->heads * a->hd, kv = a->kv_heads * a->hd;
    input(v, "q", a->q, a->rows, q, q);
    input(v, "keys", a->keys, a->first + a->rows, kv, kv);
    input(v, "values", a->values, a->first + a->rows, kv, kv);
    output(v, "out", a->out, a->rows, q);
}

static void of_split_gate(sb_op_values *v, const sb_split_gate_args *a)
{
    size_t n = a->heads * a->hd;
    input(v, "in", a->in, a->rows, 2 * n, 2 * n);
    output(v, "query", a->query, a->rows, n);
    output(v, "gate", a->gate, a->rows, n);
}

static void of_router(sb_op_values *v, const sb_router_args *a)
{
    input(v, "logits", a->logits, a->rows, a->experts, a->experts);
    v->out[v->outputs++] = (sb_op_value){
        .name = "ids", .ids = a->ids, .rows = a->rows, .cols = a->kept, .stride = a->kept};
    output(v, "weights", a->weights, a->rows, a->kept);
}

static void of_moe_combine(sb_op_values *v, const sb_moe_combine_args *a)
{
    input(v, "expert_out", a->expert_out, a->kept, a->n, a->n);
    input(v, "weights", a->weights, 1, a->kept, a->kept);
    input(v, "shared_out", a->shared_out, 1, a->n, a->n);
    input(v, "shared_logit", &a->shared_logit, 1, 1, 1);
    output(v, "out", a->out, 1, a->n);
}

static void of_pair(sb_op_values *v, const char *const names[2], const float *a, const float *b,
                    size_t count, float *out)
{
    input(v, names[0], a, 1, count, count);
    input(v, names[1], b, 1, count, count);
    output(v, "out", out, 1, count);
}

static void of_attn_gate(sb_op_values *v, const sb_attn_gate_args *a)
{
    of_pair(v, (const char *const[]){"in", "gate"}, a->in, a->gate, a->count, a->out);
}

static void of_swiglu(sb_op_values *v, const sb_swiglu_args *a)
{
    of_pair(v, (const char *const[]){"gate", "up"}, a->gate, a->up, a->count, a->out);
}

static void of_add(sb_op_values *v, const sb_add_args *a)
{
    of_pair(v, (const char *const[]){"a", "b"}, a->a, a->b, a->count, a->out);
    if (a->sum)
        output(v, "sum", a->sum, 1, a->count);
}

sb_op_values sb_op_values_of(sb_op op, const void *args)
{
    sb_op_values v = {0};
    switch (op) {
    case SB_OP_embed:
        of_embed(&v, args);
        break;
    case SB_OP_linear:
        of_linear(&v, args);
        break;
    case SB_OP_rmsnorm:
        of_rmsnorm(&v, args);
        break;
    case SB_OP_conv:
        of_conv(&v, args);
        break;
    case SB_OP_gates:
        of_gates(&v, args);
        break;
    case SB_OP_l2norm:
        of_l2norm(&v, args);
        break;
    case SB_OP_rope:
        of_rope(&v, args);
        break;
    case SB_OP_delta_rule:
    case SB_OP_delta_rule_chunk:
        of_delta_rule(&v, args);
        break;
    case SB_OP_gated_rmsnorm:
        of_gated_rmsnorm(&v, args);
        break;
    case SB_OP_attention:
        of_attention(&v, args);
        break;
    case SB_OP_split_gate:
        of_split_gate(&v, args);
        break;
    case SB_OP_attn_gate:
        of_attn_gate(&v, args);
        break;
    case SB_OP_router:
        of_router(&v, args);
        break;
    case SB_OP_swiglu:
        of_swiglu(&v, args);
        break;
    case SB_OP_moe_combine:
        of_moe_combine(&v, args);
        break;
    case SB_OP_add:
        of_add(&v, args);
        break;
    case SB_OP_COUNT:
        break;
    }
    return v;
}
