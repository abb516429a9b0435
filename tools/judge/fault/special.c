/* special.c - faults of an op from single incidents, planted as in op_faults.h. */
#include "tools/judge/fault/op_faults.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/rng.h"

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

static sb_status norm_missing(sb_plant *plant, const sb_op_call *call)
{
    const sb_rmsnorm_args *a = call->args;
    (void)plant;
    memcpy(a->out, a->in, a->rows * a->n * sizeof *a->out);
    return SB_OK;
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

const sb_planted sb_specials[] = {
#define SB_PLANTED(kind, op_, by, with_, words_)                                                   \
    {.name = #by, .where = #op_, .with = with_, .words = words_, .op = SB_OP_##op_, .run = by},
#include "tools/judge/fault/lists/special.def"
#undef SB_PLANTED
    {.name = NULL}};
