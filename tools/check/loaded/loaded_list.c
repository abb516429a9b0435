/* loaded_list.c - parses a list: every field must have its type, every name must be unique. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "tools/check/loaded/loaded.h"

static sb_status no_memory(const char *file, sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(file));
}

static int is_digest(const char *text)
{
    return strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32;
}

static sb_status take_digest(const sb_json_object *o, const char *key, const json_t *value,
                             const char **out, sb_error *err)
{
    if (!json_is_string(value) || !is_digest(json_string_value(value)))
        return sb_json_wrong(o, key, value, "32 hexadecimal digits, lower case", err);
    *out = json_string_value(value);
    return SB_OK;
}

static sb_status take_shape(const sb_json_object *o, sb_loaded_param *p, sb_error *err)
{
    size_t rank = 0;
    sb_status status = sb_json_u64_array(o, "shape", 0, SB_LOADED_MAX_RANK, p->shape, &rank, err);
    p->rank = (unsigned)rank;
    p->elements = 1;
    for (unsigned i = 0; i < p->rank && !status; i++) {
        if (p->shape[i] && p->elements > (UINT64_MAX >> 4) / p->shape[i])
            return sb_json_fail(o, "shape", SB_ERR_INPUT, err, "has more than 2^60 elements");
        p->elements *= p->shape[i];
    }
    return status;
}

/* Takes rms and max; a list may have both or neither. */
static sb_status take_size(const sb_json_object *o, sb_loaded_param *p, sb_error *err)
{
    if (!sb_json_get(o, "rms") || !sb_json_get(o, "max"))
        return SB_OK;
    sb_status status = sb_json_f64(o, "rms", &p->rms, err);
    if (!status)
        status = sb_json_f64(o, "max", &p->max, err);
    p->has_size = !status;
    return status;
}

static sb_status take_first(const sb_json_object *o, sb_loaded_param *p, sb_error *err)
{
    json_t *list = sb_json_get(o, "first"), *value;
    size_t i;
    if (!list)
        return SB_OK;
    if (!json_is_array(list) || json_array_size(list) > SB_LOADED_FIRST)
        return sb_json_fail(o, "first", SB_ERR_INPUT, err, "is not a list of at most %d numbers",
                            SB_LOADED_FIRST);
    json_array_foreach(list, i, value)
    {
        if (!json_is_number(value))
            return sb_json_wrong(o, "first", value, "numbers", err);
        p->first[p->first_count++] = json_number_value(value);
    }
    return SB_OK;
}

static sb_status take_slices(const sb_json_object *o, sb_loaded_param *p, sb_error *err)
{
    json_t *list = sb_json_get(o, "slices"), *value;
    size_t i;
    sb_status status = SB_OK;
    if (!list)
        return SB_OK;
    if (!json_is_array(list) || p->rank == 0 || json_array_size(list) != p->shape[0])
        return sb_json_fail(o, "slices", SB_ERR_INPUT, err,
                            "is not a list with one digest for each index of the first dimension");
    p->slices = sb_alloc(json_array_size(list), sizeof *p->slices);
    if (!p->slices)
        return no_memory(o->file, err);
    json_array_foreach(list, i, value)
    {
        status = take_digest(o, "slices", value, &p->slices[i], err);
        if (status)
            return status;
    }
    return status;
}

static sb_status take_part(json_t *value, const sb_json_object *o, sb_loaded_part *part,
                           sb_error *err)
{
    static const char *const keys[] = {"module", "rows", NULL};
    sb_json_object inner;
    uint64_t rows[2];
    size_t n = 0;
    sb_status status = sb_json_object_at(value, o->file, "parts", &inner, err);
    if (!status)
        status = sb_json_only(&inner, keys, err);
    if (!status)
        status = sb_json_string(&inner, "module", &part->module, err);
    if (status || !sb_json_get(&inner, "rows"))
        return status;
    status = sb_json_u64_array(&inner, "rows", 2, 2, rows, &n, err);
    if (status)
        return status;
    if (rows[0] >= rows[1])
        return sb_json_fail(&inner, "rows", SB_ERR_INPUT, err,
                            "is [%" PRIu64 ", %" PRIu64 "], expected [first, end] with first < end",
                            rows[0], rows[1]);
    part->has_rows = 1;
    part->first = rows[0];
    part->end = rows[1];
    return SB_OK;
}

static sb_status take_parts(const sb_json_object *o, sb_loaded_param *p, sb_error *err)
{
    json_t *list = sb_json_get(o, "parts"), *value;
    size_t i;
    sb_status status = SB_OK;
    if (!list)
        return SB_OK;
    if (!json_is_array(list) || json_array_size(list) == 0)
        return sb_json_fail(o, "parts", SB_ERR_INPUT, err, "is not a list of modules");
    p->parts = sb_alloc(json_array_size(list), sizeof *p->parts);
    if (!p->parts)
        return no_memory(o->file, err);
    p->part_count = json_array_size(list);
    json_array_foreach(list, i, value)
    {
        status = take_part(value, o, &p->parts[i], err);
        if (status)
            return status;
    }
    return status;
}

static sb_status take_param(json_t *value, const char *file, sb_loaded_param *p, sb_error *err)
{
    static const char *const keys[] = {"name", "shape", "dtype",  "digest", "kind", "rms",
                                       "max",  "first", "slices", "parts",  NULL};
    sb_json_object o;
    const char *dtype = NULL, *kind = NULL;
    sb_status status = sb_json_object_at(value, file, "parameters", &o, err);
    if (!status)
        status = sb_json_string(&o, "name", &p->name, err);
    if (status)
        return status;
    o.tensor = p->name;
    status = sb_json_only(&o, keys, err);
    if (!status)
        status = take_shape(&o, p, err);
    if (!status)
        status = sb_json_string(&o, "dtype", &dtype, err);
    if (!status && !sb_dtype_find(dtype, &p->dtype))
        status =
            sb_json_fail(&o, "dtype", SB_ERR_INPUT, err,
                         "is '%s', expected a type of safetensors, such as BF16", SB_SHOW(dtype));
    if (!status)
        status = take_digest(&o, "digest", sb_json_get(&o, "digest"), &p->digest, err);
    if (!status)
        status = sb_json_string_or(&o, "kind", "parameter", &kind, err);
    if (!status && strcmp(kind, "parameter") != 0 && strcmp(kind, "buffer") != 0)
        status = sb_json_fail(&o, "kind", SB_ERR_INPUT, err,
                              "is '%s', expected parameter or buffer", SB_SHOW(kind));
    if (!status)
        p->is_buffer = strcmp(kind, "buffer") == 0;
    if (!status)
        status = take_size(&o, p, err);
    if (!status)
        status = take_first(&o, p, err);
    if (!status)
        status = take_slices(&o, p, err);
    return status ? status : take_parts(&o, p, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const sb_loaded_param *)a)->name, ((const sb_loaded_param *)b)->name);
}

static sb_status take_all(const sb_json_object *root, sb_loaded_list *out, sb_error *err)
{
    json_t *list = sb_json_get(root, "parameters"), *value;
    size_t i;
    if (!json_is_array(list))
        return sb_json_wrong(root, "parameters", list, "a list of parameters", err);
    out->rows = sb_alloc(json_array_size(list), sizeof *out->rows);
    if (!out->rows)
        return no_memory(root->file, err);
    json_array_foreach(list, i, value)
    {
        out->count++;
        sb_status status = take_param(value, root->file, &out->rows[i], err);
        if (status)
            return status;
    }
    if (out->count)
        qsort(out->rows, out->count, sizeof *out->rows, by_name);
    for (i = 1; i < out->count; i++)
        if (by_name(&out->rows[i - 1], &out->rows[i]) == 0)
            return sb_fail(err, SB_ERR_INPUT, "%s: parameter \"%s\" is listed twice",
                           SB_SHOW(root->file), SB_SHOW(out->rows[i].name));
    return SB_OK;
}

sb_status sb_loaded_parse(const char *text, size_t n, const char *file, sb_loaded_list *out,
                          sb_error *err)
{
    sb_json_object root;
    const char *format = NULL;
    *out = (sb_loaded_list){0};
    sb_status status = sb_json_parse_rich(text, n, file, &out->document, err);
    if (!status)
        status = sb_json_object_at(out->document, file, "", &root, err);
    if (!status)
        status = sb_json_string(&root, "format", &format, err);
    if (!status && strcmp(format, "samebit-loaded 1") != 0)
        status = sb_json_fail(&root, "format", SB_ERR_INPUT, err,
                              "is '%s', expected samebit-loaded 1", SB_SHOW(format));
    if (!status)
        status = sb_json_string_or(&root, "program", "", &out->program, err);
    return status ? status : take_all(&root, out, err);
}

sb_status sb_loaded_load(const char *path, sb_loaded_list *out, sb_error *err)
{
    unsigned char *bytes = NULL;
    size_t count = 0;
    *out = (sb_loaded_list){0};
    sb_status status = sb_read_file(path, SB_JSON_MAX_BYTES, &bytes, &count, err);
    if (!status)
        status = sb_loaded_parse((const char *)bytes, count, path, out, err);
    free(bytes);
    return status;
}

void sb_loaded_free(sb_loaded_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->rows[i].slices);
        free(list->rows[i].parts);
    }
    free(list->rows);
    json_decref(list->document);
    *list = (sb_loaded_list){0};
}
