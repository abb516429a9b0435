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

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sb_make_options {
    const char *dir;
    const char *preset;
    const char *recipe;     /* NULL: "mistakes" */
    const char *format;     /* NULL: "bf16" */
    const char *layout;     /* NULL: "text" */
    const char *storage;    /* NULL: "qwen3.6" */
    const char *experts;    /* NULL: as the family publishes them; else for trunk and MTP */
    const char *scale_rule; /* NULL: the format's own */
    const char *weights;    /* a checkpoint to take values and shape from, instead of a preset */
    unsigned group_size;    /* 0: the format's own */
    unsigned layers;        /* 0: the preset's */
    const struct sb_make_preset *shape; /* replaces the preset's shape (choices.h); NULL: none */
    const char *drafter;  /* "eagle3": writes a drafter for this target instead; NULL: no */
    const char *dialect;  /* of the drafter; NULL: "speculators" */
    const char *flags;    /* of the drafter: names with commas between; NULL: none */
    unsigned draft_vocab; /* rows of its head; 0: 32000, or 7/8 of a small vocabulary */
    uint64_t seed;
    uint64_t shard_bytes; /* 0: 5 GB, or three shards if that were only one */
    uint64_t hold;        /* most bytes of quantized layers held in memory (pieces.h); 0: 1 GB */
    int no_mtp;
    int tokenizer; /* writes tokenizer.json and tokenizer_config.json, too */
    int kv_scales; /* writes scales of the FP8 keys and values, if the format declares them */
    int replace;   /* the folder may have files; other declarations are removed */
    /* Called with "writing" and byte counts, like sb_progress_bytes; NULL for none. The last call
     * has done == total. */
    void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total);
    void *progress_ctx;
} sb_make_options;

/* Writes the checkpoint, or its drafter. An unknown name is SB_ERR_USAGE; the message lists the
 * known names. */
sb_status sb_make(const sb_make_options *options, sb_error *err);

/* The choices of each option. NULL stands for the first entry of a list. Exceptions: a preset has
 * no default, NULL for SB_MAKE_EXPERTS is the family's way, and NULL for SB_MAKE_SCALE_RULES is the
 * format's own rule. */
typedef enum sb_make_list_id {
    SB_MAKE_PRESETS,
    SB_MAKE_RECIPES,
    SB_MAKE_FORMATS,
    SB_MAKE_LAYOUTS,
    SB_MAKE_STORAGES,
    SB_MAKE_EXPERTS,
    SB_MAKE_SCALE_RULES,
    SB_MAKE_DIALECTS,
    SB_MAKE_FLAGS,
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

#ifdef __cplusplus
}
#endif

#endif
