#include "ref/model/names.h"

#include <stdio.h>
#include <string.h>

typedef enum dim {
    DIM_one,
    DIM_H,
    DIM_H2,
    DIM_V,
    DIM_C,
    DIM_Vd,
    DIM_nV,
    DIM_dv,
    DIM_kw,
    DIM_QKVZ,
    DIM_BA,
    DIM_QG,
    DIM_Qd,
    DIM_KVd,
    DIM_hd,
    DIM_E,
    DIM_I,
    DIM_I2,
    DIM_Is,
    DIM_F
} dim;

typedef enum scope {
    SCOPE_root,
    SCOPE_head,
    SCOPE_layer,
    SCOPE_linear,
    SCOPE_gdn,
    SCOPE_gdn_next,
    SCOPE_attn,
    SCOPE_moe,
    SCOPE_shared,
    SCOPE_fused,
    SCOPE_expert,
    SCOPE_dense,
    SCOPE_mtp
} scope;

const char *const sb_text_prefixes[SB_TEXT_PREFIXES] = {"model.language_model.",
                                                        "language_model.model.", "model."};

static const struct {
    scope scope;
    const char *name;
    unsigned rank;
    dim dims[3];
} rows[] = {
#define SB_TENSOR(role, scope, name, rank, d0, d1, d2)                                             \
    {SCOPE_##scope, name, rank, {DIM_##d0, DIM_##d1, DIM_##d2}},
#include "ref/model/tensors.def"
#undef SB_TENSOR
};

static uint64_t dim_value(const sb_config *c, dim d)
{
    switch (d) {
    case DIM_one:
        return 1;
    case DIM_H:
        return c->hidden_size;
    case DIM_H2:
        return 2 * (uint64_t)c->hidden_size;
    case DIM_V:
        return c->vocab_size;
    case DIM_C:
        return sb_config_conv_channels(c);
    case DIM_Vd:
        return sb_config_value_width(c);
    case DIM_nV:
        return c->lin_v_heads;
    case DIM_dv:
        return c->lin_v_dim;
    case DIM_kw:
        return c->conv_kernel;
    case DIM_QKVZ:
        return (uint64_t)sb_config_conv_channels(c) + sb_config_value_width(c);
    case DIM_BA:
        return 2 * (uint64_t)c->lin_v_heads;
    case DIM_QG:
        return (uint64_t)c->heads * sb_config_query_rows(c);
    case DIM_Qd:
        return sb_config_query_width(c);
    case DIM_KVd:
        return sb_config_kv_width(c);
    case DIM_hd:
        return c->head_dim;
    case DIM_E:
        return c->experts;
    case DIM_I:
        return c->moe_intermediate;
    case DIM_I2:
        return 2 * (uint64_t)c->moe_intermediate;
    case DIM_Is:
        return c->shared_intermediate;
    case DIM_F:
        return c->intermediate;
    }
    return 0;
}

const char *sb_role_name(sb_role role)
{
    return rows[role].name;
}

typedef struct walk {
    const sb_config *config;
    const sb_storage *storage;
    sb_expected_fn visit;
    void *ctx;
    sb_error *err;
} walk;

static sb_status visit_one(const walk *w, sb_role role, const char *prefix, uint32_t layer,
                           uint32_t expert)
{
    sb_expected t = {.role = role, .layer = layer, .expert = expert, .rank = rows[role].rank};
    snprintf(t.name, sizeof t.name, "%s%s", prefix, rows[role].name);
    for (unsigned d = 0; d < t.rank; d++)
        t.shape[d] = dim_value(w->config, rows[role].dims[d]);
    return w->visit(w->ctx, &t, w->err);
}

/* Visits every tensor of one scope, in the order of the table. */
static sb_status visit_scope(const walk *w, scope s, const char *prefix, uint32_t layer,
                             uint32_t expert)
{
    for (unsigned role = 0; role < SB_ROLE_COUNT; role++)
        if (rows[role].scope == s) {
            sb_status status = visit_one(w, (sb_role)role, prefix, layer, expert);
            if (status)
                return status;
        }
    return SB_OK;
}

static sb_status visit_mlp(const walk *w, const char *prefix, uint32_t layer, int fused)
{
    const uint32_t experts = sb_config_layer_experts(w->config, layer);
    if (experts == 0)
        return visit_scope(w, SCOPE_dense, prefix, layer, SB_NO_EXPERT);
    sb_status status = visit_scope(w, SCOPE_moe, prefix, layer, SB_NO_EXPERT);
    if (!status && w->config->shared_intermediate)
        status = visit_scope(w, SCOPE_shared, prefix, layer, SB_NO_EXPERT);
    if (!status && fused)
        status = visit_scope(w, SCOPE_fused, prefix, layer, SB_NO_EXPERT);
    for (uint32_t e = 0; e < experts && !fused && !status; e++) {
        char name[SB_NAME_MAX];
        snprintf(name, sizeof name, "%smlp.experts.%u.", prefix, (unsigned)e);
        status = visit_scope(w, SCOPE_expert, name, layer, e);
    }
    return status;
}

static sb_status visit_layer(const walk *w, const char *prefix, uint32_t layer, int full, int fused)
{
    sb_status status = visit_scope(w, SCOPE_layer, prefix, layer, SB_NO_EXPERT);
    if (!status && full)
        status = visit_scope(w, SCOPE_attn, prefix, layer, SB_NO_EXPERT);
    if (!status && !full) {
        scope projections = w->config->family == SB_QWEN3_NEXT ? SCOPE_gdn_next : SCOPE_gdn;
        status = visit_scope(w, projections, prefix, layer, SB_NO_EXPERT);
        if (!status)
            status = visit_scope(w, SCOPE_linear, prefix, layer, SB_NO_EXPERT);
    }
    return status ? status : visit_mlp(w, prefix, layer, fused);
}

/* M-5: "The same enumeration is used to write a folder and to bind one, so that no count is a
 * constant"
 * M-6: "`lm_head.weight` and `mtp.` stand alone, and a tied head is the embedding" */
sb_status sb_each_tensor_mixed(const sb_config *config, const sb_storage *storage,
                               const unsigned char *fused_of, sb_expected_fn visit, void *ctx,
                               sb_error *err)
{
    walk w = {config, storage, visit, ctx, err};
    char prefix[SB_NAME_MAX];
    sb_status status =
        visit_one(&w, SB_ROLE_embed_tokens, storage->prefix, config->layers, SB_NO_EXPERT);
    for (uint32_t i = 0; i < config->layers && !status; i++) {
        snprintf(prefix, sizeof prefix, "%slayers.%u.", storage->prefix, (unsigned)i);
        status = visit_layer(&w, prefix, i, config->layer_is_full[i],
                             fused_of ? fused_of[i] : storage->fused_experts);
    }
    if (!status)
        status = visit_one(&w, SB_ROLE_final_norm, storage->prefix, config->layers, SB_NO_EXPERT);
    if (!status && !config->tie_embeddings)
        status = visit_scope(&w, SCOPE_head, "", config->layers, SB_NO_EXPERT);
    if (status || !storage->has_mtp)
        return status;
    status = visit_scope(&w, SCOPE_mtp, "", config->layers, SB_NO_EXPERT);
    for (uint32_t i = 0; i < config->mtp_layers && !status; i++) {
        snprintf(prefix, sizeof prefix, "mtp.layers.%u.", (unsigned)i);
        status = visit_layer(&w, prefix, config->layers + i, 1,
                             fused_of ? fused_of[config->layers + i] : storage->fused_mtp_experts);
    }
    return status;
}

sb_status sb_each_tensor(const sb_config *config, const sb_storage *storage, sb_expected_fn visit,
                         void *ctx, sb_error *err)
{
    return sb_each_tensor_mixed(config, storage, NULL, visit, ctx, err);
}
