#include "tools/check/judge/config_trees.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/file.h"
#include "ref/container/json.h"
#include "ref/container/json_out.h"
#include "ref/container/show.h"

static json_t *object_in(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_object(value) ? value : NULL;
}

int sb_config_trees_load(const sb_checkpoint *checkpoint, sb_config_trees *out)
{
    sb_error why;
    *out = (sb_config_trees){0};
    char *path = sb_path_join(sb_checkpoint_folder(checkpoint), "config.json");
    sb_status status = path ? sb_json_load(path, &out->root, &why) : SB_ERR_MEMORY;
    free(path);
    if (status || !json_is_object(out->root))
        return 0;
    json_t *text = object_in(out->root, "text_config");
    if (!text) /* M-12: a drafter's */
        text = object_in(out->root, "transformer_layer_config");
    out->nested = text != NULL;
    out->text = text ? text : out->root;
    out->rope[0] = object_in(out->text, "rope_parameters");
    out->rope[1] = object_in(out->text, "rope_scaling");
    return 1;
}

void sb_config_trees_free(sb_config_trees *trees)
{
    json_decref(trees->root);
    *trees = (sb_config_trees){0};
}

json_t *sb_value_get(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

json_t *sb_tree_text(const sb_config_trees *trees, const char *key)
{
    return sb_value_get(trees->text, key);
}

json_t *sb_tree_find(const sb_config_trees *trees, sb_config_place place, const char *key)
{
    json_t *value = NULL;
    for (unsigned i = 0; i < SB_ROPE_PLACES && place == SB_PLACE_rope && !value; i++)
        value = sb_value_get(trees->rope[i], key);
    if (!value && place != SB_PLACE_root)
        value = sb_tree_text(trees, key);
    if (!value && (place == SB_PLACE_either || place == SB_PLACE_root))
        value = sb_value_get(trees->root, key);
    return value;
}

static int same_arrays(const json_t *a, const json_t *b)
{
    size_t n = json_array_size(a);
    if (n != json_array_size(b))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!sb_value_same(json_array_get(a, i), json_array_get(b, i)))
            return 0;
    return 1;
}

/* 1 if b has every key of a with the same value. */
static int is_part(json_t *a, const json_t *b)
{
    const char *key;
    json_t *value;
    json_object_foreach(a, key, value)
    {
        const json_t *other = sb_value_get(b, key);
        if (!json_is_null(value) && (!other || !sb_value_same(value, other)))
            return 0;
    }
    return 1;
}

int sb_value_same(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b))
        return json_integer_value(a) == json_integer_value(b);
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    if (json_is_array(a) && json_is_array(b))
        return same_arrays(a, b);
    if (json_is_object(a) && json_is_object(b))
        return is_part((json_t *)(uintptr_t)a, b) && is_part((json_t *)(uintptr_t)b, a);
    return json_equal(a, b);
}

static int has_id(const json_t *ids, const json_t *id)
{
    if (!json_is_array(ids))
        return sb_value_same(ids, id);
    for (size_t i = 0; i < json_array_size(ids); i++)
        if (sb_value_same(json_array_get(ids, i), id))
            return 1;
    return 0;
}

static int has_ids(const json_t *ids, const json_t *of)
{
    if (!json_is_array(of))
        return has_id(ids, of);
    for (size_t i = 0; i < json_array_size(of); i++)
        if (!has_id(ids, json_array_get(of, i)))
            return 0;
    return 1;
}

int sb_ids_same(const json_t *a, const json_t *b)
{
    return has_ids(a, b) && has_ids(b, a);
}

int sb_rope_is_default(const char *key, const json_t *value)
{
    double otherwise = strcmp(key, "rope_theta") == 0              ? 10000
                       : strcmp(key, "partial_rotary_factor") == 0 ? 0.25
                                                                   : -1;
    return json_is_number(value) && json_number_value(value) == otherwise;
}

const char *sb_key_show(const char *key, sb_value_text *room)
{
    snprintf(room->text, sizeof room->text, "%.150s", SB_SHOW(key));
    return room->text;
}

const char *sb_value_show(const json_t *value, sb_value_text *room)
{
    enum { SHOWN = 72 };
    if (!value)
        return "absent";
    char *text = sb_json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII |
                                          JSON_REAL_PRECISION(15));
    snprintf(room->text, sizeof room->text, "%.*s%s", SHOWN, text ? text : "?",
             text && strlen(text) > SHOWN ? "..." : "");
    free(text);
    return room->text;
}
