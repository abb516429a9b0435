/* config_text.h - config.json of a synthetic checkpoint, as the Hugging Face classes read it. */
#ifndef SB_TOOLS_MAKE_CONFIG_TEXT_H
#define SB_TOOLS_MAKE_CONFIG_TEXT_H

#include "tools/make/choices.h"

typedef struct sb_make_shape {
    sb_make_preset dims; /* with the requested number of layers */
    const char *dtype;   /* "bfloat16" */
    int vl;
    int has_mtp;
} sb_make_shape;

struct sb_make_plan;

/* The text of config.json, which the caller frees; NULL if memory is out. plan: the quantized
 * layers; NULL: there are none. */
char *sb_make_config_text(const sb_make_shape *shape, const struct sb_make_plan *plan);

#endif
