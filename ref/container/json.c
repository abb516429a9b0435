#include "ref/container/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/json_build.h"
#include "ref/container/json_scan.h"
#include "ref/container/show.h"

/* Writes "file:line:column: what" for byte `at` of the text. */
static sb_status fail_at(const char *file, const char *text, size_t at, const char *what,
                         sb_error *err)
{
    size_t line = 1;
    size_t line_start = 0;
    for (size_t i = 0; i < at; i++) {
        if (text[i] == '\n') {
            line++;
            line_start = i + 1;
        }
    }
    return sb_fail(err, SB_ERR_INPUT, "%s:%zu:%zu: not strict JSON: %s", SB_SHOW(file), line,
                   at - line_start + 1, SB_SHOW(what));
}

/* The way in which a text is read: the memory limit as a multiple of the text's size (0: no limit),
 * and `loose` as in json_build.h. */
typedef struct manner {
    size_t times;
    int loose;
} manner;

/* C-8: "The memory that the values would take is counted before it is requested" - this function
 * checks everything that needs no memory. */
static sb_status check(const char *text, size_t n, const char *file, manner how, size_t *token,
                       sb_error *err)
{
    if (n > SB_JSON_MAX_BYTES)
        return sb_fail(err, SB_ERR_INPUT, "%s: %zu bytes of JSON, expected at most %d",
                       SB_SHOW(file), n, SB_JSON_MAX_BYTES);
    size_t at;
    sb_json_need need;
    const char *wrong = sb_json_scan(text, n, how.loose, &at, &need);
    if (wrong)
        return fail_at(file, text, at, wrong, err);
    if (how.times && need.memory > how.times * n + SB_JSON_MORE)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: its %zu bytes of JSON would take %zu bytes of memory, expected at most "
                       "%zu times as much",
                       SB_SHOW(file), n, need.memory, how.times);
    *token = need.token;
    return SB_OK;
}

/* Parses a text. The text is the part of `whole` that starts at `from`, or was made from this part.
 * Messages about values give the line and column in `whole`. */
static sb_status read_as(const char *text, size_t n, const char *file, const char *whole,
                         size_t from, manner how, json_t **out, sb_error *err)
{
    size_t token, at;
    const char *wrong;
    sb_status status = check(text, n, file, how, &token, err);
    if (status)
        return status;
    json_t *root = sb_json_build(text, n, token, how.loose, &at, &wrong);
    if (!root && wrong)
        return fail_at(file, whole, from + at, wrong, err);
    if (!root)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for its JSON", SB_SHOW(file));
    *out = root;
    return SB_OK;
}

sb_status sb_json_parse(const char *text, size_t n, const char *file, json_t **out, sb_error *err)
{
    return read_as(text, n, file, text, 0, (manner){SB_JSON_TIMES, 0}, out, err);
}

sb_status sb_json_parse_rich(const char *text, size_t n, const char *file, json_t **out,
                             sb_error *err)
{
    return read_as(text, n, file, text, 0, (manner){SB_JSON_TIMES_RICH, 0}, out, err);
}

sb_status sb_json_parse_loose(const char *text, size_t n, const char *file, json_t **out,
                              sb_error *err)
{
    return read_as(text, n, file, text, 0, (manner){SB_JSON_TIMES_RICH, 1}, out, err);
}

/* --- one member at a time --------------------------------------------------------------------- */

/* Returns the position after the first brace. strspn cannot be used, because the text has no NUL at
 * its end. */
static size_t begin_of(const char *text, size_t n)
{
    size_t at = 0;
    while (at < n && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n'))
        at++;
    return at + 1;
}

sb_status sb_json_measure(const char *text, size_t n, const char *file, const char *besides,
                          size_t *members, size_t *key_bytes, sb_error *err)
{
    sb_json_member m;
    const size_t length = strlen(besides);
    *members = 0;
    *key_bytes = 0;
    size_t token;
    sb_status status = check(text, n, file, (manner){0, 0}, &token, err);
    if (status)
        return status;
    for (size_t at = begin_of(text, n); sb_json_next(text, n, &at, &m);) {
        size_t key = m.key_end - m.key;
        *members += key != length + 2 || memcmp(text + m.key + 1, besides, length) != 0;
        *key_bytes += key;
    }
    return SB_OK;
}

/* Parses one member. Copies it to a text of its own, an object with this one member. */
static sb_status visit_one(const char *text, const sb_json_member *m, const char *file,
                           sb_json_member_fn visit, void *ctx, char *room, sb_error *err)
{
    size_t n = m->value_end - m->key + 2;
    json_t *object = NULL;
    room[0] = '{';
    memcpy(room + 1, text + m->key, n - 2);
    room[n - 1] = '}';
    sb_status status =
        read_as(room, n, file, text, m->key - 1, (manner){SB_JSON_TIMES, 0}, &object, err);
    if (status)
        return status;
    void *iter = json_object_iter(object);
    status = visit(ctx, json_object_iter_key(iter), json_object_iter_value(iter), err);
    json_decref(object);
    return status;
}

sb_status sb_json_each(const char *text, size_t n, const char *file, sb_json_member_fn visit,
                       void *ctx, sb_error *err)
{
    sb_json_member m;
    char *room = NULL;
    size_t have = 0;
    sb_status status = SB_OK;
    for (size_t at = begin_of(text, n); !status && sb_json_next(text, n, &at, &m);) {
        size_t need = m.value_end - m.key + 2;
        if (need > have) {
            free(room);
            have = 2 * need < n + 2 ? 2 * need : n + 2;
            room = sb_alloc(have, 1);
        }
        status = room
                     ? visit_one(text, &m, file, visit, ctx, room, err)
                     : sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for its JSON", SB_SHOW(file));
    }
    free(room);
    return status;
}

sb_status sb_json_load(const char *path, json_t **out, sb_error *err)
{
    unsigned char *text;
    size_t n;
    sb_status status = sb_read_file(path, SB_JSON_MAX_BYTES, &text, &n, err);
    if (status != SB_OK)
        return status;
    status = sb_json_parse((const char *)text, n, path, out, err);
    free(text);
    return status;
}

const char *sb_json_found(const json_t *value, sb_json_text *room)
{
    size_t n = sizeof room->text;
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_OBJECT:
        snprintf(room->text, n, "an object");
        break;
    case JSON_ARRAY:
        snprintf(room->text, n, "an array of %zu", json_array_size(value));
        break;
    case JSON_STRING:
        snprintf(room->text, n, "the string \"%.60s\"", SB_SHOW(json_string_value(value)));
        break;
    case JSON_INTEGER:
        snprintf(room->text, n, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        snprintf(room->text, n, "the real number %.17g", json_real_value(value));
        break;
    case JSON_TRUE:
        snprintf(room->text, n, "true");
        break;
    case JSON_FALSE:
        snprintf(room->text, n, "false");
        break;
    default:
        snprintf(room->text, n, value ? "null" : "absent");
        break;
    }
    return room->text;
}
