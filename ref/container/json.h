/* json.h - strict JSON, and fields fetched with messages that say where they stand.
 *
 * Strict: the whole text is one object or array, no key stands twice in an object, no comments, no
 * NaN, nothing behind the end. The text is first walked over once without memory (json_scan.h), so
 * that a hostile one is refused before it costs any; then its values are built (json_build.h). */
#ifndef SB_CONTAINER_JSON_H
#define SB_CONTAINER_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

enum {
    SB_JSON_MAX_BYTES = 100000000, /* as the safetensors reference limits its header */
    SB_JSON_MAX_DEPTH = 64,
    SB_JSON_MAX_VALUES = 16000000, /* what 10^6 tensors need */
    /* Memory that a text may take: so many times its size, and this. */
    SB_JSON_TIMES = 8,
    SB_JSON_TIMES_RICH =
        24, /* of many short strings and small objects: tokenizers, answers of servers */
    SB_JSON_MORE = 1 << 20
};

/* Parses n bytes, which may take SB_JSON_TIMES their size of memory, or _RICH. `file` names them
 * in messages: "file:line:column: ...". json_decref releases. */
sb_status sb_json_parse(const char *text, size_t n, const char *file, json_t **out, sb_error *err);
sb_status sb_json_parse_rich(const char *text, size_t n, const char *file, json_t **out,
                             sb_error *err);

/* As Python reads it, but that all numbers are reals: of a key that stands twice the last value
 * stays, and an integer may be -0 or larger than 64 bits hold. */
sb_status sb_json_parse_loose(const char *text, size_t n, const char *file, json_t **out,
                              sb_error *err);

/* Walks over the members of an object, one parsed at a time; a key that stands twice is left to the
 * caller to find. A visitor that fails has written err. */
typedef sb_status (*sb_json_member_fn)(void *ctx, const char *key, json_t *value, sb_error *err);
sb_status sb_json_each(const char *text, size_t n, const char *file, sb_json_member_fn visit,
                       void *ctx, sb_error *err);

/* Before that: whether the text is sound, how many members its object has, those of the key
 * `besides` not counted, and the bytes of all keys as they are written. */
sb_status sb_json_measure(const char *text, size_t n, const char *file, const char *besides,
                          size_t *members, size_t *key_bytes, sb_error *err);

/* Reads and parses a file. */
sb_status sb_json_load(const char *path, json_t **out, sb_error *err);

/* An object and where it stands. `path` is "" for the root, else "text_config" or the like; if
 * `tensor` is not NULL the object describes that tensor, and path is not used. */
typedef struct sb_json_object {
    json_t *json;
    const char *file;
    const char *path;
    const char *tensor;
} sb_json_object;

/* Checks that value is an object. */
sb_status sb_json_object_at(json_t *value, const char *file, const char *path, sb_json_object *out,
                            sb_error *err);

/* The value of a key; NULL if it is absent or null. Never fails. */
json_t *sb_json_get(const sb_json_object *object, const char *key);

/* SB_ERR_INPUT if the object has a key that is not in the NULL-terminated list. */
sb_status sb_json_only(const sb_json_object *object, const char *const *keys, sb_error *err);

/* Writes "file: path.key " and the formatted text behind it; returns code. */
sb_status sb_json_fail(const sb_json_object *object, const char *key, sb_status code, sb_error *err,
                       const char *format, ...) SB_PRINTF(5, 6);

/* Writes "file: path.key is <found>, expected <expected>" and returns SB_ERR_INPUT. */
sb_status sb_json_wrong(const sb_json_object *object, const char *key, const json_t *found,
                        const char *expected, sb_error *err);

/* "an object", "the string "abc"", "-5", "null": what a message says was found. */
typedef struct sb_json_text {
    char text[96];
} sb_json_text;
const char *sb_json_found(const json_t *value, sb_json_text *room);

/* Typed fields. An unsigned integer is digits only: no sign, fraction or exponent. A number is an
 * integer or a real. The plain forms refuse an absent key; the _or forms take `otherwise` for it.
 * Both refuse null: that is a value of the wrong type. Strings live as long as the document. */
sb_status sb_json_u64(const sb_json_object *object, const char *key, uint64_t *out, sb_error *err);
sb_status sb_json_u64_or(const sb_json_object *object, const char *key, uint64_t otherwise,
                         uint64_t *out, sb_error *err);
sb_status sb_json_f64(const sb_json_object *object, const char *key, double *out, sb_error *err);
sb_status sb_json_f64_or(const sb_json_object *object, const char *key, double otherwise,
                         double *out, sb_error *err);
sb_status sb_json_bool(const sb_json_object *object, const char *key, int *out, sb_error *err);
sb_status sb_json_bool_or(const sb_json_object *object, const char *key, int otherwise, int *out,
                          sb_error *err);
sb_status sb_json_string(const sb_json_object *object, const char *key, const char **out,
                         sb_error *err);
sb_status sb_json_string_or(const sb_json_object *object, const char *key, const char *otherwise,
                            const char **out, sb_error *err);

/* An array of `least` to `most` unsigned integers. */
sb_status sb_json_u64_array(const sb_json_object *object, const char *key, size_t least,
                            size_t most, uint64_t *out, size_t *count, sb_error *err);

#endif
