/* take.h - replaces modules of one checkpoint by those of another: plans which tensors are removed
 * and added.
 *
 * W-1: whole modules are replaced, never single tensors. A module is a linear layer with all its
 * parts, or a tensor outside such layers. If only one side stacks the experts of a layer, all
 * experts of that layer are one module. */
#ifndef SB_MODEL_TAKE_H
#define SB_MODEL_TAKE_H

#include "ref/container/overlay.h"
#include "ref/model/config.h"

/* A module that matches a pattern. Modules are sorted by name. */
typedef struct sb_taken_module {
    char *name;         /* without the prefix of the text model: "layers.3.self_attn.q_proj" */
    size_t goes, comes; /* numbers of tensors in base and in other; comes 0: the module stays */
    uint64_t goes_bytes, comes_bytes;
    size_t first_goes, first_comes; /* one tensor of each side, whose name messages show */
} sb_taken_module;

typedef struct sb_take {
    sb_taken_module *modules;
    size_t module_count;
    size_t lacking;     /* number of modules only in base, which stay */
    size_t added;       /* number of modules only in other, which are added */
    sb_overlaid *taken; /* sorted by name */
    size_t taken_count;
    unsigned char *dropped; /* one per tensor of base */
    size_t dropped_count;
    uint64_t taken_bytes, dropped_bytes;
} sb_take;

/* Patterns are globs ('*', '?') on names of tensors or modules, with or without the prefix of the
 * text model. SB_ERR_USAGE: a pattern matches nothing in other, or matches only a part of experts
 * that must be replaced as a whole. SB_ERR_INPUT: other lacks parts of a module, or has different
 * shapes. */
sb_status sb_take_plan(const sb_checkpoint *base, const sb_checkpoint *other,
                       const char *const *patterns, size_t count, sb_take *out, sb_error *err);
void sb_take_free(sb_take *take);

/* Plans and overlays. Takes ownership of `other`, also on failure. Refuses zero points whose
 * convention is known only from the declaration of `other`. */
sb_status sb_take_overlay(sb_checkpoint *base, sb_checkpoint *other, const char *const *patterns,
                          size_t count, sb_error *err);

/* W-8: refuses zero points of `other` that only its configuration declares as v2. */
sb_status sb_take_check_zeros(const sb_checkpoint *other, const sb_take *take, sb_error *err);

/* As sb_take_overlay, for the text "PATTERN=FOLDER" of a command line. */
sb_status sb_take_overlay_text(sb_checkpoint *base, const char *text, sb_error *err);

/* W-7: if the configuration has no MTP layers, an overlaid MTP head sets their number. */
sb_status sb_take_head(const sb_checkpoint *checkpoint, sb_config *config, sb_error *err);

/* The name without the prefix of the text model, if it has this prefix: "layers.0.norm". Names of
 * the vision tower lose "model.". */
const char *sb_plain_name(const char *name);

/* The prefix that most names of the text model have ("model.language_model."), so that a misnamed
 * tensor does not decide. "" if no name has a prefix. */
const char *sb_text_prefix(const sb_checkpoint *checkpoint);

#endif
