/* take.h - modules of one checkpoint to stand in for those of another: which tensors go and come.
 *
 * W-1: modules, and never single tensors. A module is a linear layer with all its parts, or a
 * tensor that is no part of one; where one side stacks the experts of a layer and the other does
 * not, all experts of that layer are one module. */
#ifndef SB_MODEL_TAKE_H
#define SB_MODEL_TAKE_H

#include "ref/container/overlay.h"
#include "ref/model/config.h"

/* A module that a pattern names, in order of its name. */
typedef struct sb_taken_module {
    char *name;         /* without the prefix of the text model: "layers.3.self_attn.q_proj" */
    size_t goes, comes; /* tensors; of one that `other` lacks nothing goes, and it stays */
    uint64_t goes_bytes, comes_bytes;
    size_t first_goes, first_comes; /* a tensor of either side, for its name */
} sb_taken_module;

typedef struct sb_take {
    sb_taken_module *modules;
    size_t module_count;
    size_t lacking;     /* modules of base alone: they stay */
    size_t added;       /* modules of other alone: they come */
    sb_overlaid *taken; /* sorted by name */
    size_t taken_count;
    unsigned char *dropped; /* one per tensor of base */
    size_t dropped_count;
    uint64_t taken_bytes, dropped_bytes;
} sb_take;

/* Patterns are globs ('*', '?') on names of tensors or modules, with or without the prefix of the
 * text model. SB_ERR_USAGE: a pattern that matches nothing that other has, or a part of what can
 * only go as a whole; SB_ERR_INPUT: other has not all parts of a module, or other shapes. */
sb_status sb_take_plan(const sb_checkpoint *base, const sb_checkpoint *other,
                       const char *const *patterns, size_t count, sb_take *out, sb_error *err);
void sb_take_free(sb_take *take);

/* Plans, and lays over: other is gone then, also after a failure. Refuses zero points of which only
 * the declaration of other says how they are meant. */
sb_status sb_take_overlay(sb_checkpoint *base, sb_checkpoint *other, const char *const *patterns,
                          size_t count, sb_error *err);

/* W-8: refuses zero points of `other` of which only its configuration says that they are of v2. */
sb_status sb_take_check_zeros(const sb_checkpoint *other, const sb_take *take, sb_error *err);

/* The same for "PATTERN=FOLDER", as a command line has it. */
sb_status sb_take_overlay_text(sb_checkpoint *base, const char *text, sb_error *err);

/* W-7: an MTP head that was laid over brings its number of layers into a configuration that has
 * none. */
sb_status sb_take_head(const sb_checkpoint *checkpoint, sb_config *config, sb_error *err);

/* Behind the prefix of the text model, if a name has it: "layers.0.norm". Names of the vision
 * tower lose "model.". */
const char *sb_plain_name(const char *name);

/* "model.language_model.", or what else most names of the text model begin with, so that a misnamed
 * tensor does not decide; "" if none does. */
const char *sb_text_prefix(const sb_checkpoint *checkpoint);

#endif
