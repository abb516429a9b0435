#include "ref/model/weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/model/row_map.h"

typedef struct binder {
    const sb_checkpoint *checkpoint;
    const sb_config *config;
    sb_weights *weights;
    unsigned char *used; /* one per tensor of the checkpoint */
} binder;

static int has(const sb_checkpoint *checkpoint, const char *prefix, const char *name)
{
    char full[SB_NAME_MAX];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return sb_checkpoint_find(checkpoint, full) != NULL;
}

/* M-6: "Tensor names of the text model start with `model.language_model.`, `model.` or
 * `language_model.model.`" */
static sb_status find_storage(const sb_checkpoint *checkpoint, sb_storage *s, sb_error *err)
{
    static const char *const prefixes[] = {"model.language_model.", "model.",
                                           "language_model.model."};
    *s = (sb_storage){0};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (has(checkpoint, prefixes[i], "embed_tokens.weight")) {
            if (s->prefix)
                return sb_fail(
                    err, SB_ERR_INPUT,
                    "%s: two embeddings, %sembed_tokens.weight and %sembed_tokens.weight; "
                    "expected one",
                    SB_SHOW(sb_checkpoint_path(checkpoint)), s->prefix, prefixes[i]);
            s->prefix = prefixes[i];
        }
    if (!s->prefix)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: no embedding: none of model.language_model.embed_tokens.weight, "
                       "model.embed_tokens.weight, language_model.model.embed_tokens.weight",
                       SB_SHOW(sb_checkpoint_path(checkpoint)));
    s->fused_experts = has(checkpoint, s->prefix, "layers.0.mlp.experts.gate_up_proj");
    s->fused_mtp_experts = has(checkpoint, "mtp.layers.0.", "mlp.experts.gate_up_proj");
    for (size_t i = 0; i < sb_checkpoint_count(checkpoint); i++)
        if (strncmp(sb_checkpoint_at(checkpoint, i)->name, "mtp.", 4) == 0)
            s->has_mtp = 1;
    return SB_OK;
}

static sb_status check_shape(const binder *b, const sb_tensor *t, const sb_expected *x,
                             sb_error *err)
{
    char found[128] = "", expected[128] = "";
    int same = t->rank == x->rank;
    for (unsigned d = 0; d < t->rank; d++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%" PRIu64, d ? ", " : "",
                 t->shape[d]);
    for (unsigned d = 0; d < x->rank; d++) {
        same = same && t->shape[d] == x->shape[d];
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%s%" PRIu64,
                 d ? ", " : "", x->shape[d]);
    }
    if (same)
        return SB_OK;
    return sb_fail(err, SB_ERR_INPUT,
                   "%s: tensor %s has shape [%s], expected [%s] from config.json",
                   SB_SHOW(sb_checkpoint_path(b->checkpoint)), x->name, found, expected);
}

static sb_status matrix_of(const binder *b, const sb_tensor *t, const sb_expected *x, sb_matrix *m,
                           sb_error *err)
{
    sb_status status = check_shape(b, t, x, err);
    if (status)
        return status;
    unsigned format = 0;
    while (format < SB_FORMAT_COUNT &&
           strcmp(sb_format_name((sb_format)format), sb_dtype_name(t->dtype)) != 0)
        format++;
    if (format == SB_FORMAT_COUNT)
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "%s: tensor %s has dtype %s; this version reads BF16, F16 and F32",
                       SB_SHOW(sb_checkpoint_path(b->checkpoint)), x->name,
                       sb_dtype_name(t->dtype));
    uint64_t rows = x->rank == 1 ? 1 : x->shape[0];
    uint64_t cols = x->rank == 1 ? x->shape[0] : x->shape[x->rank - 1];
    *m = (sb_matrix){t->data, (sb_format)format, (uint32_t)rows, (uint32_t)cols, NULL};
    return SB_OK;
}

/* M-7: "rows 0..I-1 of gate_up_proj[e] are the gate and rows I..2I-1 the up projection" */
static void bind_fused(sb_layer *layer, const sb_config *c, const sb_expected *x, sb_matrix all)
{
    uint64_t per_expert = x->shape[1] * x->shape[2] * sb_format_bytes(all.format);
    for (uint32_t e = 0; e < c->experts; e++) {
        sb_matrix m = {all.data + e * per_expert, all.format, (uint32_t)x->shape[1],
                       (uint32_t)x->shape[2], NULL};
        if (x->role == SB_ROLE_experts_down) {
            layer->experts[e].down = m;
            continue;
        }
        m.rows = c->moe_intermediate;
        layer->experts[e].gate = m;
        m.data += per_expert / 2;
        layer->experts[e].up = m;
    }
}

/* M-8: "they are read as the separate projections of Qwen3.5 through a row map, and no weight is
 * moved" */
static void bind_interleaved(const binder *b, sb_layer *layer, sb_role role, sb_matrix all)
{
    const sb_config *c = b->config;
    uint32_t *const *map = b->weights->row_maps;
    struct {
        sb_role role;
        uint32_t rows;
    } part[4] = {{SB_ROLE_in_proj_qkv, sb_config_conv_channels(c)},
                 {SB_ROLE_in_proj_z, sb_config_value_width(c)},
                 {SB_ROLE_in_proj_b, c->lin_v_heads},
                 {SB_ROLE_in_proj_a, c->lin_v_heads}};
    unsigned first = role == SB_ROLE_in_proj_qkvz ? 0 : 2;
    for (unsigned i = first; i < first + 2; i++) {
        sb_matrix m = all;
        m.rows = part[i].rows;
        m.row_map = map[i];
        layer->w[part[i].role] = m;
    }
}

static void place(const binder *b, const sb_expected *x, sb_matrix m)
{
    sb_weights *w = b->weights;
    sb_layer *layer = x->layer < w->layer_count ? &w->layers[x->layer] : NULL;
    switch (x->role) {
    case SB_ROLE_embed_tokens:
        w->embed_tokens = m;
        if (b->config->tie_embeddings)
            w->lm_head = m;
        return;
    case SB_ROLE_final_norm:
        w->final_norm = m;
        return;
    case SB_ROLE_lm_head:
        w->lm_head = m;
        return;
    case SB_ROLE_mtp_fc:
    case SB_ROLE_mtp_norm_embedding:
    case SB_ROLE_mtp_norm_hidden:
    case SB_ROLE_mtp_norm:
        w->mtp[x->role] = m;
        return;
    case SB_ROLE_experts_gate_up:
    case SB_ROLE_experts_down:
        bind_fused(layer, b->config, x, m);
        return;
    case SB_ROLE_expert_gate:
        layer->experts[x->expert].gate = m;
        return;
    case SB_ROLE_expert_up:
        layer->experts[x->expert].up = m;
        return;
    case SB_ROLE_expert_down:
        layer->experts[x->expert].down = m;
        return;
    case SB_ROLE_in_proj_qkvz:
    case SB_ROLE_in_proj_ba:
        bind_interleaved(b, layer, x->role, m);
        return;
    default:
        layer->w[x->role] = m;
    }
}

/* M-4: "every role the configuration asks for is bound" */
static sb_status bind_one(void *ctx, const sb_expected *x, sb_error *err)
{
    binder *b = ctx;
    const sb_tensor *t = sb_checkpoint_find(b->checkpoint, x->name);
    if (!t)
        return sb_fail(err, SB_ERR_INPUT, "%s: tensor %s is missing; config.json asks for it",
                       SB_SHOW(sb_checkpoint_path(b->checkpoint)), x->name);
    sb_matrix m = {0};
    sb_status status = matrix_of(b, t, x, &m, err);
    if (status)
        return status;
    b->used[t - sb_checkpoint_at(b->checkpoint, 0)] = 1;
    b->weights->bound++;
    b->weights->bound_bytes += t->bytes;
    place(b, x, m);
    return SB_OK;
}

/* M-4: "knowingly ignored because it belongs to the vision tower, or an error" */
static sb_status account_rest(binder *b, sb_error *err)
{
    for (size_t i = 0; i < sb_checkpoint_count(b->checkpoint); i++) {
        const sb_tensor *t = sb_checkpoint_at(b->checkpoint, i);
        if (b->used[i])
            continue;
        if (strncmp(t->name, "model.visual.", 13) != 0 && strncmp(t->name, "visual.", 7) != 0)
            return sb_fail(
                err, SB_ERR_INPUT,
                "%s: tensor %s (shard %s) has no place in this model: expected no tensor "
                "beyond those that config.json implies and the vision tower",
                SB_SHOW(sb_checkpoint_path(b->checkpoint)), SB_SHOW(t->name),
                SB_SHOW(sb_checkpoint_shard_name(b->checkpoint, t->shard)));
        b->weights->ignored++;
        b->weights->ignored_bytes += t->bytes;
    }
    return SB_OK;
}

static sb_status allocate(const sb_config *c, sb_weights *w, sb_error *err)
{
    w->layer_count = c->layers + (w->storage.has_mtp ? c->mtp_layers : 0);
    w->layers = sb_alloc(w->layer_count, sizeof *w->layers);
    int enough = w->layers != NULL;
    for (uint32_t i = 0; enough && c->experts && i < w->layer_count; i++) {
        w->layers[i].experts = sb_alloc(c->experts, sizeof(sb_expert));
        enough = w->layers[i].experts != NULL;
    }
    if (enough && c->family == SB_QWEN3_NEXT)
        enough = sb_row_maps(c, w->row_maps) == SB_OK;
    return enough ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory while binding tensors");
}

sb_status sb_weights_bind(const sb_checkpoint *checkpoint, const sb_config *config,
                          sb_weights **out, sb_error *err)
{
    binder b = {checkpoint, config, sb_alloc(1, sizeof(sb_weights)), NULL};
    b.used = sb_alloc(sb_checkpoint_count(checkpoint), 1);
    sb_status status = b.weights && b.used ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    if (!status)
        status = find_storage(checkpoint, &b.weights->storage, err);
    if (!status)
        status = allocate(config, b.weights, err);
    if (!status)
        status = sb_each_tensor(config, &b.weights->storage, bind_one, &b, err);
    if (!status)
        status = account_rest(&b, err);
    free(b.used);
    if (status) {
        sb_weights_free(b.weights);
        return status;
    }
    *out = b.weights;
    return SB_OK;
}

void sb_weights_free(sb_weights *weights)
{
    if (!weights)
        return;
    for (uint32_t i = 0; weights->layers && i < weights->layer_count; i++)
        free(weights->layers[i].experts);
    for (size_t i = 0; i < sizeof weights->row_maps / sizeof *weights->row_maps; i++)
        free(weights->row_maps[i]);
    free(weights->layers);
    free(weights);
}
