/* vision.h - a small vision tower with the published tensor names, for folders of layout vl. */
#ifndef SB_TOOLS_MAKE_VISION_H
#define SB_TOOLS_MAKE_VISION_H

#include <stdint.h>

#include "ref/base/status.h"
#include "ref/model/config.h"

enum {
    SB_VISION_DEPTH = 1,
    SB_VISION_HIDDEN = 64,
    SB_VISION_INTERMEDIATE = 128,
    SB_VISION_HEADS = 4,
    SB_VISION_CHANNELS = 3,
    SB_VISION_PATCH = 16,
    SB_VISION_TEMPORAL = 2,
    SB_VISION_MERGE = 2,
    SB_VISION_POSITIONS = 16
};

typedef enum sb_vision_kind { SB_VISION_weight, SB_VISION_norm, SB_VISION_bias } sb_vision_kind;

typedef struct sb_vision_tensor {
    char name[96];
    sb_vision_kind kind;
    unsigned rank;
    uint64_t shape[5];
} sb_vision_tensor;

typedef sb_status (*sb_vision_fn)(void *ctx, const sb_vision_tensor *tensor, sb_error *err);

/* Calls visit for every tensor of the tower, in the order of vision.def, block by block. */
sb_status sb_vision_each(const sb_config *config, sb_vision_fn visit, void *ctx, sb_error *err);

#endif
