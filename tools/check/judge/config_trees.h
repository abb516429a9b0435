/* config_trees.h - config.json as it is stored, for checks that compare keys with keys. */
#ifndef SB_CHECK_CONFIG_TREES_H
#define SB_CHECK_CONFIG_TREES_H

#include <jansson.h>

#include "tools/check/read/check.h"

/* Where a key is looked for. */
typedef enum sb_config_place {
    SB_PLACE_text,   /* text_config (of a drafter: its layer), or the root of a flat file */
    SB_PLACE_rope,   /* rope_parameters, rope_scaling, text: the first that has the key (M-10) */
    SB_PLACE_either, /* text, else the root */
    SB_PLACE_root
} sb_config_place;

enum { SB_ROPE_PLACES = 2 };

typedef struct sb_config_trees {
    json_t *root, *text;          /* text is root in a flat file */
    json_t *rope[SB_ROPE_PLACES]; /* rope_parameters, rope_scaling; NULL: no such object */
    int nested;
} sb_config_trees;

/* 0 if there is no config.json, or it is not an object; check 9 reports that. Call free in any
 * case. */
int sb_config_trees_load(const sb_checkpoint *checkpoint, sb_config_trees *out);
void sb_config_trees_free(sb_config_trees *trees);

/* NULL: the key is absent or null, which means the same. */
json_t *sb_value_get(const json_t *object, const char *key);
json_t *sb_tree_text(const sb_config_trees *trees, const char *key);
json_t *sb_tree_find(const sb_config_trees *trees, sb_config_place place, const char *key);

/* Compares by value: 1 equals 1.0, the order of keys is ignored, null equals absence. */
int sb_value_same(const json_t *a, const json_t *b);

/* Compares token ids: an id equals a list of that id; the order of lists is ignored. */
int sb_ids_same(const json_t *a, const json_t *b);

/* 1 if `value` is the default of the model's class for this RoPE key. The default is saved in the
 * root even if the model computes with another value. */
int sb_rope_is_default(const char *key, const json_t *value);

/* "0.25", "[1,2]", "absent"; long values are cut. */
typedef struct sb_value_text {
    char text[160];
} sb_value_text;
const char *sb_value_show(const json_t *value, sb_value_text *room);
const char *sb_key_show(const char *key, sb_value_text *room);

#endif
