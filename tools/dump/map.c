#include "tools/dump/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/json.h"
#include "ref/container/show.h"
#include "tools/judge/trace/names.h"
#include "tools/judge/trace/step.h"

struct sb_dump_map {
    json_t *root; /* NULL: no map */
    char *file;
};

/* --- one row ---------------------------------------------------------------------------------- */

typedef struct row {
    const char *target;
    int has_dtype;
    sb_dtype dtype;
} row;

/* J-2: "there can be an object of `tap` and `dtype`" */
static sb_status read_object(const sb_dump_map *map, const char *key, json_t *value, row *out,
                             sb_error *err)
{
    static const char *const keys[] = {"tap", "dtype", NULL};
    sb_json_object o;
    const char *dtype = "";
    sb_status status = sb_json_object_at(value, map->file, key, &o, err);
    if (!status)
        status = sb_json_only(&o, keys, err);
    if (!status)
        status = sb_json_string(&o, "tap", &out->target, err);
    if (!status)
        status = sb_json_string(&o, "dtype", &dtype, err);
    if (!status && !sb_dtype_find(dtype, &out->dtype))
        status = sb_json_fail(&o, "dtype", SB_ERR_INPUT, err,
                              "is \"%s\", expected a type as safetensors spells it: BF16, F16, "
                              "F8_E4M3, ...",
                              SB_SHOW(dtype));
    out->has_dtype = 1;
    return status;
}

static sb_status read_row(const sb_dump_map *map, const char *key, json_t *value, row *out,
                          sb_error *err)
{
    *out = (row){.target = json_string_value(value)};
    if (out->target)
        return SB_OK;
    return read_object(map, key, value, out, err);
}

/* --- patterns --------------------------------------------------------------------------------- */

/* Replaces the star of the target by `length` bytes of `text`; 0 if the result is too long for a
 * name. */
static int fill(const char *target, const char *text, size_t length, char out[96])
{
    const char *star = strchr(target, '*');
    int n = star ? snprintf(out, 96, "%.*s%.*s%s", (int)(star - target), target, (int)length, text,
                            star + 1)
                 : snprintf(out, 96, "%s", target);
    return n >= 0 && n < 96;
}

/* True if a key fits a name; *text and *length are the part for its star. */
static int fits(const char *key, const char *name, const char **text, size_t *length)
{
    const char *star = strchr(key, '*');
    size_t n = strlen(name), head = star ? (size_t)(star - key) : 0;
    *text = name;
    *length = 0;
    if (!star)
        return strcmp(key, name) == 0;
    size_t tail = strlen(star + 1);
    if (n < head + tail || strncmp(name, key, head) != 0 || !sb_ends(name, star + 1))
        return 0;
    *text = name + head;
    *length = n - head - tail;
    return 1;
}

static sb_dump_kind kind_of(const char *target)
{
    sb_tap_name tap;
    if (!target[0])
        return SB_DUMP_LEFT_OUT;
    if (strcmp(target, "tokens") == 0)
        return SB_DUMP_TOKENS;
    if (strcmp(target, "positions") == 0)
        return SB_DUMP_POSITIONS;
    return sb_tap_find(target, &tap) ? SB_DUMP_TAP : SB_DUMP_UNKNOWN;
}

/* True if the target becomes a tap for some text in place of its star, in the layer that it names
 * or in the first. */
static int can_be_tap(const char *target)
{
    unsigned long layer = sb_starts(target, "layers.") ? strtoul(target + 7, NULL, 10) : 0;
    char full[128];
    sb_tap_name tap;
    for (size_t i = 0; sb_tap_row(i, &tap); i++) {
        snprintf(full, sizeof full, "layers.%lu.%s", layer, tap.name);
        if (sb_tap_matches(target, tap.in_layer ? full : tap.name))
            return 1;
        snprintf(full, sizeof full, "mtp.layers.0.%s", tap.name);
        if (tap.in_layer && sb_tap_matches(target, full))
            return 1;
    }
    return 0;
}

static sb_status check_row(const sb_dump_map *map, const char *key, const row *r, sb_error *err)
{
    const char *star = strchr(key, '*'), *other = strchr(r->target, '*');
    if ((star && strchr(star + 1, '*')) || (other && (!star || strchr(other + 1, '*'))))
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: \"%s\" to \"%s\": expected at most one *, and none in the tap if the "
                       "name has none",
                       SB_SHOW(map->file), SB_SHOW(key), SB_SHOW(r->target));
    if (other ? !can_be_tap(r->target) : kind_of(r->target) == SB_DUMP_UNKNOWN)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: \"%s\" to \"%s\": expected a tap of docs/trace.md, \"tokens\", "
                       "\"positions\" or \"\"",
                       SB_SHOW(map->file), SB_SHOW(key), SB_SHOW(r->target));
    return SB_OK;
}

/* --- the map ---------------------------------------------------------------------------------- */

static sb_status check(const sb_dump_map *map, sb_error *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(map->root))
        return sb_fail(err, SB_ERR_INPUT, "%s: is not an object that maps names to taps",
                       SB_SHOW(map->file));
    json_object_foreach(map->root, key, value)
    {
        row r;
        sb_status status = read_row(map, key, value, &r, err);
        if (!status)
            status = check_row(map, key, &r, err);
        if (status)
            return status;
    }
    return SB_OK;
}

/* Makes a map of a parsed document and takes ownership of it. */
static sb_status of_root(json_t *root, const char *file, sb_dump_map **out, sb_error *err)
{
    sb_dump_map *map = sb_alloc(1, sizeof *map);
    char *name = sb_strdup(file ? file : "");
    if (!map || !name) {
        free(map);
        free(name);
        json_decref(root);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a map of names");
    }
    *map = (sb_dump_map){root, name};
    sb_status status = root ? check(map, err) : SB_OK;
    if (status)
        sb_dump_map_free(map);
    else
        *out = map;
    return status;
}

sb_status sb_dump_map_parse(const char *text, size_t size, const char *file, sb_dump_map **out,
                            sb_error *err)
{
    json_t *root = NULL;
    sb_status status = sb_json_parse_rich(text, size, file, &root, err);
    return status ? status : of_root(root, file, out, err);
}

sb_status sb_dump_map_open(const char *path, sb_dump_map **out, sb_error *err)
{
    json_t *root = NULL;
    sb_status status = path ? sb_json_load(path, &root, err) : SB_OK;
    return status ? status : of_root(root, path, out, err);
}

void sb_dump_map_free(sb_dump_map *map)
{
    if (!map)
        return;
    json_decref(map->root);
    free(map->file);
    free(map);
}

/* --- names ------------------------------------------------------------------------------------ */

/* Finds names with the same meaning in every file. */
static void find_plain(const char *name, sb_dump_named *out)
{
    static const char *const tokens[] = {"tokens", "token_ids", "input_ids"};
    out->kind = strlen(name) < sizeof out->tap ? kind_of(name) : SB_DUMP_UNKNOWN;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        if (strcmp(name, tokens[i]) == 0)
            out->kind = SB_DUMP_TOKENS;
    if (!name[0])
        out->kind = SB_DUMP_UNKNOWN;
    if (out->kind == SB_DUMP_TAP)
        snprintf(out->tap, sizeof out->tap, "%s", name);
}

/* Applies a row of the map to a name that it fits. */
static void apply(const row *r, const char *text, size_t length, sb_dump_named *out)
{
    *out = (sb_dump_named){.kind = SB_DUMP_UNKNOWN, .has_dtype = r->has_dtype, .dtype = r->dtype};
    if (fill(r->target, text, length, out->tap))
        out->kind = kind_of(out->tap);
}

/* J-2: "Of several patterns that fit a name the longest counts". In *found; NULL: none fits. */
static sb_status find_pattern(const sb_dump_map *map, const char *name, const char **found,
                              const char **text, size_t *length, sb_error *err)
{
    const char *key, *part, *twin = NULL; /* twin: another one of the same length */
    json_t *value;
    size_t n;
    *found = NULL;
    json_object_foreach(map->root, key, value)
    {
        if (!strchr(key, '*') || !fits(key, name, &part, &n))
            continue;
        if (*found && strlen(key) <= strlen(*found)) {
            twin = strlen(key) == strlen(*found) ? key : twin;
            continue;
        }
        twin = NULL;
        *found = key;
        *text = part;
        *length = n;
    }
    if (twin)
        return sb_fail(err, SB_ERR_INPUT, "%s: \"%s\" and \"%s\" both match the name \"%s\"",
                       SB_SHOW(map->file), SB_SHOW(*found), SB_SHOW(twin), SB_SHOW(name));
    return SB_OK;
}

sb_status sb_dump_map_find(const sb_dump_map *map, const char *name, sb_dump_named *out,
                           sb_error *err)
{
    const char *key = name, *text = "";
    json_t *value = json_object_get(map->root, name);
    size_t length = 0;
    row r;
    *out = (sb_dump_named){.kind = SB_DUMP_UNKNOWN};
    sb_status status = value ? SB_OK : find_pattern(map, name, &key, &text, &length, err);
    if (!status && !key)
        find_plain(name, out);
    if (status || !key)
        return status;
    value = json_object_get(map->root, key);
    status = read_row(map, key, value, &r, err);
    if (!status)
        apply(&r, text, length, out);
    return status;
}
