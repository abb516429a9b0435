#include "tests/hf/head_plants.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/fast/fast.h"
#include "tools/judge/fault/mistakes.h"

/* An op is not told where it is used. The weights identify the place. */
static const sb_weights *weights;
static const sb_layer *trunk_attention, *head_layer;

static sb_status fc_halves_swapped(const sb_knobs *knobs, const sb_linear_args *a)
{
    size_t H = a->weight->cols / 2;
    sb_linear_args args = *a;
    if (a->weight != &weights->mtp[SB_ROLE_mtp_fc])
        return sb_linear_fast(knobs, a);
    float *in = sb_alloc(2 * a->rows * H, sizeof *in);
    for (size_t i = 0; in && i < 2 * a->rows; i++)
        memcpy(in + i * H, a->in + (i ^ 1) * H, H * sizeof *in);
    args.in = in;
    sb_status status = in ? sb_linear_fast(knobs, &args) : SB_ERR_MEMORY;
    free(in);
    return status;
}

static void plant_halves(sb_op_table *ops)
{
    ops->linear = fc_halves_swapped;
}

static sb_status plain_mtp_norm(const sb_knobs *knobs, const sb_rmsnorm_args *a)
{
    if (a->weight != &weights->mtp[SB_ROLE_mtp_norm])
        return sb_rmsnorm_fast(knobs, a);
    sb_mistake_param less = {0};
    sb_rmsnorm_args args = *a;
    sb_status status = sb_mistake_edit(a->weight, sb_mistake_subtract_one, &less);
    args.weight = &less.matrix;
    if (!status)
        status = sb_rmsnorm_fast(knobs, &args);
    free(less.bytes);
    return status;
}

static void plant_plain_norm(sb_op_table *ops)
{
    ops->rmsnorm = plain_mtp_norm;
}

static void plant_ungated(sb_op_table *ops)
{
    ops->moe_combine = sb_mistake_shared_gate_missing;
}

/* The layer whose attention runs next; and the keys and values of the trunk's last layer, which lie
 * in its cache and are valid for the whole run. */
static const sb_layer *projecting;
static const float *trunk_keys, *trunk_values;
static size_t trunk_rows;

static sb_status noting_linear(const sb_knobs *knobs, const sb_linear_args *a)
{
    if (a->weight == &trunk_attention->w[SB_ROLE_q_proj])
        projecting = trunk_attention;
    if (a->weight == &head_layer->w[SB_ROLE_q_proj])
        projecting = head_layer;
    return sb_linear_fast(knobs, a);
}

static void note_trunk(const sb_attention_args *a)
{
    if (projecting == trunk_attention) {
        trunk_keys = a->keys;
        trunk_values = a->values;
        trunk_rows = a->first + a->rows;
    }
}

/* Row t alone. */
static sb_attention_args row_of(const sb_attention_args *a, size_t t)
{
    size_t width = a->heads * a->hd;
    sb_attention_args args = *a;
    args.q = a->q + t * width;
    args.out = a->out + t * width;
    args.rows = 1;
    args.first = a->first + t;
    return args;
}

static sb_status sees_itself_only(const sb_knobs *knobs, const sb_attention_args *a)
{
    sb_status status = SB_OK;
    note_trunk(a);
    if (projecting != head_layer)
        return sb_attention_fast(knobs, a);
    for (size_t t = 0; t < a->rows && !status; t++) {
        sb_attention_args args = row_of(a, t);
        args.keys += args.first * a->kv_heads * a->hd;
        args.values += args.first * a->kv_heads * a->hd;
        args.first = 0;
        status = sb_attention_fast(knobs, &args);
    }
    return status;
}

static void plant_no_cache(sb_op_table *ops)
{
    ops->linear = noting_linear;
    ops->attention = sees_itself_only;
}

/* The row sees the trunk's keys and values for earlier positions, as far as the trunk has them. Its
 * own, and those of drafts, are the head's. */
static sb_status sees_the_trunk(const sb_knobs *knobs, const sb_attention_args *a)
{
    size_t kv = a->kv_heads * a->hd, all = (a->first + a->rows) * kv;
    note_trunk(a);
    if (projecting != head_layer)
        return sb_attention_fast(knobs, a);
    float *keys = sb_alloc(2 * all, sizeof *keys);
    sb_status status = keys ? SB_OK : SB_ERR_MEMORY;
    for (size_t t = 0; t < a->rows && !status; t++) {
        sb_attention_args args = row_of(a, t);
        size_t taken = (args.first < trunk_rows ? args.first : trunk_rows) * kv;
        memcpy(keys, a->keys, all * sizeof *keys);
        memcpy(keys + all, a->values, all * sizeof *keys);
        memcpy(keys, trunk_keys, taken * sizeof *keys);
        memcpy(keys + all, trunk_values, taken * sizeof *keys);
        args.keys = keys;
        args.values = keys + all;
        status = sb_attention_fast(knobs, &args);
    }
    free(keys);
    return status;
}

static void plant_trunk_cache(sb_op_table *ops)
{
    ops->linear = noting_linear;
    ops->attention = sees_the_trunk;
}

/* Drafts after the first one keep the position of the first. */
static sb_status draft_stands_still(const sb_knobs *knobs, const sb_rope_args *a)
{
    sb_rope_args args = *a;
    uint32_t before = a->position[0][0] - 1;
    if (projecting != head_layer || a->rows != 1 || a->position[0][0] < trunk_rows)
        return sb_rope_fast(knobs, a);
    args.position[0] = args.position[1] = args.position[2] = &before;
    return sb_rope_fast(knobs, &args);
}

static sb_status noting_attention(const sb_knobs *knobs, const sb_attention_args *a)
{
    note_trunk(a);
    return sb_attention_fast(knobs, a);
}

static void plant_still(sb_op_table *ops)
{
    ops->linear = noting_linear;
    ops->attention = noting_attention;
    ops->rope = draft_stands_still;
}

#define LAYER "mtp.layers.0."

static const head_plant plants[] = {
    {"halves_swapped", "the hidden half of mtp.fc comes first", FORCED_linear, "mtp.fc", NULL,
     plant_halves, 0, 0},
    {"pre_norm_hidden", "the hidden vector before the final norm", FORCED_rmsnorm,
     "mtp.pre_fc_norm_hidden", "mtp_hidden=residual", NULL, 0, 0},
    {"position_plus_one", "entry t at position t + 1", FORCED_rope, LAYER "self_attn.q_rope",
     "mtp_position=token", NULL, 0, 1},
    {"draft_stands_still", "a further draft at the position of the one before", FORCED_rope,
     LAYER "self_attn.q_rope", NULL, plant_still, 0, 0},
    {"mtp_norm_plain", "mtp.norm multiplies by w", FORCED_rmsnorm, "mtp.norm", NULL,
     plant_plain_norm, 0, 0},
    {"no_cache", "the head attends to its own row only", FORCED_attention,
     LAYER "self_attn.core_out", NULL, plant_no_cache, 0, 0},
    {"trunk_cache", "the head attends to keys and values of the trunk", FORCED_attention,
     LAYER "self_attn.core_out", NULL, plant_trunk_cache, 0, 0},
    {"recycled_residual", "drafts are fed the output before mtp.norm", FORCED_rmsnorm,
     "mtp.pre_fc_norm_hidden", "mtp_recycled=residual", NULL, 0, 0},
    {"shared_ungated", "the shared expert is added without its gate", FORCED_moe_combine,
     LAYER "mlp.out", NULL, plant_ungated, 1, 0},
};

size_t head_plant_count(void)
{
    return sizeof plants / sizeof *plants;
}

const head_plant *head_plant_at(size_t i)
{
    return &plants[i];
}

sb_status head_plant_set(const head_plant *plant, const sb_model *model, sb_op_table *ops,
                         sb_knobs *knobs)
{
    const sb_config *c = &model->config;
    weights = model->weights;
    head_layer = &weights->layers[c->layers];
    for (uint32_t i = 0; i < c->layers; i++)
        if (c->layer_is_full[i])
            trunk_attention = &weights->layers[i];
    trunk_rows = 0;
    if (plant->plant)
        plant->plant(ops);
    return plant->knob ? sb_knobs_set(knobs, plant->knob, NULL) : SB_OK;
}
