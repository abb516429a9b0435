/* config_source.h - included only by config.c and the other config_*.c. */
#ifndef SB_MODEL_CONFIG_SOURCE_H
#define SB_MODEL_CONFIG_SOURCE_H

#include "ref/container/json.h"
#include "ref/model/config.h"

/* M-1: "text_config if there is one, else the root" */
typedef struct sb_config_source {
    const char *file;
    sb_json_object root;
    sb_json_object text;
    int nested;
} sb_config_source;

/* These functions are called in this order, and each fills its part of *out. */
sb_status sb_config_read_family(const sb_config_source *s, sb_config *out, sb_error *err);
sb_status sb_config_refuse(const sb_config_source *s, sb_family family, sb_error *err);
sb_status sb_config_read_counts(const sb_config_source *s, sb_config *out, sb_error *err);
sb_status sb_config_read_rope(const sb_config_source *s, sb_config *out, sb_error *err);
sb_status sb_config_read_layers(const sb_config_source *s, sb_config *out, sb_error *err);

#endif
