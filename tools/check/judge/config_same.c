/* config_same.c - check 49: compares the configuration with the original's, key by key. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/file.h"
#include "tools/check/read/check.h"
#include "tools/check/judge/config_trees.h"

typedef enum how { FREE, FIELD, VALUE, IDS } how;

typedef struct row {
    const char *key;
    how how;
    sb_config_place place;
    size_t at, size;       /* for a FIELD: the member of sb_config */
    const char *otherwise; /* for a VALUE: the default as JSON; "" for none */
    sb_level level;
    const char *changes;
} row;

#define SIZE_OF(member) sizeof(((sb_config *)NULL)->member)
static const row rows[] = {
#define SB_CONFIG_FREE(name) {.key = name, .how = FREE},
#define SB_CONFIG_FIELD(where, name, member, worst, what)                                          \
    {.key = name,                                                                                  \
     .how = FIELD,                                                                                 \
     .place = SB_PLACE_##where,                                                                    \
     .at = offsetof(sb_config, member),                                                            \
     .size = SIZE_OF(member),                                                                      \
     .level = SB_LEVEL_##worst,                                                                    \
     .changes = what},
#define SB_CONFIG_VALUE(where, name, json, worst, what)                                            \
    {.key = name,                                                                                  \
     .how = VALUE,                                                                                 \
     .place = SB_PLACE_##where,                                                                    \
     .otherwise = json,                                                                            \
     .level = SB_LEVEL_##worst,                                                                    \
     .changes = what},
#define SB_CONFIG_IDS(name, worst, what)                                                           \
    {.key = name,                                                                                  \
     .how = IDS,                                                                                   \
     .place = SB_PLACE_either,                                                                     \
     .otherwise = "",                                                                              \
     .level = SB_LEVEL_##worst,                                                                    \
     .changes = what},
#include "tools/check/judge/config_same.def"
#undef SB_CONFIG_FREE
#undef SB_CONFIG_FIELD
#undef SB_CONFIG_VALUE
#undef SB_CONFIG_IDS
};

static const row *row_of(const char *key)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].key, key) == 0)
            return &rows[i];
    return NULL;
}

typedef struct pair {
    sb_check *check;
    sb_config_trees own, master;
    size_t one_sided; /* keys without a row that only one side has */
    char first[160];  /* the first few of these keys */
} pair;

static void tell(pair *p, const row *r, sb_level level, const json_t *found, const json_t *expected)
{
    sb_value_text a, b;
    sb_check_find(p->check, 49, level, "", "%s is %s, in the original %s: %s", r->key,
                  sb_value_show(found, &a), sb_value_show(expected, &b), r->changes);
}

/* V-49: "one level lower" */
static sb_level less(sb_level level)
{
    return level == SB_LEVEL_error ? SB_LEVEL_warn : SB_LEVEL_info;
}

/* --- keys that the configuration reader knows ------------------------------------------------- */

static void tell_layer(pair *p, const row *r)
{
    const sb_config *a = &p->check->self.config, *b = &p->check->master.config;
    unsigned i = 0;
    while (i < a->layers && i < b->layers && a->layer_is_full[i] == b->layer_is_full[i])
        i++;
    if (i == a->layers || i == b->layers)
        return; /* a different number of layers has its own finding */
    sb_check_find(p->check, 49, r->level, "",
                  "layer_types of layer %u is %s_attention, in the original %s_attention: %s", i,
                  a->layer_is_full[i] ? "full" : "linear", b->layer_is_full[i] ? "full" : "linear",
                  r->changes);
}

/* V-49: "a root that says something else than rope_parameters": engines that read the root use that
 * value. Check 9 alone reports a class default that transformers saves there. */
static void compare_root(pair *p, const row *r)
{
    const json_t *own = sb_tree_text(&p->own, r->key);
    const json_t *master = sb_tree_text(&p->master, r->key);
    const json_t *effective = sb_tree_find(&p->master, r->place, r->key);
    if (!own || !effective || sb_value_same(own, effective) || sb_rope_is_default(r->key, own) ||
        (master && sb_value_same(own, master)))
        return;
    sb_value_text a, b;
    sb_check_find(
        p->check, 49, r->level, "",
        "%s outside rope_parameters is %s, in the original %s: for engines that read this copy, %s",
        r->key, sb_value_show(own, &a), sb_value_show(master ? master : effective, &b), r->changes);
}

static void compare_field(pair *p, const row *r)
{
    const sb_check *c = p->check;
    const json_t *own = sb_tree_find(&p->own, r->place, r->key);
    const json_t *master = sb_tree_find(&p->master, r->place, r->key);
    if (!c->self.has_config || !c->master.has_config) {
        if (own && master && !sb_value_same(own, master) && strcmp(r->key, "model_type") != 0)
            tell(p, r, r->level, own, master);
        return;
    }
    if (memcmp((const char *)&c->self.config + r->at, (const char *)&c->master.config + r->at,
               r->size) == 0) {
        if (r->place == SB_PLACE_rope)
            compare_root(p, r);
    } else if (strcmp(r->key, "layer_types") == 0) {
        tell_layer(p, r);
    } else if ((!own && !master) || (own && master && sb_value_same(own, master))) {
        return; /* the value follows from another key, which has a finding */
    } else {
        tell(p, r, r->level, own, master);
    }
}

/* --- keys compared as JSON -------------------------------------------------------------------- */

static void compare_value(pair *p, const row *r)
{
    const json_t *own = sb_tree_find(&p->own, r->place, r->key);
    const json_t *master = sb_tree_find(&p->master, r->place, r->key);
    if (r->place == SB_PLACE_root && !(p->own.nested && p->master.nested))
        return;
    if (own && master) {
        if (!(r->how == IDS ? sb_ids_same(own, master) : sb_value_same(own, master)))
            tell(p, r, r->level, own, master);
        return;
    }
    const json_t *there = own ? own : master;
    json_t *otherwise = *r->otherwise ? json_loads(r->otherwise, JSON_DECODE_ANY, NULL) : NULL;
    if (there && otherwise && !sb_value_same(there, otherwise))
        tell(p, r, r->level, own, master);
    else if (there && !*r->otherwise)
        tell(p, r, less(r->level), own, master);
    json_decref(otherwise);
}

/* --- keys without a row ----------------------------------------------------------------------- */

static void note_one_sided(pair *p, const char *key)
{
    size_t n = strlen(p->first), m = strlen(key);
    if (p->one_sided++ < 6 && n + m + 3 < sizeof p->first) {
        memcpy(p->first + n, ", ", n ? 2 : 0);
        memcpy(p->first + n + (n ? 2 : 0), key, m + 1);
    }
}

/* V-49: "A key that samebit does not know" */
static void tell_unknown(pair *p, const char *where, const char *key, const json_t *own,
                         const json_t *master)
{
    sb_value_text a, b, name;
    sb_check_find(p->check, 49, SB_LEVEL_warn, "",
                  "%s%s is %s, in the original %s: samebit does not know this key", where,
                  sb_key_show(key, &name), sb_value_show(own, &a), sb_value_show(master, &b));
}

/* Compares the keys of two objects, except those with a row. */
static void walk(pair *p, const char *where, json_t *own, json_t *master)
{
    const char *key;
    json_t *value;
    json_object_foreach(own, key, value)
    {
        const json_t *other = sb_value_get(master, key);
        if (row_of(key) || json_is_null(value))
            continue;
        if (!other)
            note_one_sided(p, key);
        else if (!sb_value_same(value, other))
            tell_unknown(p, where, key, value, other);
    }
    json_object_foreach(master, key, value)
    {
        if (!row_of(key) && !json_is_null(value) && !sb_value_get(own, key))
            note_one_sided(p, key);
    }
}

/* V-49: "The vision tower's own configuration" */
static void walk_vision(pair *p)
{
    json_t *own = sb_value_get(p->own.root, "vision_config");
    json_t *master = sb_value_get(p->master.root, "vision_config");
    const char *key;
    json_t *value;
    if (!json_is_object(own) || !json_is_object(master))
        return;
    json_object_foreach(own, key, value)
    {
        const row *r = row_of(key);
        const json_t *other = sb_value_get(master, key);
        sb_value_text a, b, name;
        if ((r && r->how == FREE) || strcmp(key, "model_type") == 0 || json_is_null(value))
            continue;
        if (other && !sb_value_same(value, other))
            sb_check_find(p->check, 49, SB_LEVEL_error, "",
                          "vision_config.%s is %s, in the original %s: the vision tower computes "
                          "something else",
                          sb_key_show(key, &name), sb_value_show(value, &a),
                          sb_value_show(other, &b));
    }
}

static void compare(pair *p)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].how == FIELD)
            compare_field(p, &rows[i]);
        else if (rows[i].how != FREE)
            compare_value(p, &rows[i]);
    walk(p, "", p->own.text, p->master.text);
    for (unsigned i = 0; i < SB_ROPE_PLACES; i++)
        walk(p, "rope_parameters.", p->own.rope[i], p->master.rope[i]);
    if (p->own.nested && p->master.nested)
        walk(p, "", p->own.root, p->master.root);
    walk_vision(p);
    if (p->one_sided) {
        sb_value_text names;
        sb_check_find(p->check, 49, SB_LEVEL_info, "",
                      "%zu keys that samebit does not know are on one side only: %s%s",
                      p->one_sided, sb_key_show(p->first, &names), p->one_sided > 6 ? ", ..." : "");
    }
}

void sb_check_config_same(sb_check *check)
{
    pair p = {.check = check};
    if (!check->master.checkpoint || !sb_check_wanted(check, 49))
        return;
    if (sb_config_trees_load(check->self.checkpoint, &p.own) &&
        sb_config_trees_load(check->master.checkpoint, &p.master))
        compare(&p);
    sb_config_trees_free(&p.own);
    sb_config_trees_free(&p.master);
}
