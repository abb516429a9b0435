/* config.h - config.json as a checked struct, which is safe to compute with.
 *
 * After success every field is in range, all divisibility conditions of the model hold, and no
 * product of two widths overflows 64 bits. A model of another family, or a model with formulas that
 * this version lacks, is refused by name (SB_ERR_UNSUPPORTED). A contradiction or a wrong type
 * means a damaged file (SB_ERR_INPUT). Keys without meaning for the text model are ignored, and so
 * is quantization_config, which declared.h reads. */
#ifndef SB_MODEL_CONFIG_H
#define SB_MODEL_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SB_MAX_LAYERS = 1024,
    SB_MAX_EXPERTS = 4096,
    SB_MAX_WIDTH = 1 << 24, /* limit of every dimension, and of products like heads * head_dim */
    SB_MAX_CONV_KERNEL = 64,
    SB_MAX_EOS = 16
};

typedef enum sb_family {
    SB_QWEN3_5_MOE, /* Qwen3.5 and 3.6 mixture of experts */
    SB_QWEN3_5,     /* the dense models of Qwen3.5 and 3.6 */
    SB_QWEN3_NEXT,  /* interleaved in_proj_qkvz and in_proj_ba, flat config */
    SB_QWEN3_MOE,   /* Qwen3 mixture of experts: attention in every layer, no shared expert */
    SB_QWEN3        /* the dense models of Qwen3 */
} sb_family;

/* The rotation "yarn"; all 0 where it is "default". */
typedef struct sb_yarn {
    float factor, attention; /* s, m */
    uint32_t low, high;
    uint32_t original; /* original_max_position_embeddings */
} sb_yarn;

typedef struct sb_config {
    sb_family family;
    char architecture[64]; /* "Qwen3_5MoeForConditionalGeneration", "" if the file has none */
    uint8_t vl;            /* the text fields are in text_config */

    uint32_t hidden_size;             /* H */
    uint32_t layers;                  /* L */
    uint32_t vocab_size;              /* V */
    uint32_t max_position_embeddings; /* the size of tables in other engines; not used here */
    double eps;                       /* rms_norm_eps as in the file */
    float eps_f32;                    /* eps rounded to binary32 */

    uint32_t heads;      /* nQ */
    uint32_t kv_heads;   /* nKV, divides heads */
    uint32_t head_dim;   /* hd, independent of H / nQ */
    uint32_t rotary_dim; /* rd, even, at most head_dim */
    double rope_theta;
    uint32_t mrope_section[3]; /* usually sums to rotary_dim / 2 if has_mrope; else 0 0 0 */
    uint8_t has_mrope;
    sb_yarn yarn;             /* only in qwen3_moe and qwen3 */
    uint8_t attention_bias;   /* always 0: refused otherwise */
    uint8_t attn_output_gate; /* 1; 0 in qwen3_moe and qwen3; other values are refused */
    uint8_t plain_norms;      /* 1 in qwen3_moe and qwen3: a norm multiplies by w, not by 1 + w */

    /* linear attention; all 0 in qwen3_moe and qwen3 */
    uint32_t conv_kernel;     /* kw */
    uint32_t lin_k_heads;     /* nK */
    uint32_t lin_v_heads;     /* nV, a multiple of nK */
    uint32_t lin_k_dim;       /* dk */
    uint32_t lin_v_dim;       /* dv */
    char output_gate_type[8]; /* always "silu": "swish" means the same, other types are refused */

    uint32_t experts;                      /* E; 0 in a dense model */
    uint32_t experts_per_token;            /* k, 1 .. E; 0 in a dense model */
    uint32_t moe_intermediate;             /* I; 0 in a dense model */
    uint32_t shared_intermediate;          /* Is; 0 if there is no shared expert */
    uint32_t intermediate;                 /* F; 0 if no layer has a dense MLP */
    uint8_t norm_topk_prob;                /* 0 only if a Qwen3-Next or qwen3_moe file says so */
    uint8_t layer_is_dense[SB_MAX_LAYERS]; /* 1: this layer of a qwen3_moe model has a dense MLP */

    uint8_t tie_embeddings;
    uint8_t mtp_declared; /* the file has mtp_num_hidden_layers */
    /* 0 or 1; if not declared, 1 in Qwen3-Next (where tensors decide), else 0 */
    uint32_t mtp_layers;

    uint8_t
        layer_is_full[SB_MAX_LAYERS]; /* 1 full attention, 0 linear attention; 0 beyond layers */
    /* full_attention_interval if layer_types contradicts it at layer other_layer; else 0 */
    uint64_t other_interval;
    uint32_t other_layer;

    uint8_t has_bos;
    uint32_t bos_id;
    uint32_t eos_count;
    uint32_t eos_ids[SB_MAX_EOS];
    char dtype[16]; /* "bfloat16", "float16", "float32"; "" if the file has none */
} sb_config;

/* Reads config.json. *out is set only on success and owns no memory. */
sb_status sb_config_load(const char *json_path, sb_config *out, sb_error *err);

/* Parses the text of a config.json; `name` names the file in messages. */
sb_status sb_config_parse(const char *text, size_t n, const char *name, sb_config *out,
                          sb_error *err);

const char *sb_family_name(sb_family family);    /* the model_type: "qwen3_5_moe" */
const char *sb_family_classes(sb_family family); /* what its class names begin with: "Qwen3_5Moe" */
int sb_family_is_flat(sb_family family);         /* it reads text only and has no text_config */

/* True for qwen3_moe and qwen3: full attention without a gate in every layer, plain norms. */
static inline int sb_family_is_qwen3(sb_family family)
{
    return family == SB_QWEN3_MOE || family == SB_QWEN3;
}

/* The widths that are products of two fields: Kd = nK dk, Vd = nV dv, C = 2 Kd + Vd, nQ hd, nKV
 * hd. */
static inline uint32_t sb_config_key_width(const sb_config *c)
{
    return c->lin_k_heads * c->lin_k_dim;
}

static inline uint32_t sb_config_value_width(const sb_config *c)
{
    return c->lin_v_heads * c->lin_v_dim;
}

static inline uint32_t sb_config_conv_channels(const sb_config *c)
{
    return 2 * sb_config_key_width(c) + sb_config_value_width(c);
}

/* The experts of a layer: E, or 0 if it has a dense MLP. Layer L is that of the MTP head. */
static inline uint32_t sb_config_layer_experts(const sb_config *c, uint32_t layer)
{
    return layer < c->layers && c->layer_is_dense[layer] ? 0 : c->experts;
}

/* The rows of q_proj for each query head: hd, and hd more for a gate. */
static inline uint32_t sb_config_query_rows(const sb_config *c)
{
    return c->head_dim * (c->attn_output_gate ? 2u : 1u);
}

static inline uint32_t sb_config_query_width(const sb_config *c)
{
    return c->heads * c->head_dim;
}

static inline uint32_t sb_config_kv_width(const sb_config *c)
{
    return c->kv_heads * c->head_dim;
}

#ifdef __cplusplus
}
#endif

#endif
