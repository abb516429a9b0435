/* make.h - synthetic checkpoints in the published layout: the library behind `samebit make`.
 *
 * A folder has model*.safetensors (with an index when there are several), and config.json as the
 * Hugging Face classes read it. G-1: "a pure function of seed, preset, recipe, tensor name and
 * element, and so is every byte of the folder". The values do not depend on the layout, on how
 * experts are stored or on shards, and the formats differ only by their final rounding. */
#ifndef SB_TOOLS_MAKE_MAKE_H
#define SB_TOOLS_MAKE_MAKE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "ref/base/status.h"

typedef struct sb_make_options {
    const char *dir;
    const char *preset;
    const char *recipe;     /* NULL: "mistakes" */
    const char *format;     /* NULL: "bf16" */
    const char *layout;     /* NULL: "text" */
    const char *storage;    /* NULL: "qwen3.6" */
    const char *experts;    /* NULL: as the family publishes them; else of trunk and MTP alike */
    const char *scale_rule; /* NULL: the format's own */
    const char *weights;    /* a checkpoint whose values and shape are taken, and no preset's */
    unsigned group_size;    /* 0: the format's own */
    unsigned layers;        /* 0: the preset's */
    const struct sb_make_preset *shape; /* instead of the preset's (choices.h); NULL: none */
    uint64_t seed;
    uint64_t shard_bytes; /* 0: 5 GB, or three shards where that would be one */
    uint64_t hold;        /* bytes of quantized layers that may be held (pieces.h); 0: 1 GB */
    int no_mtp;
    int tokenizer; /* a tokenizer.json and a tokenizer_config.json, too */
    int kv_scales; /* scales of the FP8 keys and values, where a format declares them */
    int replace;   /* the folder need not be empty; other declarations in it are removed */
    /* Called with "writing" and bytes, as sb_progress_bytes is; NULL for none. The last call has
     * done == total. */
    void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total);
    void *progress_ctx;
} sb_make_options;

/* Writes the checkpoint. A name that no list has is SB_ERR_USAGE with the names that it has. */
sb_status sb_make(const sb_make_options *options, sb_error *err);

/* What each option can be; the first entry of every list but the presets is what NULL stands for,
 * except of SB_MAKE_EXPERTS, where NULL leaves it to the family, and of SB_MAKE_SCALE_RULES, where
 * it leaves it to the format. */
typedef enum sb_make_list_id {
    SB_MAKE_PRESETS,
    SB_MAKE_RECIPES,
    SB_MAKE_FORMATS,
    SB_MAKE_LAYOUTS,
    SB_MAKE_STORAGES,
    SB_MAKE_EXPERTS,
    SB_MAKE_SCALE_RULES,
    SB_MAKE_LISTS
} sb_make_list_id;

typedef struct sb_make_choice {
    const char *name;
    const char *help; /* one line */
} sb_make_choice;

const char *sb_make_list_name(sb_make_list_id list); /* "preset" */
const sb_make_choice *sb_make_choices(sb_make_list_id list, size_t *count);

/* All lists as text, for --list. */
void sb_make_list(FILE *out);

#endif
