/* plan.h - the planned content of a folder: options, configuration, tensors, and the quantized
 * linear layers. */
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
    sb_role role; /* SB_ROLE_COUNT: a tensor of the vision tower, with the kind `vision` */
    sb_vision_kind vision;
    uint32_t layer, expert; /* as in sb_expected */
    sb_content content;     /* not plain: a part of the quantized layer `linear` */
    size_t linear;
} sb_make_tensor;

/* A linear layer that is quantized. */
typedef struct sb_make_linear {
    char *module; /* the name of its tensors without their suffixes */
    sb_role role;
    uint32_t layer, expert; /* as in sb_expected */
    uint64_t rows, cols;
    sb_scheme scheme;
    uint32_t group; /* columns per scale, if the scheme has a choice */
    size_t fused;   /* the first of the layers that share its factor; they are consecutive */
} sb_make_linear;

typedef struct sb_make_plan {
    sb_make_shape shape;
    struct sb_weights *weights; /* source of the values; NULL: they are drawn */
    sb_make_recipe recipe;
    char *config_text;
    sb_config config; /* parsed from that text */
    sb_storage storage;
    const sb_make_format *format;
    sb_scale_rule rule;
    uint32_t group; /* as requested; 0: the scheme's */
    int kv_scales;
    int f32_decay;           /* A_log and linear_attn.norm stay F32 */
    sb_make_tensor *tensors; /* in the order in which they are written */
    size_t count, room;
    uint64_t bytes; /* of all tensors */
    sb_make_linear *linears;
    size_t linear_count, linear_room;
} sb_make_plan;

/* Makes the plan from the options. Call sb_make_plan_free after a failure, too. */
sb_status sb_make_plan_new(const sb_make_options *options, sb_make_plan *out, sb_error *err);
void sb_make_plan_free(sb_make_plan *plan);

/* Adds a tensor (its name is copied, its bytes are counted). */
sb_status sb_make_plan_add(sb_make_plan *plan, const char *name, const sb_make_tensor *tensor,
                           sb_error *err);

/* Adds the tensors of a weight that the format quantizes. If the weight is not quantized, sets
 * *done to 0 and adds nothing: no row of formats.def names it, or the program that writes this
 * format skips weights of this shape. SB_ERR_USAGE names the tensor and the violated rule. */
sb_status sb_make_plan_quantize(sb_make_plan *plan, const sb_expected *weight, int *done,
                                sb_error *err);

#endif
