#include "tests/check/folder.h"

#include "tests/lib/cmocka.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/folder_parts.h"

folder_file *folder_text(const folder *f, const char *name)
{
    for (size_t i = 0; i < f->file_count; i++)
        if (strcmp(f->files[i].name, name) == 0)
            return &f->files[i];
    return NULL;
}

void folder_put(folder *f, const char *name, const void *bytes, size_t size)
{
    folder_file *file = folder_text(f, name);
    unsigned char *copy = malloc(size + 1);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    copy[size] = '\0';
    if (!file) {
        if (f->file_count == f->file_room) {
            f->file_room = 2 * f->file_room + 8;
            f->files = realloc(f->files, f->file_room * sizeof *f->files);
            assert_non_null(f->files);
        }
        file = &f->files[f->file_count++];
        *file = (folder_file){.name = folder_string(name)};
    }
    free(file->bytes);
    file->bytes = copy;
    file->size = size;
}

void folder_remove(folder *f, const char *name)
{
    folder_file *file = folder_text(f, name);
    if (file) {
        free(file->name);
        free(file->bytes);
        *file = f->files[--f->file_count];
        return;
    }
    size_t kept = 0, count = f->count;
    for (size_t i = 0; i < count; i++)
        if (strcmp(f->tensors[i]->file, name) == 0)
            folder_tensor_free(f->tensors[i]);
        else
            f->tensors[kept++] = f->tensors[i];
    f->count = kept;
    if (kept == count)
        fail_msg("the folder has no file %s", name);
}

static folder_file *text_of(const folder *f, const char *name)
{
    folder_file *file = folder_text(f, name);
    if (!file)
        fail_msg("the folder has no file %s", name);
    return file;
}

void folder_replace(folder *f, const char *name, const char *old, const char *by)
{
    folder_file *file = text_of(f, name);
    const char *text = (const char *)file->bytes, *at = strstr(text, old);
    if (!at)
        fail_msg("%s has no %s", name, old);
    size_t before = (size_t)(at - text), n = strlen(text) - strlen(old) + strlen(by);
    char *changed = malloc(n + 1);
    assert_non_null(changed);
    memcpy(changed, text, before);
    strcpy(changed + before, by);
    strcat(changed, at + strlen(old));
    folder_put(f, name, changed, n);
    free(changed);
}

/* The value of a key of an object, or of a position of an array. */
static json_t *child(json_t *of, const char *key)
{
    return json_is_array(of) ? json_array_get(of, strtoul(key, NULL, 10))
                             : json_object_get(of, key);
}

static json_t *parse(const folder *f, const char *name)
{
    json_error_t where;
    const folder_file *file = text_of(f, name);
    json_t *root = json_loadb((const char *)file->bytes, file->size, JSON_DECODE_ANY, &where);
    if (!root)
        fail_msg("%s: %s", name, where.text);
    return root;
}

static void set_child(json_t *of, const char *key, const char *value)
{
    json_error_t where;
    size_t i = strtoul(key, NULL, 10);
    json_t *fresh = value ? json_loads(value, JSON_DECODE_ANY, &where) : NULL;
    if (value && !fresh)
        fail_msg("%s: %s", value, where.text);
    int failed = !json_is_array(of)
                     ? (fresh ? json_object_set_new(of, key, fresh) : json_object_del(of, key))
                 : !fresh                   ? json_array_remove(of, i)
                 : i == json_array_size(of) ? json_array_append_new(of, fresh)
                                            : json_array_set_new(of, i, fresh);
    if (failed)
        fail_msg("cannot set or remove %s", key);
}

void folder_json(folder *f, const char *name, const char *path, const char *value)
{
    json_t *root = parse(f, name), *at = root;
    char *keys = folder_string(path), *key = keys, *dot;
    for (; (dot = strchr(key, '.')); key = dot + 1) {
        *dot = '\0';
        at = child(at, key);
        if (!at)
            fail_msg("%s has no %s of %s", name, key, path);
    }
    set_child(at, key, value);
    char *text = json_dumps(root, JSON_INDENT(2));
    assert_non_null(text);
    folder_put(f, name, text, strlen(text));
    free(text);
    free(keys);
    json_decref(root);
}

const char *folder_json_get(const folder *f, const char *name, const char *path)
{
    static char *text;
    json_t *root = parse(f, name), *at = root;
    char *keys = folder_string(path), *next = NULL;
    for (char *key = strtok_r(keys, ".", &next); key && at; key = strtok_r(NULL, ".", &next))
        at = child(at, key);
    free(text);
    text = at ? json_dumps(at, JSON_ENCODE_ANY) : folder_string("");
    free(keys);
    json_decref(root);
    return text;
}

/* --- damage ----------------------------------------------------------------------------------- */

static folder_damage *damage(folder *f, damage_kind kind, const char *file)
{
    folder_damage **end = &f->damages, *d = calloc(1, sizeof *d);
    assert_non_null(d);
    *d = (folder_damage){.kind = kind, .file = file ? folder_string(file) : NULL};
    while (*end)
        end = &(*end)->next;
    return *end = d;
}

void folder_damage_byte(folder *f, const char *file, uint64_t at, unsigned bits)
{
    folder_damage *d = damage(f, DAMAGE_BYTE, file);
    d->at = at;
    d->bits = bits;
}

static folder_damage *range(folder *f, damage_kind kind, const char *file, uint64_t at,
                            uint64_t count)
{
    folder_damage *d = damage(f, kind, file);
    d->at = at;
    d->count = count;
    return d;
}

void folder_damage_zero(folder *f, const char *file, uint64_t at, uint64_t count)
{
    range(f, DAMAGE_ZERO, file, at, count);
}

void folder_damage_copy(folder *f, const char *file, uint64_t from, uint64_t to, uint64_t count)
{
    range(f, DAMAGE_COPY, file, from, count)->to = to;
}

void folder_damage_shift(folder *f, const char *file, uint64_t at, uint64_t count)
{
    range(f, DAMAGE_SHIFT, file, at, count);
}

void folder_damage_random(folder *f, const char *file, uint64_t at, uint64_t count, uint64_t seed)
{
    range(f, DAMAGE_RANDOM, file, at, count)->to = seed;
}

void folder_damage_cut(folder *f, const char *file, uint64_t bytes)
{
    damage(f, DAMAGE_CUT, file)->at = bytes;
}

void folder_damage_append(folder *f, const char *file, uint64_t bytes)
{
    damage(f, DAMAGE_APPEND, file)->at = bytes;
}

void folder_damage_header(folder *f, const char *file, const char *old, const char *by)
{
    folder_damage *d = damage(f, DAMAGE_HEADER, file);
    d->old = folder_string(old);
    d->by = folder_string(by);
}

void folder_damage_lost(folder *f, const char *file)
{
    damage(f, DAMAGE_LOST, file);
}

void folder_damage_pages(folder *f, const char *tensor, uint64_t first, unsigned count)
{
    const folder_tensor *t = folder_find(f, tensor);
    folder_damage *d = damage(f, DAMAGE_PAGES, t->file);
    d->old = folder_string(t->name);
    d->at = first;
    d->bits = count;
}

void folder_damage_index(folder *f, const char *tensor, const char *file)
{
    damage(f, DAMAGE_INDEX, file)->old = folder_string(tensor);
}
