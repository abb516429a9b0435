/* choices.h - the lists of make.h as tables, from names to rows. */
#ifndef SB_TOOLS_MAKE_CHOICES_H
#define SB_TOOLS_MAKE_CHOICES_H

#include "ref/model/config.h"
#include "tools/make/make.h"
#include "tools/make/quantize.h"

/* One row of presets.def. */
typedef struct sb_make_preset {
    const char *name;
    sb_family family;
    uint32_t vocab_size, ids_used, hidden_size, layers;
    uint32_t heads, kv_heads, head_dim;
    uint32_t lin_k_heads, lin_v_heads, lin_k_dim, lin_v_dim;
    uint32_t experts, experts_per_token, moe_intermediate, shared_intermediate, intermediate;
    uint32_t tied, norm_topk_prob;
    uint32_t mrope_section[3];
    uint32_t bos, eos;            /* 0: none */
    const char *output_gate_type; /* "": none */
    /* The members below are those of SB_PRESET_QWEN3; 0 in the presets of other families. */
    uint32_t rope_theta, max_positions;
    uint32_t dense_layer; /* the layer of a mixture that has a dense MLP; 0: none */
} sb_make_preset;

/* The position of a name in its list; NULL is position 0. SB_ERR_USAGE lists all names. */
sb_status sb_make_find(sb_make_list_id list, const char *name, size_t *position, sb_error *err);

const sb_make_preset *sb_make_preset_at(size_t position);
const char *sb_make_scale_rule_name(sb_scale_rule rule);

#endif
