#include "ref/container/json.h"

#include <stdio.h>
#include <stdlib.h>

#include "ref/container/file.h"
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

/* True for what the first pass leaves to jansson. Anything else that jansson says about a text that
 * passed it means that memory is out, which jansson reports as all kinds of errors, or as none:
 * then there is no text, and the code was never set. */
static int is_about_the_text(const json_error_t *why)
{
    enum json_error_code code = why->text[0] ? json_error_code(why) : json_error_unknown;
    return code == json_error_duplicate_key || code == json_error_numeric_overflow ||
           code == json_error_invalid_utf8;
}

/* C-4: "a key that stands twice is refused" - by jansson, which otherwise keeps the last one. */
sb_status sb_json_parse(const char *text, size_t n, const char *file, json_t **out, sb_error *err)
{
    if (n > SB_JSON_MAX_BYTES)
        return sb_fail(err, SB_ERR_INPUT, "%s: %zu bytes of JSON, expected at most %d",
                       SB_SHOW(file), n, SB_JSON_MAX_BYTES);
    size_t at;
    const char *wrong = sb_json_scan(text, n, &at);
    if (wrong)
        return fail_at(file, text, at, wrong, err);
    json_error_t why;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (!root && is_about_the_text(&why))
        return fail_at(file, text, why.position > 0 ? (size_t)why.position - 1 : 0, why.text, err);
    if (!root)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for its JSON", SB_SHOW(file));
    *out = root;
    return SB_OK;
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
