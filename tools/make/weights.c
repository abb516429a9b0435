#include "tools/make/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/checkpoint.h"
#include "ref/container/file.h"
#include "ref/formats/format.h"

struct sb_weights {
    sb_checkpoint *checkpoint;
    sb_config config;
    sb_storage storage;
    const sb_tensor **tensors; /* by layer, expert and role */
};

static const sb_tensor **place_of(const sb_weights *w, uint32_t layer, uint32_t expert,
                                  sb_role role)
{
    size_t slot = expert == SB_NO_EXPERT ? w->config.experts : expert;
    return &w->tensors[((size_t)layer * (w->config.experts + 1) + slot) * SB_ROLE_COUNT + role];
}

static int has(const sb_weights *w, const char *prefix, const char *name)
{
    char whole[SB_NAME_MAX];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    return sb_checkpoint_find(w->checkpoint, whole) != NULL;
}

static void find_storage(sb_weights *w)
{
    w->storage = (sb_storage){
        .prefix = sb_text_prefixes[0],
        .fused_experts = 0,
        .fused_mtp_experts = has(w, "mtp.layers.0.", "mlp.experts.gate_up_proj"),
        .has_mtp = w->config.mtp_layers > 0 && has(w, "mtp.", "fc.weight"),
    };
    for (unsigned i = 0; i < SB_TEXT_PREFIXES; i++)
        if (has(w, sb_text_prefixes[i], "embed_tokens.weight"))
            w->storage.prefix = sb_text_prefixes[i];
    uint32_t first = 0; /* layer with experts */
    while (first + 1 < w->config.layers && !sb_config_layer_experts(&w->config, first))
        first++;
    char stack[64];
    snprintf(stack, sizeof stack, "layers.%u.mlp.experts.gate_up_proj", (unsigned)first);
    w->storage.fused_experts = has(w, w->storage.prefix, stack);
}

static int is_float(sb_dtype dtype)
{
    return dtype == SB_DTYPE_BF16 || dtype == SB_DTYPE_F16 || dtype == SB_DTYPE_F32;
}

static sb_status take_tensor(void *ctx, const sb_expected *x, sb_error *err)
{
    sb_weights *w = ctx;
    const sb_tensor *t = sb_checkpoint_find(w->checkpoint, x->name);
    int fits = t && is_float(t->dtype) && t->rank == x->rank;
    for (unsigned d = 0; fits && d < x->rank; d++)
        fits = t->shape[d] == x->shape[d];
    if (!fits)
        return sb_fail(
            err, SB_ERR_USAGE,
            "--weights %s: %s is %s; expected a checkpoint of floats with all tensors of its model",
            sb_checkpoint_path(w->checkpoint), x->name,
            !t                    ? "absent"
            : !is_float(t->dtype) ? "not stored as floats"
                                  : "of the wrong shape");
    *place_of(w, x->layer, x->expert, x->role) = t;
    return SB_OK;
}

static sb_status fill_table(sb_weights *w, sb_error *err)
{
    size_t layers = (size_t)w->config.layers + w->config.mtp_layers + 1;
    if (w->config.family == SB_QWEN3_NEXT)
        return sb_fail(err, SB_ERR_USAGE,
                       "--weights %s: Qwen3-Next stores its projections interleaved; expected "
                       "Qwen3.5 or Qwen3.6",
                       sb_checkpoint_path(w->checkpoint));
    w->tensors = sb_alloc(layers * (w->config.experts + 1) * SB_ROLE_COUNT, sizeof *w->tensors);
    if (!w->tensors)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a table of tensors");
    find_storage(w);
    return sb_each_tensor(&w->config, &w->storage, take_tensor, w, err);
}

sb_status sb_weights_open(const char *path, sb_weights **out, sb_error *err)
{
    sb_weights *w = sb_alloc(1, sizeof *w);
    *out = NULL;
    if (!w)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %s", path);
    sb_status status = sb_checkpoint_open(path, &w->checkpoint, err);
    char *config = status ? NULL : sb_path_join(sb_checkpoint_folder(w->checkpoint), "config.json");
    if (!status)
        status = config ? sb_config_load(config, &w->config, err)
                        : sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    free(config);
    if (!status)
        status = fill_table(w, err);
    if (status)
        sb_weights_close(w);
    else
        *out = w;
    return status;
}

void sb_weights_close(sb_weights *w)
{
    if (!w)
        return;
    sb_checkpoint_close(w->checkpoint);
    free(w->tensors);
    free(w);
}

void sb_weights_shape(const sb_weights *w, sb_make_preset *dims)
{
    const sb_config *c = &w->config;
    uint32_t dense = 0;
    while (dense < c->layers && !c->layer_is_dense[dense])
        dense++;
    *dims =
        (sb_make_preset){.name = sb_family_name(c->family),
                         .family = c->family,
                         .vocab_size = c->vocab_size,
                         .ids_used = c->vocab_size,
                         .hidden_size = c->hidden_size,
                         .layers = c->layers,
                         .heads = c->heads,
                         .kv_heads = c->kv_heads,
                         .head_dim = c->head_dim,
                         .lin_k_heads = c->lin_k_heads,
                         .lin_v_heads = c->lin_v_heads,
                         .lin_k_dim = c->lin_k_dim,
                         .lin_v_dim = c->lin_v_dim,
                         .experts = c->experts,
                         .experts_per_token = c->experts_per_token,
                         .moe_intermediate = c->moe_intermediate,
                         .shared_intermediate = c->shared_intermediate,
                         .intermediate = c->intermediate,
                         .tied = c->tie_embeddings,
                         .norm_topk_prob = c->norm_topk_prob,
                         .bos = c->has_bos ? c->bos_id : 0,
                         .eos = c->eos_count ? c->eos_ids[0] : 0,
                         .rope_theta = c->rope_theta <= UINT32_MAX ? (uint32_t)c->rope_theta : 0,
                         .max_positions = c->max_position_embeddings,
                         .dense_layer = dense < c->layers ? dense : 0};
    memcpy(dims->mrope_section, c->mrope_section, sizeof dims->mrope_section);
}

int sb_weights_have_mtp(const sb_weights *w)
{
    return w->storage.has_mtp;
}

sb_status sb_weights_fit(const sb_weights *w, const sb_config *made, sb_error *err)
{
    const sb_config *own = &w->config;
    const char *other = own->layers != made->layers ||
                                memcmp(own->layer_is_full, made->layer_is_full, own->layers) != 0
                            ? "layer_types"
                        : memcmp(own->layer_is_dense, made->layer_is_dense, own->layers) != 0
                            ? "mlp_only_layers"
                        : own->rope_theta != made->rope_theta || own->rotary_dim != made->rotary_dim
                            ? "rope_parameters"
                        : own->conv_kernel != made->conv_kernel ? "linear_conv_kernel_dim"
                        : own->eps != made->eps                 ? "rms_norm_eps"
                                                                : NULL;
    if (other)
        return sb_fail(
            err, SB_ERR_USAGE,
            "--weights %s: %s differs from the value that all models of samebit make share",
            sb_checkpoint_path(w->checkpoint), other);
    return SB_OK;
}

/* For experts in one tensor: the first element of this expert's matrix. */
static const sb_tensor *in_stack(const sb_weights *w, const sb_make_matrix *m, uint64_t *first)
{
    int down = m->role == SB_ROLE_expert_down;
    uint64_t size = m->rows * m->cols;
    *first =
        down ? m->expert * size : (2 * (uint64_t)m->expert + (m->role == SB_ROLE_expert_up)) * size;
    return *place_of(w, m->layer, SB_NO_EXPERT,
                     down ? SB_ROLE_experts_down : SB_ROLE_experts_gate_up);
}

void sb_weights_row(const sb_weights *w, const sb_make_matrix *m, uint64_t row, uint64_t col,
                    size_t n, float *out)
{
    uint64_t first = 0;
    const sb_tensor *t = *place_of(w, m->layer, m->expert, m->role);
    if (!t)
        t = in_stack(w, m, &first);
    sb_format format = t->dtype == SB_DTYPE_F32   ? SB_FORMAT_f32
                       : t->dtype == SB_DTYPE_F16 ? SB_FORMAT_f16
                                                  : SB_FORMAT_bf16;
    first += row * m->cols + col;
    sb_decode(format, t->data + first * sb_format_bytes(format), n, out);
}
