#include "ref/model/weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/formats/wide.h"
#include "ref/model/held.h"
#include "ref/model/probe.h"
#include "ref/model/row_map.h"

typedef struct binder {
    const sb_checkpoint *checkpoint;
    const sb_config *config;
    const sb_declared *declared;
    sb_weights *weights;
    unsigned char *used; /* one per tensor of the checkpoint */
} binder;

static int has(const sb_checkpoint *checkpoint, const char *prefix, const char *name)
{
    char full[SB_NAME_MAX];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return sb_checkpoint_find(checkpoint, full) != NULL;
}

/* True if the name of any tensor begins with prefix and name. */
static int begins(const sb_checkpoint *checkpoint, const char *prefix, const char *name)
{
    char full[SB_NAME_MAX];
    size_t length = (size_t)snprintf(full, sizeof full, "%s%s", prefix, name);
    for (size_t i = 0; i < sb_checkpoint_count(checkpoint); i++)
        if (strncmp(sb_checkpoint_at(checkpoint, i)->name, full, length) == 0)
            return 1;
    return 0;
}

/* M-6: "Tensor names of the text model start with `model.language_model.`, `model.` or
 * `language_model.model.`" */
static sb_status find_storage(const sb_checkpoint *checkpoint, sb_storage *s, sb_error *err)
{
    *s = (sb_storage){0};
    for (size_t i = 0; i < SB_TEXT_PREFIXES; i++)
        if (has(checkpoint, sb_text_prefixes[i], "embed_tokens.weight")) {
            if (s->prefix)
                return sb_fail(
                    err, SB_ERR_INPUT,
                    "%s: two embeddings, %sembed_tokens.weight and %sembed_tokens.weight; "
                    "expected one",
                    SB_SHOW(sb_checkpoint_path(checkpoint)), s->prefix, sb_text_prefixes[i]);
            s->prefix = sb_text_prefixes[i];
        }
    if (!s->prefix)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: no embedding: none of model.language_model.embed_tokens.weight, "
                       "model.embed_tokens.weight, language_model.model.embed_tokens.weight",
                       SB_SHOW(sb_checkpoint_path(checkpoint)));
    s->fused_mtp_experts = begins(checkpoint, "mtp.layers.0.", "mlp.experts.gate_up_proj");
    s->has_mtp = begins(checkpoint, "mtp.", "");
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
    sb_format format;
    if (!sb_plain_format(t->dtype, &format))
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "%s: tensor %s has dtype %s; this version reads BF16, F16 and F32",
                       SB_SHOW(sb_checkpoint_path(b->checkpoint)), x->name,
                       sb_dtype_name(t->dtype));
    uint64_t rows = x->rank == 1 ? 1 : x->shape[0];
    uint64_t cols = x->rank == 1 ? x->shape[0] : x->shape[x->rank - 1];
    *m = (sb_matrix){
        .data = t->data, .format = format, .rows = (uint32_t)rows, .cols = (uint32_t)cols};
    return SB_OK;
}

/* M-7: "rows 0..I-1 of gate_up_proj[e] are the gate projection and rows I..2I-1 the up
 * projection" */
static sb_status bind_fused(const binder *b, const sb_expected *x, const sb_found *found,
                            sb_error *err)
{
    sb_layer *layer = &b->weights->layers[x->layer];
    sb_status status = SB_OK;
    for (uint32_t e = 0; e < b->config->experts && !status; e++) {
        sb_expert *expert = &layer->experts[e];
        sb_matrix m;
        status = sb_found_expert(b->checkpoint, found, e, &m, err);
        if (x->role == SB_ROLE_experts_down) {
            expert->down = m;
            continue;
        }
        m.rows = b->config->moe_intermediate;
        expert->gate = m;
        m.first_row = m.rows;
        expert->up = m;
    }
    return status;
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

/* "A quantized convolution has FP8 codes and one scale for the tensor or for each channel" */
static sb_status decode_conv(const binder *b, const sb_expected *x, const sb_found *found,
                             sb_matrix *m, sb_error *err)
{
    enum { F32_BYTES = 4 };
    const sb_matrix *codes = &found->matrix;
    sb_layer *layer = &b->weights->layers[x->layer];
    double wide[SB_MAX_CONV_KERNEL];
    if (found->container != SB_CONTAINER_fp8_tensor && found->container != SB_CONTAINER_fp8_channel)
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "%s: tensor %s is stored as %s; a quantized convolution is read as "
                       "fp8-tensor or fp8-channel only",
                       SB_SHOW(sb_checkpoint_path(b->checkpoint)), x->name,
                       sb_container_name(found->container));
    layer->taps = sb_alloc((size_t)codes->rows * codes->cols, F32_BYTES);
    if (!layer->taps)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %s", x->name);
    for (uint32_t c = 0; c < codes->rows; c++) {
        sb_matrix_wide(codes, c, wide);
        for (uint32_t j = 0; j < codes->cols; j++)
            sb_store_u32(layer->taps + F32_BYTES * ((size_t)c * codes->cols + j),
                         sb_bits_f32((float)wide[j]));
    }
    *m = (sb_matrix){
        .data = layer->taps, .format = SB_FORMAT_f32, .rows = codes->rows, .cols = codes->cols};
    return SB_OK;
}

static void mark_used(binder *b, const sb_tensor *t)
{
    b->used[t - sb_checkpoint_at(b->checkpoint, 0)] = 1;
    b->weights->bound++;
    b->weights->bound_bytes += t->bytes;
}

static sb_status missing(const binder *b, const char *name, sb_error *err)
{
    return sb_fail(err, SB_ERR_INPUT, "%s: tensor %s is missing, but config.json requires it",
                   SB_SHOW(sb_checkpoint_path(b->checkpoint)), name);
}

static sb_status bind_plain(binder *b, const sb_expected *x, sb_error *err)
{
    const sb_tensor *t = sb_checkpoint_find(b->checkpoint, x->name);
    if (!t)
        return missing(b, x->name, err);
    sb_matrix m = {0};
    sb_status status = matrix_of(b, t, x, &m, err);
    if (!status) {
        mark_used(b, t);
        place(b, x, m);
    }
    return status;
}

/* Binds a linear layer or a stack, in any container. */
static sb_status bind_linear(binder *b, const sb_expected *x, const char *module, sb_error *err)
{
    int conv = x->role == SB_ROLE_conv1d, stack = x->rank == 3 && !conv;
    sb_found found;
    sb_status status =
        sb_detect(b->checkpoint, module, stack ? (uint32_t)x->shape[0] : 0,
                  x->shape[conv ? 0 : x->rank - 2], x->shape[x->rank - 1], &found, err);
    if (status)
        return status;
    if (found.container == SB_CONTAINER_COUNT)
        return missing(b, x->name, err);
    /* W-7: "The checkpoint's declaration is not compared with modules that were laid over" */
    if (!sb_found_origin(b->checkpoint, &found))
        status = sb_hold_against(b->weights, b->declared, module, &found, err);
    struct sb_stored *stored = &b->weights->stored[found.container];
    stored->layers += stack ? x->shape[0] : 1;
    for (unsigned part = 0; part < SB_PART_COUNT; part++)
        if (found.part[part]) {
            mark_used(b, found.part[part]);
            stored->bytes += found.part[part]->bytes;
        }
    if (!status && stack)
        return bind_fused(b, x, &found, err);
    sb_matrix m = found.matrix;
    if (!status && conv)
        status = decode_conv(b, x, &found, &m, err);
    if (!status)
        place(b, x, m);
    return status;
}

/* True if the tensor is stored as FP8 codes, which a scale must explain. */
static int is_fp8(const binder *b, const sb_expected *x)
{
    const sb_tensor *t = sb_checkpoint_find(b->checkpoint, x->name);
    return t && t->dtype == SB_DTYPE_F8_E4M3;
}

enum { KV_NAMES = 5 };

/* Binds the multiplier of an FP8 cache. The tensor may have any name that exporters use. */
static sb_status bind_kv_scale(binder *b, const char *layer, const char *const names[KV_NAMES],
                               float *scale, sb_error *err)
{
    for (unsigned i = 0; i < KV_NAMES; i++) {
        char full[SB_NAME_MAX];
        snprintf(full, sizeof full, "%s%s", layer, names[i]);
        const sb_tensor *t = sb_checkpoint_find(b->checkpoint, full);
        if (!t)
            continue;
        sb_factor factor = {0};
        sb_status status = sb_read_factor(b->checkpoint, t, &factor, err);
        if (status)
            return status;
        if (factor.value == 0)
            return sb_fail(err, SB_ERR_INPUT, "%s: tensor %s is 0; expected a scale above 0",
                           SB_SHOW(sb_checkpoint_path(b->checkpoint)), full);
        if (!b->used[t - sb_checkpoint_at(b->checkpoint, 0)])
            mark_used(b, t);
        *scale = factor.value;
        return SB_OK;
    }
    return SB_OK;
}

/* "k_proj.k_scale and v_proj.v_scale, or one of their other names" */
static sb_status bind_kv(binder *b, const sb_expected *k_proj, sb_error *err)
{
    static const char *const k_names[KV_NAMES] = {"k_proj.k_scale", "k_scale", "attn.k_scale",
                                                  "k_proj.output_scale", "kv_scale"};
    static const char *const v_names[KV_NAMES] = {"v_proj.v_scale", "v_scale", "attn.v_scale",
                                                  "v_proj.output_scale", "kv_scale"};
    sb_layer *layer = &b->weights->layers[k_proj->layer];
    char prefix[SB_NAME_MAX];
    snprintf(prefix, sizeof prefix, "%.*s", (int)(strlen(k_proj->name) - strlen("k_proj.weight")),
             k_proj->name);
    sb_status status = bind_kv_scale(b, prefix, k_names, &layer->k_scale, err);
    return status ? status : bind_kv_scale(b, prefix, v_names, &layer->v_scale, err);
}

/* M-4: "Every role that the configuration requires is bound" */
static sb_status bind_one(void *ctx, const sb_expected *x, sb_error *err)
{
    binder *b = ctx;
    char module[SB_NAME_MAX];
    size_t length = strlen(x->name);
    if (x->role == SB_ROLE_experts_gate_up || x->role == SB_ROLE_experts_down)
        return bind_linear(b, x, x->name, err);
    int conv = x->role == SB_ROLE_conv1d && is_fp8(b, x);
    if ((x->rank != 2 && !conv) || x->role == SB_ROLE_embed_tokens)
        return bind_plain(b, x, err);
    snprintf(module, sizeof module, "%.*s", (int)(length - strlen(".weight")), x->name);
    sb_status status = bind_linear(b, x, module, err);
    return status || x->role != SB_ROLE_k_proj ? status : bind_kv(b, x, err);
}

/* M-4: "is ignored because it belongs to the vision tower, or is an error" */
static sb_status account_rest(binder *b, sb_error *err)
{
    for (size_t i = 0; i < sb_checkpoint_count(b->checkpoint); i++) {
        const sb_tensor *t = sb_checkpoint_at(b->checkpoint, i);
        if (b->used[i])
            continue;
        if (strncmp(t->name, "model.visual.", 13) != 0 && strncmp(t->name, "visual.", 7) != 0)
            return sb_fail(err, SB_ERR_INPUT,
                           "%s: tensor %s (shard %s) does not belong to this model: expected only "
                           "the tensors implied by config.json and the vision tower",
                           SB_SHOW(sb_checkpoint_path(b->checkpoint)), SB_SHOW(t->name),
                           SB_SHOW(sb_checkpoint_shard_name(b->checkpoint, t->shard)));
        b->weights->ignored++;
        b->weights->ignored_bytes += t->bytes;
    }
    return SB_OK;
}

/* Finds the layers with stacked experts: overlaid and grafted checkpoints may stack only some
 * layers. */
static sb_status find_fused(const sb_checkpoint *checkpoint, const sb_config *c, sb_weights *w,
                            sb_error *err)
{
    static const char stack[] = "mlp.experts.gate_up_proj";
    char layer[SB_NAME_MAX];
    w->fused_of = sb_alloc(w->layer_count, 1);
    if (!w->fused_of)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory while binding tensors");
    for (uint32_t i = 0, seen = 0; i < w->layer_count; i++) {
        int mtp = i >= c->layers;
        if (!sb_config_layer_experts(c, i))
            continue;
        snprintf(layer, sizeof layer, "%slayers.%u.", mtp ? "mtp." : w->storage.prefix,
                 (unsigned)(mtp ? i - c->layers : i));
        w->fused_of[i] = (unsigned char)begins(checkpoint, layer, stack);
        if (!mtp && !seen++)
            w->storage.fused_experts = w->fused_of[i];
    }
    return SB_OK;
}

static sb_status allocate(const sb_config *c, sb_weights *w, sb_error *err)
{
    w->layer_count = c->layers + (w->storage.has_mtp ? c->mtp_layers : 0);
    w->layers = sb_alloc(w->layer_count, sizeof *w->layers);
    int enough = w->layers != NULL;
    for (uint32_t i = 0; enough && i < w->layer_count; i++) {
        if (!sb_config_layer_experts(c, i))
            continue;
        w->layers[i].experts = sb_alloc(c->experts, sizeof(sb_expert));
        enough = w->layers[i].experts != NULL;
    }
    if (enough && c->family == SB_QWEN3_NEXT)
        enough = sb_row_maps(c, w->row_maps) == SB_OK;
    return enough ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory while binding tensors");
}

sb_status sb_weights_bind(const sb_checkpoint *checkpoint, const sb_config *config,
                          const sb_declared *declared, sb_weights **out, sb_error *err)
{
    binder b = {checkpoint, config, declared, sb_alloc(1, sizeof(sb_weights)), NULL};
    b.used = sb_alloc(sb_checkpoint_count(checkpoint), 1);
    sb_status status = b.weights && b.used ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    if (!status)
        status = find_storage(checkpoint, &b.weights->storage, err);
    if (!status)
        status = allocate(config, b.weights, err);
    if (!status)
        status = find_fused(checkpoint, config, b.weights, err);
    if (!status)
        status = sb_each_tensor_mixed(config, &b.weights->storage, b.weights->fused_of, bind_one,
                                      &b, err);
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
    for (uint32_t i = 0; weights->layers && i < weights->layer_count; i++) {
        free(weights->layers[i].experts);
        free(weights->layers[i].taps);
    }
    for (size_t i = 0; i < sizeof weights->row_maps / sizeof *weights->row_maps; i++)
        free(weights->row_maps[i]);
    free(weights->fused_of);
    free(weights->layers);
    free(weights);
}
