/* special.c - faults of an op from single incidents, planted as in op_faults.h. */
#include "tools/judge/fault/op_faults.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/text.h"
#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/formats/plain_row.h"
#include "ref/formats/round.h"
#include "ref/math/fn.h"
#include "ref/model/weights.h"

/* Distances of the weights of gate_proj and up_proj in sb_layer. */
#define DENSE_APART                                                                                \
    ((ptrdiff_t)sizeof(sb_matrix) * ((ptrdiff_t)SB_ROLE_up_proj - (ptrdiff_t)SB_ROLE_gate_proj))
#define SHARED_APART                                                                               \
    ((ptrdiff_t)sizeof(sb_matrix) *                                                                \
     ((ptrdiff_t)SB_ROLE_shared_up_proj - (ptrdiff_t)SB_ROLE_shared_gate_proj))

static void set_zero(float *values, size_t rows, size_t cols)
{
    memset(values, 0, rows * cols * sizeof *values);
}

static sb_status router_max_zero(sb_plant *plant, const sb_op_call *call)
{
    sb_router_args args = *(const sb_router_args *)call->args;
    float *logits = sb_mistake_copy(args.logits, args.rows * args.experts);
    (void)plant;
    if (!logits)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < args.rows * args.experts; i++)
        logits[i] = logits[i] > 0 ? logits[i] : 0;
    args.logits = logits;
    sb_status status = sb_plant_run_with(call, &args);
    free(logits);
    return status;
}

static sb_status rotate_all(sb_plant *plant, const sb_op_call *call)
{
    sb_rope_args args = *(const sb_rope_args *)call->args;
    (void)plant;
    args.rd = args.hd;
    args.section = NULL;
    return sb_plant_run_with(call, &args);
}

static sb_status rotate_quarter(sb_plant *plant, const sb_op_call *call)
{
    sb_rope_args args = *(const sb_rope_args *)call->args;
    (void)plant;
    args.rd = args.hd / 4;
    return sb_plant_run_with(call, &args);
}

static sb_status theta_default(sb_plant *plant, const sb_op_call *call)
{
    sb_rope_args args = *(const sb_rope_args *)call->args;
    (void)plant;
    args.theta = 10000;
    return sb_plant_run_with(call, &args);
}

static sb_status norm_missing(sb_plant *plant, const sb_op_call *call)
{
    const sb_rmsnorm_args *a = call->args;
    (void)plant;
    memcpy(a->out, a->in, a->rows * a->n * sizeof *a->out);
    return SB_OK;
}

static int is_qk_norm(const sb_op_call *call)
{
    return strstr(call->name, "self_attn.q_norm") || strstr(call->name, "self_attn.k_norm");
}

static sb_status qk_norm_missing(sb_plant *plant, const sb_op_call *call)
{
    return is_qk_norm(call) ? norm_missing(plant, call) : sb_op_run(call);
}

static float inverse_root(const float *x, size_t n, float eps)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sb_rsqrt(sum / (float)n + eps);
}

/* The norm of each head, times the factor of all heads over its own factor. */
static sb_status qk_norm_whole_row(sb_plant *plant, const sb_op_call *call)
{
    const sb_rmsnorm_args *a = call->args;
    sb_status status = sb_op_run(call);
    size_t heads = a->rows / (call->single ? 1 : call->rows);
    (void)plant;
    for (size_t r = 0; r < a->rows && is_qk_norm(call); r++) {
        const float *row = a->in + r / heads * heads * a->n;
        float by =
            inverse_root(row, heads * a->n, a->eps) / inverse_root(a->in + r * a->n, a->n, a->eps);
        for (size_t i = 0; i < a->n; i++)
            a->out[r * a->n + i] *= by;
    }
    return status;
}

/* 1 / sqrt( H / nQ ) in place of 1 / sqrt( hd ), in T7: H / nQ = 32, and hd = 128. */
static sb_status scale_of_hidden(sb_plant *plant, const sb_op_call *call)
{
    sb_attention_args args = *(const sb_attention_args *)call->args;
    size_t count = args.rows * args.heads * args.hd;
    float *q = sb_mistake_copy(args.q, count);
    (void)plant;
    for (size_t i = 0; q && i < count; i++)
        q[i] *= 2.0f;
    args.q = q;
    sb_status status = q ? sb_plant_run_with(call, &args) : SB_ERR_MEMORY;
    free(q);
    return status;
}

/* The delta rule with other decays. */
static sb_status with_decays(const sb_op_call *call,
                             int (*changed)(size_t row, size_t rows, float g), float by)
{
    sb_delta_rule_args args = *(const sb_delta_rule_args *)call->args;
    size_t n = args.rows * args.v_heads;
    float *g = sb_mistake_copy(args.g, n);
    if (!g)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < n; i++)
        if (changed(i / args.v_heads, args.rows, g[i]))
            g[i] = by;
    args.g = g;
    sb_status status = sb_plant_run_with(call, &args);
    free(g);
    return status;
}

static int in_last_chunk(size_t row, size_t rows, float g)
{
    (void)g;
    return row >= rows / 64 * 64;
}

static int begins_chunk(size_t row, size_t rows, float g)
{
    (void)rows;
    (void)g;
    return row > 0 && row % 64 == 0;
}

static int decays_fast(size_t row, size_t rows, float g)
{
    (void)row;
    (void)rows;
    return g < -2.0f;
}

static sb_status last_chunk_decay(sb_plant *plant, const sb_op_call *call)
{
    (void)plant;
    return with_decays(call, in_last_chunk, 0.0f);
}

static sb_status chunk_carry(sb_plant *plant, const sb_op_call *call)
{
    (void)plant;
    return with_decays(call, begins_chunk, 0.0f);
}

static sb_status decay_clamped(sb_plant *plant, const sb_op_call *call)
{
    (void)plant;
    return with_decays(call, decays_fast, -2.0f);
}

static sb_status tp_split(sb_plant *plant, const sb_op_call *call)
{
    sb_gates_args args = *(const sb_gates_args *)call->args;
    float *a = sb_mistake_copy(args.a, args.rows * args.heads);
    (void)plant;
    if (!a)
        return SB_ERR_MEMORY;
    for (size_t t = 0; t < args.rows; t++)
        for (size_t h = args.heads / 2; h < args.heads; h++)
            a[t * args.heads + h] = args.b[t * args.heads + h - args.heads / 2];
    args.a = a;
    sb_status status = sb_plant_run_with(call, &args);
    free(a);
    return status;
}

static sb_status rare_tile(sb_plant *plant, const sb_op_call *call)
{
    const sb_linear_args *a = call->args;
    uint64_t key = sb_rng_key(plant->from, call->name);
    sb_status status = sb_op_run(call);
    if (sb_rng_below(key, call->position * 64 + call->slot * 8 + call->layer, 64) != 0)
        return status;
    for (size_t i = 0; i < 8 && i < a->weight->rows; i++)
        a->out[(a->rows - 1) * a->weight->rows + i] *= 1.5f;
    return status;
}

static sb_status tail_noise(sb_plant *plant, const sb_op_call *call)
{
    const sb_linear_args *a = call->args;
    sb_status status = sb_op_run(call);
    size_t n = a->weight->rows, top = 0;
    (void)plant;
    if (strcmp(call->name, "logits") != 0)
        return status;
    for (size_t i = 0; i < n; i++)
        top = a->out[i] > a->out[top] ? i : top;
    for (size_t i = 0; i < n; i++)
        if (i != top)
            a->out[i] -= 0.02f * sb_rng_uniform(sb_rng_key(1, "tail"), call->position * n + i);
    return status;
}

static sb_status head_scaled(sb_plant *plant, const sb_op_call *call)
{
    const sb_linear_args *a = call->args;
    sb_status status = sb_op_run(call);
    (void)plant;
    for (size_t i = 0; i < a->rows * a->weight->rows && strcmp(call->name, "mtp.logits") == 0; i++)
        a->out[i] *= 1.05f;
    return status;
}

static sb_status drafts_from_zero(sb_plant *plant, const sb_op_call *call)
{
    static const uint32_t zero = 0;
    sb_rope_args args = *(const sb_rope_args *)call->args;
    (void)plant;
    if (call->kind != SB_CALL_draft)
        return sb_op_run(call);
    for (size_t axis = 0; axis < 3; axis++)
        args.position[axis] = &zero;
    return sb_plant_run_with(call, &args);
}

static sb_status router_bias(sb_plant *plant, const sb_op_call *call)
{
    sb_router_args args = *(const sb_router_args *)call->args;
    float *logits = sb_mistake_copy(args.logits, args.rows * args.experts);
    (void)plant;
    if (!logits)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < args.rows * args.experts; i++)
        logits[i] += 0.01f * (float)(i % args.experts);
    args.logits = logits;
    sb_status status = sb_plant_run_with(call, &args);
    free(logits);
    return status;
}

static sb_status index_wraps(sb_plant *plant, const sb_op_call *call)
{
    sb_embed_args args = *(const sb_embed_args *)call->args;
    uint32_t *tokens = sb_alloc(args.rows, sizeof *tokens);
    (void)plant;
    if (!tokens)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < args.rows; i++)
        tokens[i] = args.tokens[i] & 0xff;
    args.tokens = tokens;
    sb_status status = sb_plant_run_with(call, &args);
    free(tokens);
    return status;
}

static sb_status kv_scale_dropped(sb_plant *plant, const sb_op_call *call)
{
    sb_attention_args args = *(const sb_attention_args *)call->args;
    (void)plant;
    args.key_scale = args.value_scale = 0;
    return sb_plant_run_with(call, &args);
}

/* The knobs quantize inputs in all calls. This fault quantizes them in decode steps only. */
static sb_status path_split(sb_plant *plant, const sb_op_call *call)
{
    sb_op_call changed = *call;
    sb_knobs knobs = *call->knobs;
    (void)plant;
    if (call->kind == SB_CALL_decode || sb_knobs_set(&knobs, "act_fp4=off", NULL))
        return sb_op_run(call);
    changed.knobs = &knobs;
    return sb_op_run(&changed);
}

static sb_status linear_off(sb_plant *plant, const sb_op_call *call)
{
    const sb_linear_args *a = call->args;
    const sb_status status = sb_op_run(call);
    (void)plant;
    for (size_t i = 0; i < a->rows * a->weight->rows; i++)
        a->out[i] *= 1.0f + 0x1p-21f;
    return status;
}

static sb_status weight_ulp(sb_plant *plant, const sb_op_call *call)
{
    const sb_router_args *a = call->args;
    sb_status status = sb_op_run(call);
    (void)plant;
    for (size_t i = 0; i < a->rows * a->kept; i++)
        a->weights[i] = sb_f32_from_bits(sb_bits_f32(a->weights[i]) + 1);
    return status;
}

static sb_status tie_other(sb_plant *plant, const sb_op_call *call)
{
    const sb_router_args *a = call->args;
    sb_status status = sb_op_run(call);
    (void)plant;
    for (size_t t = 0; t < a->rows; t++) {
        const float *logits = a->logits + t * a->experts;
        uint32_t *ids = a->ids + t * a->kept, *last = &ids[a->kept - 1];
        for (uint32_t e = *last + 1; e < a->experts; e++)
            if (logits[e] >= logits[*last] && logits[e] <= logits[*last]) {
                *last = e;
                break;
            }
    }
    return status;
}

static sb_status batch_path(sb_plant *plant, const sb_op_call *call)
{
    sb_linear_args args = *(const sb_linear_args *)call->args;
    size_t k = args.weight->cols;
    (void)plant;
    if (args.rows < 2)
        return sb_op_run(call);
    float *in = sb_mistake_copy(args.in, args.rows * k);
    for (size_t t = 0; in && t < args.rows; t++)
        in[t * k + k - 1] = 0.0f;
    args.in = in;
    sb_status status = in ? sb_plant_run_with(call, &args) : SB_ERR_MEMORY;
    free(in);
    return status;
}

static sb_status ab_swapped(sb_plant *plant, const sb_op_call *call)
{
    sb_gates_args args = *(const sb_gates_args *)call->args;
    (void)plant;
    args.a = ((const sb_gates_args *)call->args)->b;
    args.b = ((const sb_gates_args *)call->args)->a;
    return sb_plant_run_with(call, &args);
}

/* a + dt_bias in bf16, and no dt_bias after that. */
static sb_status dt_bf16(sb_plant *plant, const sb_op_call *call)
{
    sb_gates_args args = *(const sb_gates_args *)call->args;
    size_t count = args.rows * args.heads;
    sb_mistake_param none;
    float *a = sb_alloc(count + args.heads, sizeof *a), *bias = a + count;
    sb_status status = sb_mistake_edit(args.dt_bias, set_zero, &none);
    (void)plant;
    if (a && !status) {
        sb_matrix_row(args.dt_bias, 0, bias);
        for (size_t i = 0; i < count; i++)
            a[i] = args.a[i] + bias[i % args.heads];
        sb_round_many(SB_FORMAT_bf16, a, count, a);
        args.a = a;
        args.dt_bias = &none.matrix;
        status = sb_plant_run_with(call, &args);
    }
    free(none.bytes);
    free(a);
    return a ? status : SB_ERR_MEMORY;
}

static sb_status state_bf16(sb_plant *plant, const sb_op_call *call)
{
    const sb_delta_rule_args *a = call->args;
    size_t count = a->v_heads * a->dk * a->dv;
    sb_status status = sb_op_run(call);
    (void)plant;
    sb_round_many(SB_FORMAT_bf16, a->state, count, a->state);
    if (a->trail)
        sb_round_many(SB_FORMAT_bf16, a->trail, a->rows * count, a->trail);
    return status;
}

static sb_status chunk_state_bf16(sb_plant *plant, const sb_op_call *call)
{
    return state_bf16(plant, call);
}

static sb_status concat_order(sb_plant *plant, const sb_op_call *call)
{
    sb_linear_args args = *(const sb_linear_args *)call->args;
    size_t k = args.weight->cols, half = k / 2;
    (void)plant;
    if (strcmp(call->name, "mtp.fc") != 0)
        return sb_op_run(call);
    float *in = sb_alloc(args.rows * k, sizeof *in);
    for (size_t i = 0; in && i < args.rows * k; i++)
        in[i] = args.in[i / k * k + (i % k + half) % k];
    args.in = in;
    sb_status status = in ? sb_plant_run_with(call, &args) : SB_ERR_MEMORY;
    free(in);
    return status;
}

/* In a session the weight is a member of the model's experts or layer, next to the other one. */
static sb_status weights_swapped(sb_plant *plant, const sb_op_call *call)
{
    sb_linear_args args = *(const sb_linear_args *)call->args;
    const char *at = (const char *)args.weight;
    const int up = sb_ends(call->name, ".up_proj"), gate = sb_ends(call->name, ".gate_proj");
    const ptrdiff_t apart = strncmp(call->name, "mlp.experts.", 12) == 0
                                ? (ptrdiff_t)offsetof(sb_expert, up)
                            : strncmp(call->name, "mlp.shared_expert.", 18) == 0 ? SHARED_APART
                                                                                 : DENSE_APART;
    (void)plant;
    if (!up && !gate)
        return sb_op_run(call);
    args.weight = (const sb_matrix *)(const void *)(up ? at - apart : at + apart);
    return sb_plant_run_with(call, &args);
}

static sb_status norms_swapped(sb_plant *plant, const sb_op_call *call)
{
    sb_rmsnorm_args args = *(const sb_rmsnorm_args *)call->args;
    const ptrdiff_t apart = SB_ROLE_mtp_norm_hidden - SB_ROLE_mtp_norm_embedding;
    (void)plant;
    if (strcmp(call->name, "mtp.pre_fc_norm_embedding") == 0)
        args.weight += apart;
    else if (strcmp(call->name, "mtp.pre_fc_norm_hidden") == 0)
        args.weight -= apart;
    return sb_plant_run_with(call, &args);
}

static sb_status second_best(sb_plant *plant, const sb_op_call *call)
{
    sb_router_args args = *(const sb_router_args *)call->args;
    float *logits = sb_mistake_copy(args.logits, args.rows * args.experts);
    (void)plant;
    if (!logits)
        return SB_ERR_MEMORY;
    for (size_t t = 0; t < args.rows; t++) {
        float *row = logits + t * args.experts;
        size_t top = 0, least = 0;
        for (size_t e = 1; e < args.experts; e++) {
            top = row[e] > row[top] ? e : top;
            least = row[e] < row[least] ? e : least;
        }
        row[top] = row[least] - 1.0f;
    }
    args.logits = logits;
    sb_status status = sb_plant_run_with(call, &args);
    free(logits);
    return status;
}

/* Attention of one row of the call over the cached rows from `from` to `end`. */
static sb_status attend_row(const sb_op_call *call, size_t row, size_t from, size_t end)
{
    sb_attention_args args = *(const sb_attention_args *)call->args;
    const size_t width = args.heads * args.hd, cached = args.kv_heads * args.hd;
    args.q += row * width;
    args.out += row * width;
    args.keys += from * cached;
    args.values += from * cached;
    args.rows = 1;
    args.first = end - from - 1;
    return sb_plant_run_with(call, &args);
}

static sb_status mask_missing(sb_plant *plant, const sb_op_call *call)
{
    const sb_attention_args *a = call->args;
    sb_status status = SB_OK;
    (void)plant;
    for (size_t t = 0; t < a->rows && !status; t++)
        status = attend_row(call, t, 0, a->first + a->rows);
    return status;
}

static sb_status windowed(const sb_op_call *call, size_t window)
{
    const sb_attention_args *a = call->args;
    sb_status status = SB_OK;
    for (size_t t = 0; t < a->rows && !status; t++) {
        size_t end = a->first + t + 1;
        status = attend_row(call, t, end > window ? end - window : 0, end);
    }
    return status;
}

static sb_status window_4(sb_plant *plant, const sb_op_call *call)
{
    (void)plant;
    return windowed(call, 4);
}

static sb_status window_128(sb_plant *plant, const sb_op_call *call)
{
    (void)plant;
    return windowed(call, 128);
}

static sb_status oldest_unseen(sb_plant *plant, const sb_op_call *call)
{
    const sb_attention_args *a = call->args;
    sb_status status = SB_OK;
    (void)plant;
    for (size_t t = 0; t < a->rows && !status; t++)
        status = attend_row(call, t, a->first + t > 0, a->first + t + 1);
    return status;
}

static sb_status scaled_twice(sb_plant *plant, const sb_op_call *call)
{
    sb_attention_args args = *(const sb_attention_args *)call->args;
    size_t count = args.rows * args.heads * args.hd;
    float *q = sb_mistake_copy(args.q, count);
    (void)plant;
    for (size_t i = 0; q && i < count; i++)
        q[i] /= sb_root_power((double)args.hd, 1, 2);
    args.q = q;
    sb_status status = q ? sb_plant_run_with(call, &args) : SB_ERR_MEMORY;
    free(q);
    return status;
}

const sb_planted sb_specials[] = {
#define SB_PLANTED(kind, op_, by, with_, words_)                                                   \
    {.name = #by, .where = #op_, .with = with_, .words = words_, .op = SB_OP_##op_, .run = by},
#include "tools/judge/fault/lists/special.def"
#undef SB_PLANTED
    {.name = NULL}};
