/* declared.h - the quantization that the configuration files of a checkpoint declare.
 *
 * The tensors decide how a module is stored. Declarations are only compared with the
 * tensors, because configuration files are copied and edited, and contradict each other. No
 * computation uses a declaration: the loader reads the tensors, and a check compares them with the
 * answers below. An sb_config contains none of this. */
#ifndef SB_MODEL_DECLARED_H
#define SB_MODEL_DECLARED_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/formats/containers.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sb_declared sb_declared;

/* The dialects of quant_method, one row each in declared.def. */
typedef enum sb_dialect {
#define SB_DIALECT(id, method, reader) SB_DIALECT_##id,
#include "ref/model/declared.def"
#undef SB_DIALECT
    SB_DIALECT_COUNT
} sb_dialect;

const char *sb_dialect_name(sb_dialect dialect); /* "compressed-tensors" */

typedef enum sb_declared_answer {
    SB_DECLARED_UNKNOWN, /* no rule covers the module; producers and engines differ on such modules
                          */
    SB_DECLARED_NO,      /* excluded, or not a target */
    SB_DECLARED_YES
} sb_declared_answer;

typedef enum sb_declared_strategy {
    SB_STRATEGY_NONE,
    SB_STRATEGY_TENSOR,
    SB_STRATEGY_CHANNEL,     /* one scale per row; group_size -1 of GPTQ and similar files */
    SB_STRATEGY_GROUP,       /* one scale per row and group_size columns */
    SB_STRATEGY_BLOCK,       /* one scale per block of block_rows x block_cols */
    SB_STRATEGY_TENSOR_GROUP /* as GROUP, and one scale per tensor */
} sb_declared_strategy;

/* The declared quantization of the input of a linear layer. */
typedef enum sb_declared_activation {
    SB_ACTIVATION_NONE,
    SB_ACTIVATION_STATIC_TENSOR, /* input_scale is in the file */
    SB_ACTIVATION_DYNAMIC_TENSOR,
    SB_ACTIVATION_DYNAMIC_TOKEN,
    SB_ACTIVATION_DYNAMIC_GROUP, /* one scale per token and activation_group columns */
    SB_ACTIVATION_NVFP4_LOCAL    /* one scale per 16 columns, and a tensor scale from the file */
} sb_declared_activation;

/* The set of tensors that store the module. */
typedef enum sb_declared_packing {
    SB_PACKED_NONE,
    SB_PACKED_CT_NVFP4,     /* nvfp4-pack-quantized */
    SB_PACKED_CT_MXFP4,     /* mxfp4-pack-quantized */
    SB_PACKED_CT_MXFP8,     /* mxfp8-quantized */
    SB_PACKED_CT_FLOAT,     /* float-quantized, naive-quantized of floats */
    SB_PACKED_CT_INT,       /* int-quantized, naive-quantized of integers: one int8 per element */
    SB_PACKED_CT_PACKED,    /* pack-quantized */
    SB_PACKED_MODELOPT,     /* weight, weight_scale, weight_scale_2, input_scale */
    SB_PACKED_FP8_INVERSE,  /* weight, weight_scale_inv */
    SB_PACKED_GPTQ,         /* qweight, qzeros with 1 subtracted, scales */
    SB_PACKED_GPTQ_V2,      /* as GPTQ, but nothing is subtracted from qzeros */
    SB_PACKED_AWQ,          /* qweight packed along the rows, in the interleaved order */
    SB_PACKED_MXFP4_BLOCKS, /* <expert tensor>_blocks and _scales */
    SB_PACKED_QUARK         /* weight, weight_scale, input_scale */
} sb_declared_packing;

/* All members from family on are 0 (none) unless answer is SB_DECLARED_YES. Texts live as long as
 * the sb_declared. */
typedef struct sb_declaration {
    sb_declared_answer answer;
    sb_quant_family family;
    sb_declared_packing packing;
    sb_declared_strategy strategy;
    sb_declared_activation activation;
    uint32_t bits;                   /* bits of a weight code */
    uint32_t group_size;             /* columns; 0 unless strategy is group or tensor_group */
    uint32_t block_rows, block_cols; /* 0 unless strategy is block */
    uint32_t activation_bits;        /* 0 unless activations are quantized */
    uint32_t activation_group;       /* columns; 0 unless per group */
    uint8_t activation_int;          /* 1 integers, 0 floats */
    uint8_t symmetric;               /* 0: zero points are in the file */
    uint8_t act_order;               /* columns are grouped by a g_idx */
    uint8_t ue8m0;                   /* every scale is a power of two */
    uint8_t pre_scaled;              /* inputs are multiplied by pre_quant_scale first */
    const char *rule;                /* the rule that decided, for messages; never NULL */
    const char *vllm_rule; /* the rule by which vLLM gives another answer, or NULL */
} sb_declaration;

typedef enum sb_declared_kv {
    SB_KV_NONE,
    SB_KV_FP8,
    SB_KV_INT8,
    SB_KV_NVFP4,
    SB_KV_COUNT
} sb_declared_kv;

const char *sb_declared_kv_name(sb_declared_kv kv); /* "none", "fp8" */

/* One file: its text (NULL if it is absent), and its name in messages. */
typedef struct sb_declared_file {
    const char *name;
    const char *text;
    size_t count;
} sb_declared_file;

/* Reads config.json and, if present, hf_quant_config.json and quantization_config.json. *out is
 * NULL if none of them declares a quantization. SB_ERR_INPUT: a file is malformed.
 * SB_ERR_UNSUPPORTED: the declaration is well-formed, but not supported (another quant_method,
 * rotations, weights that are not packed). Clauses. */
sb_status sb_declared_parse(const sb_declared_file *config, const sb_declared_file *hf_quant,
                            const sb_declared_file *quantization, sb_declared **out, sb_error *err);

/* Reads the files of a folder; the last two may be absent. */
sb_status sb_declared_load(const char *folder, sb_declared **out, sb_error *err);

/* True if mlx-lm quantized the folder, which sb_declared_load then refuses. In such a folder
 * tensors have other names, orders and values than in the checkpoint that it was made from. */
int sb_declared_is_mlx(const char *folder);

/* Reads only quantization_config.json, because some other readers prefer this file. *out is NULL if
 * the folder has no such file. */
sb_status sb_declared_load_copy(const char *folder, sb_declared **out, sb_error *err);

void sb_declared_free(sb_declared *declared); /* NULL is fine */

/* The declaration of a module. `module` is the full name of its tensors, without ".weight" or
 * another suffix ("model.language_model.layers.3.mlp.experts.5.gate_proj"); for fused experts it is
 * "....mlp.experts.gate_up_proj" or "....mlp.experts". If declared is NULL, the answer is no. Fails
 * only if a regular expression needs too many steps or there is no memory. */
sb_status sb_declared_for(const sb_declared *declared, const char *module, sb_declaration *out,
                          sb_error *err);

/* True if any answer so far failed for lack of memory. For callers that ask for many modules and
 * treat a failure as no answer. */
int sb_declared_lost(const sb_declared *declared);

/* True if two declarations agree in everything but the names of their rules. */
int sb_declaration_same(const sb_declaration *a, const sb_declaration *b);

/* The dialect of the declaration. SB_DIALECT_COUNT if `declared` is NULL, because nothing is
 * declared or the declaration could not be read. */
sb_dialect sb_declared_dialect(const sb_declared *declared);

/* The KV cache format according to the file that decides (config.json before the other files). If
 * another file differs, sb_declared_notes says so. */
sb_declared_kv sb_declared_kv_cache(const sb_declared *declared);

/* The contradictions between the files: "hf_quant_config.json says kv_cache_quant_algo fp8, but
 * config.json none". Each is one line, without folder names. */
size_t sb_declared_notes(const sb_declared *declared);
const char *sb_declared_note(const sb_declared *declared, size_t i);

/* A declaration in words for messages: "FP8 in blocks of 128 x 128, inputs 8-bit floats per token
 * and group". Returns room->text. */
typedef struct sb_declared_text {
    char text[192];
} sb_declared_text;
const char *sb_declaration_text(const sb_declaration *declaration, sb_declared_text *room);

#ifdef __cplusplus
}
#endif

#endif
