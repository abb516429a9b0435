/* json.h - strict JSON, and access to fields with error messages that name the place.
 *
 * Strict: the whole text is one object or array, no key occurs twice in an object, and there are no
 * comments, no NaN and nothing after the end. The first pass allocates no memory (json_scan.h), so
 * that a hostile text is refused before it takes memory. The second pass builds the values
 * (json_build.h). */
#ifndef SB_CONTAINER_JSON_H
#define SB_CONTAINER_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SB_JSON_MAX_BYTES = 100000000, /* the header limit of the safetensors reference */
    SB_JSON_MAX_DEPTH = 64,
    SB_JSON_MAX_VALUES = 16000000, /* enough for 10^6 tensors */
    /* The memory limit of a text is its size times TIMES (or TIMES_RICH), plus MORE. */
    SB_JSON_TIMES = 8,
    SB_JSON_TIMES_RICH =
        24, /* for many short strings and small objects: tokenizers, server responses */
    SB_JSON_MORE = 1 << 20
};

/* Parses n bytes. The memory limit is that of SB_JSON_TIMES, or for the second function that of
 * SB_JSON_TIMES_RICH. `file` names the text in messages: "file:line:column: ...". json_decref
 * releases *out. */
sb_status sb_json_parse(const char *text, size_t n, const char *file, json_t **out, sb_error *err);
sb_status sb_json_parse_rich(const char *text, size_t n, const char *file, json_t **out,
                             sb_error *err);

/* Parses as Python does, except that all numbers become reals. If a key is repeated, the last value
 * counts. An integer may be -0 or exceed 64 bits. */
sb_status sb_json_parse_loose(const char *text, size_t n, const char *file, json_t **out,
                              sb_error *err);

/* Visits the members of an object, parsing one at a time. The caller has to detect repeated keys. A
 * visitor that fails must write err. */
typedef sb_status (*sb_json_member_fn)(void *ctx, const char *key, json_t *value, sb_error *err);
sb_status sb_json_each(const char *text, size_t n, const char *file, sb_json_member_fn visit,
                       void *ctx, sb_error *err);

/* Prepares a call of sb_json_each: checks the text, counts the members of its object except those
 * with the key `besides`, and adds up the bytes of all keys as written. */
sb_status sb_json_measure(const char *text, size_t n, const char *file, const char *besides,
                          size_t *members, size_t *key_bytes, sb_error *err);

/* Reads and parses a file. */
sb_status sb_json_load(const char *path, json_t **out, sb_error *err);

/* An object and its place in the file. `path` is "" for the root, for other objects for example
 * "text_config". If `tensor` is not NULL, the object describes that tensor, and path is not
 * used. */
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

/* Writes "file: path.key " and then the formatted text; returns code. */
sb_status sb_json_fail(const sb_json_object *object, const char *key, sb_status code, sb_error *err,
                       const char *format, ...) SB_PRINTF(5, 6);

/* Writes "file: path.key is <found>, expected <expected>" and returns SB_ERR_INPUT. */
sb_status sb_json_wrong(const sb_json_object *object, const char *key, const json_t *found,
                        const char *expected, sb_error *err);

/* "an object", "the string "abc"", "-5", "null": a value in words, for messages. */
typedef struct sb_json_text {
    char text[96];
} sb_json_text;
const char *sb_json_found(const json_t *value, sb_json_text *room);

/* Typed fields. An unsigned integer has digits only: no sign, fraction or exponent. A number is an
 * integer or a real. If the key is absent, the plain forms fail, and the _or forms return
 * `otherwise`. Both refuse null as a value of the wrong type. Strings live as long as the
 * document. */
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

/* Reads an array of `least` to `most` unsigned integers. */
sb_status sb_json_u64_array(const sb_json_object *object, const char *key, size_t least,
                            size_t most, uint64_t *out, size_t *count, sb_error *err);

#ifdef __cplusplus
}
#endif

#endif
