/* plan.h - what a folder is to hold: the options read, its configuration, its tensors, and the
 * linear layers that are quantized. */
#ifndef SB_TOOLS_MAKE_PLAN_H
#define SB_TOOLS_MAKE_PLAN_H

#include "ref/container/safetensors.h"
#include "ref/model/names.h"
#include "tools/make/config_text.h"
#include "tools/make/fill.h"
#include "tools/make/scheme.h"
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
    sb_content content;     /* unless plain, a part of this quantized layer: */
    size_t linear;
} sb_make_tensor;

/* A linear layer that is quantized. */
typedef struct sb_make_linear {
    char *module; /* the name of its tensors without their suffixes */
    sb_role role;
    uint32_t layer, expert; /* as in sb_expected */
    uint64_t rows, cols;
    sb_scheme scheme;
    uint32_t group; /* columns that share a scale, where the scheme has a choice */
    size_t fused;   /* the first layer of those that share its factor; they follow each other */
} sb_make_linear;

typedef struct sb_make_plan {
    sb_make_shape shape;
    struct sb_weights *weights; /* where values come from; NULL: they are drawn */
    sb_make_recipe recipe;
    char *config_text;
    sb_config config; /* what a reader makes of that text */
    sb_storage storage;
    const sb_make_format *format;
    sb_scale_rule rule;
    uint32_t group; /* asked for; 0: the scheme's */
    int kv_scales;
    int f32_decay;           /* A_log and linear_attn.norm stay F32 */
    sb_make_tensor *tensors; /* in the order in which they are written */
    size_t count, room;
    uint64_t bytes; /* of all tensors */
    sb_make_linear *linears;
    size_t linear_count, linear_room;
} sb_make_plan;

/* Reads the options. After a failure, too, sb_make_plan_free releases what was built. */
sb_status sb_make_plan_new(const sb_make_options *options, sb_make_plan *out, sb_error *err);
void sb_make_plan_free(sb_make_plan *plan);

/* Adds a tensor (its name is copied, its bytes are counted). */
sb_status sb_make_plan_add(sb_make_plan *plan, const char *name, const sb_make_tensor *tensor,
                           sb_error *err);

/* Adds the tensors of a weight that the format quantizes. *done is 0, and nothing is added, if it
 * stays as it is: because no row of formats.def names it, or because the program that writes this
 * format leaves weights of its shape alone. SB_ERR_USAGE names the tensor and what its shape
 * breaks.
 */
sb_status sb_make_plan_quantize(sb_make_plan *plan, const sb_expected *weight, int *done,
                                sb_error *err);

#endif
