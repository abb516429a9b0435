/* splice.c - replaces one value of a JSON text and keeps every other byte. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/json.h"
#include "ref/container/show.h"
#include "tools/check/convert/plan.h"

static const char key[] = "quantization_config";

/* The texts have passed sb_json_parse, so walking over them needs no checks. */
static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

static const char *skip_string(const char *at)
{
    for (at++; *at != '"'; at++)
        at += *at == '\\';
    return at + 1;
}

static const char *skip_value(const char *at)
{
    if (*at == '"')
        return skip_string(at);
    if (*at != '{' && *at != '[')
        return at + strcspn(at, ",]} \t\r\n");
    int depth = 0;
    do {
        if (*at == '"') {
            at = skip_string(at);
            continue;
        }
        depth += *at == '{' || *at == '[';
        depth -= *at == '}' || *at == ']';
        at++;
    } while (depth > 0);
    return at;
}

/* The value of a key of the object that begins at `at`, or NULL. */
static const char *find_value(const char *at, const char *name)
{
    size_t n = strlen(name);
    at = skip_space(at + 1);
    while (*at == '"') {
        const char *begin = at + 1, *end = skip_string(at);
        at = skip_space(skip_space(end) + 1);
        if ((size_t)(end - begin) == n + 1 && strncmp(begin, name, n) == 0)
            return at;
        at = skip_space(skip_value(at));
        if (*at == ',')
            at = skip_space(at + 1);
    }
    return NULL;
}

/* Copies value, with `indent` blanks before each line but the first. */
static char *put_value(char *to, const char *value, size_t indent)
{
    for (; *value; value++) {
        *to++ = *value;
        if (*value == '\n') {
            memset(to, ' ', indent);
            to += indent;
        }
    }
    return to;
}

static size_t lines(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* Replaces [begin, end) of text by `before`, `value` and `behind`. */
static char *replace(const char *text, const char *begin, const char *end, const char *before,
                     const char *value, size_t indent, const char *behind)
{
    size_t room =
        strlen(text) + strlen(before) + strlen(value) + indent * lines(value) + strlen(behind) + 1;
    char *out = sb_alloc(room, 1), *at = out;
    if (!out)
        return NULL;
    memcpy(at, text, (size_t)(begin - text));
    at += begin - text;
    memcpy(at, before, strlen(before));
    at = put_value(at + strlen(before), value, indent);
    memcpy(at, behind, strlen(behind));
    strcpy(at + strlen(behind), end);
    return out;
}

sb_status sb_splice_quantization(const char *file, const char *text, const char *value, char **out,
                                 sb_error *err)
{
    const char *root = skip_space(text);
    const char *inner = find_value(root, "text_config");
    const char *old = find_value(root, key);
    const char *old_inner = inner && *inner == '{' ? find_value(inner, key) : NULL;
    char *first = NULL;
    if (find_value(root, "compression_config"))
        return sb_fail(
            err, SB_ERR_UNSUPPORTED,
            "%s: declares its quantization as compression_config, which cannot be rewritten",
            SB_SHOW(file));
    if (old)
        first = replace(text, old, skip_value(old), "", value, 2, "");
    else if (old_inner)
        first = replace(text, old_inner, skip_value(old_inner), "", value, 4, "");
    else
        first = replace(text, root + 1, root + 1, "\n  \"quantization_config\": ", value, 2,
                        *skip_space(root + 1) == '}' ? "\n" : ",");
    if (first && old && old_inner) { /* both exist: replaces the inner one in the new text */
        char *second = NULL;
        inner = find_value(skip_space(first), "text_config");
        old_inner = find_value(inner, key);
        second = replace(first, old_inner, skip_value(old_inner), "", value, 4, "");
        free(first);
        first = second;
    }
    *out = first;
    return first ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(file));
}

sb_status sb_splice_value(const char *file, const char *text, const char *name, const char *value,
                          char **out, sb_error *err)
{
    const char *root = skip_space(text), *inner = find_value(root, "text_config");
    int nested = inner && *inner == '{';
    const char *object = nested ? inner : root, *old = find_value(object, name);
    char before[160];
    snprintf(before, sizeof before, "\n%s\"%.100s\": ", nested ? "    " : "  ", name);
    if (old)
        *out = replace(text, old, skip_value(old), "", value, 0, "");
    else
        *out = replace(text, object + 1, object + 1, before, value, 0,
                       *skip_space(object + 1) == '}' ? "\n" : ",");
    return *out ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(file));
}
