/* drafter.h - a synthetic EAGLE-3 drafter for a target that `samebit make` makes (M-12, G-26). */
#ifndef SB_TOOLS_MAKE_DRAFTER_H
#define SB_TOOLS_MAKE_DRAFTER_H

#include "ref/container/safetensors.h"
#include "tools/make/plan.h"

typedef enum sb_drafter_flag {
#define SB_DRAFTER_FLAG(name, help) SB_DRAFTER_##name,
#include "tools/make/drafter_flags.def"
#undef SB_DRAFTER_FLAG
    SB_DRAFTER_FLAGS
} sb_drafter_flag;

typedef enum sb_drafter_tensor {
#define SB_DRAFTER_TENSOR(id, name, in_layer, rows, cols, flag) SB_DRAFTER_TENSOR_##id,
#include "tools/make/drafter_tensors.def"
#undef SB_DRAFTER_TENSOR
    SB_DRAFTER_TENSORS
} sb_drafter_tensor;

typedef enum sb_drafter_size {
    SB_DRAFTER_one,
    SB_DRAFTER_target,     /* Ht */
    SB_DRAFTER_fused,      /* 3 Ht */
    SB_DRAFTER_hidden,     /* H */
    SB_DRAFTER_joined,     /* 2 H */
    SB_DRAFTER_query,      /* nQ hd */
    SB_DRAFTER_key,        /* nKV hd */
    SB_DRAFTER_head,       /* hd */
    SB_DRAFTER_mlp,        /* F */
    SB_DRAFTER_drafted,    /* Vd */
    SB_DRAFTER_vocabulary, /* V */
    SB_DRAFTER_SIZES
} sb_drafter_size;

enum { SB_DRAFTER_STATES = 3 };

typedef struct sb_drafter {
    const sb_make_preset *target;
    const sb_config *config; /* of the target */
    uint64_t seed;
    sb_make_recipe recipe;
    int speculators; /* the dialect; 0: SpecForge */
    unsigned char flag[SB_DRAFTER_FLAGS];
    uint32_t size[SB_DRAFTER_SIZES], heads, kv_heads;
    uint32_t after[SB_DRAFTER_STATES]; /* layers after which the states are taken */
    uint32_t *ids;                     /* (Vd) the target's id of each row of the head, ascending */
    sb_codes codes;                    /* of the target; recipe predictable only */
} sb_drafter;

/* Writes the folder of a drafter. SB_ERR_USAGE: an option that does not fit. */
sb_status sb_make_drafter(const sb_make_options *options, sb_error *err);

/* The text of config.json, which the caller frees; NULL if memory is out. */
char *sb_drafter_config_text(const sb_drafter *drafter);

/* Adds what recipe `predictable` puts into a row of noise. */
void sb_drafter_predict(const sb_drafter *drafter, sb_drafter_tensor tensor, uint64_t row,
                        uint64_t col, size_t n, float *out);

/* The part of a tensor of recipe `predictable` that is noise: the spread of its elements. */
float sb_drafter_noise(const sb_drafter *drafter, sb_drafter_tensor tensor);

uint32_t sb_drafter_rows(const sb_drafter *drafter, sb_drafter_tensor tensor);
uint32_t sb_drafter_cols(const sb_drafter *drafter, sb_drafter_tensor tensor);

#endif
