/* plan.h - what a folder is to hold: the options read, its configuration and its tensors. */
#ifndef SB_TOOLS_MAKE_PLAN_H
#define SB_TOOLS_MAKE_PLAN_H

#include "ref/container/safetensors.h"
#include "ref/model/names.h"
#include "tools/make/config_text.h"
#include "tools/make/fill.h"
#include "tools/make/vision.h"

typedef struct sb_make_tensor {
    char *name;
    sb_dtype dtype;
    unsigned rank;
    uint64_t shape[5];
    uint64_t bytes;
    sb_role role; /* SB_ROLE_COUNT: of the vision tower, of this kind: */
    sb_vision_kind vision;
    uint32_t layer, expert; /* as in sb_expected */
} sb_make_tensor;

typedef struct sb_make_plan {
    sb_make_shape shape;
    sb_make_recipe recipe;
    char *config_text;
    sb_config config; /* what a reader makes of that text */
    sb_storage storage;
    sb_dtype dtype;
    int f32_decay;           /* A_log and linear_attn.norm stay F32 */
    sb_make_tensor *tensors; /* in the order in which they are written */
    size_t count, room;
    uint64_t bytes; /* of all tensors */
} sb_make_plan;

/* Reads the options. After a failure, too, sb_make_plan_free releases what was built. */
sb_status sb_make_plan_new(const sb_make_options *options, sb_make_plan *out, sb_error *err);
void sb_make_plan_free(sb_make_plan *plan);

#endif
