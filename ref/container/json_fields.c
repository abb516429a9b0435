/* json_fields.c - typed fields of a parsed object. The parser is in json.c. */
#include "ref/container/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"

sb_status sb_json_fail(const sb_json_object *object, const char *key, sb_status code, sb_error *err,
                       const char *format, ...)
{
    char what[640];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (object->tensor)
        return sb_fail(err, code, "%s: tensor \"%s\".%s %s", SB_SHOW(object->file),
                       SB_SHOW(object->tensor), SB_SHOW(key), what);
    return sb_fail(err, code, "%s: %s%s%s %s", SB_SHOW(object->file), object->path,
                   object->path[0] ? "." : "", SB_SHOW(key), what);
}

sb_status sb_json_wrong(const sb_json_object *object, const char *key, const json_t *found,
                        const char *expected, sb_error *err)
{
    sb_json_text room;
    return sb_json_fail(object, key, SB_ERR_INPUT, err, "is %s, expected %s",
                        sb_json_found(found, &room), expected);
}

sb_status sb_json_object_at(json_t *value, const char *file, const char *path, sb_json_object *out,
                            sb_error *err)
{
    if (!json_is_object(value)) {
        sb_json_text room;
        return sb_fail(err, SB_ERR_INPUT, "%s: %s is %s, expected an object", SB_SHOW(file),
                       path[0] ? path : "the document", sb_json_found(value, &room));
    }
    *out = (sb_json_object){.json = value, .file = file, .path = path};
    return SB_OK;
}

json_t *sb_json_get(const sb_json_object *object, const char *key)
{
    json_t *value = json_object_get(object->json, key);
    return json_is_null(value) ? NULL : value;
}

sb_status sb_json_only(const sb_json_object *object, const char *const *keys, sb_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach(object->json, key, value)
    {
        size_t i = 0;
        while (keys[i] && strcmp(keys[i], key) != 0)
            i++;
        if (!keys[i])
            return sb_json_fail(object, key, SB_ERR_INPUT, err,
                                "is a key that does not belong there");
    }
    return SB_OK;
}

static int is_absent(const sb_json_object *object, const char *key)
{
    return json_object_get(object->json, key) == NULL;
}

sb_status sb_json_u64(const sb_json_object *object, const char *key, uint64_t *out, sb_error *err)
{
    const json_t *value = json_object_get(object->json, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return sb_json_wrong(object, key, value, "an unsigned integer", err);
    *out = (uint64_t)json_integer_value(value);
    return SB_OK;
}

sb_status sb_json_u64_or(const sb_json_object *object, const char *key, uint64_t otherwise,
                         uint64_t *out, sb_error *err)
{
    *out = otherwise;
    return is_absent(object, key) ? SB_OK : sb_json_u64(object, key, out, err);
}

sb_status sb_json_u64_array(const sb_json_object *object, const char *key, size_t least,
                            size_t most, uint64_t *out, size_t *count, sb_error *err)
{
    const json_t *array = json_object_get(object->json, key);
    if (!json_is_array(array))
        return sb_json_wrong(object, key, array, "an array of unsigned integers", err);
    size_t n = json_array_size(array);
    if (n < least || n > most)
        return sb_json_fail(object, key, SB_ERR_INPUT, err, "has %zu elements, expected %zu to %zu",
                            n, least, most);
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(array, i);
        sb_json_text room;
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return sb_json_fail(object, key, SB_ERR_INPUT, err,
                                "has element %zu %s, expected an unsigned integer", i,
                                sb_json_found(value, &room));
        out[i] = (uint64_t)json_integer_value(value);
    }
    *count = n;
    return SB_OK;
}

sb_status sb_json_f64(const sb_json_object *object, const char *key, double *out, sb_error *err)
{
    const json_t *value = json_object_get(object->json, key);
    if (!json_is_number(value))
        return sb_json_wrong(object, key, value, "a number", err);
    *out = json_number_value(value);
    return SB_OK;
}

sb_status sb_json_f64_or(const sb_json_object *object, const char *key, double otherwise,
                         double *out, sb_error *err)
{
    *out = otherwise;
    return is_absent(object, key) ? SB_OK : sb_json_f64(object, key, out, err);
}

sb_status sb_json_bool(const sb_json_object *object, const char *key, int *out, sb_error *err)
{
    const json_t *value = json_object_get(object->json, key);
    if (!json_is_boolean(value))
        return sb_json_wrong(object, key, value, "true or false", err);
    *out = json_is_true(value);
    return SB_OK;
}

sb_status sb_json_bool_or(const sb_json_object *object, const char *key, int otherwise, int *out,
                          sb_error *err)
{
    *out = otherwise;
    return is_absent(object, key) ? SB_OK : sb_json_bool(object, key, out, err);
}

sb_status sb_json_string(const sb_json_object *object, const char *key, const char **out,
                         sb_error *err)
{
    const json_t *value = json_object_get(object->json, key);
    if (!json_is_string(value))
        return sb_json_wrong(object, key, value, "a string", err);
    *out = json_string_value(value);
    return SB_OK;
}

sb_status sb_json_string_or(const sb_json_object *object, const char *key, const char *otherwise,
                            const char **out, sb_error *err)
{
    *out = otherwise;
    return is_absent(object, key) ? SB_OK : sb_json_string(object, key, out, err);
}
