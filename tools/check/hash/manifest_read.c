/* manifest_read.c - reads a manifest. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "tools/check/hash/manifest.h"

enum { MAX_MANIFEST = 1 << 30 };

/* --- text ------------------------------------------------------------------------------------- */

typedef struct text_reader {
    const char *path;
    size_t line;
    char *fields[8];
    size_t count;
} text_reader;

static sb_status bad_line(const text_reader *r, const char *expected, sb_error *err)
{
    return sb_fail(err, SB_ERR_INPUT, "%s:%zu: expected %s", SB_SHOW(r->path), r->line, expected);
}

static int is_hex(const char *text, size_t digits)
{
    return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

static int take_digest(const char *text, sb_digest *digest)
{
    if (!text || !is_hex(text, 32))
        return 0;
    memcpy(digest->hex, text, 33);
    return 1;
}

/* 8 hexadecimal digits, or "-". */
static int take_bits(const char *text, char out[9])
{
    if (!text || (!is_hex(text, 8) && strcmp(text, "-") != 0))
        return 0;
    memcpy(out, text, strlen(text) + 1);
    return 1;
}

static int unescape(char *name)
{
    char *to = name;
    for (const char *at = name; *at; to++) {
        char digits[3] = "";
        if (*at != '\\') {
            *to = *at++;
            continue;
        }
        if (at[1] != 'x' || !at[2] || !at[3])
            return 0;
        memcpy(digits, at + 2, 2);
        if (!is_hex(digits, 2) || strcmp(digits, "00") == 0)
            return 0;
        *to = (char)strtoul(digits, NULL, 16);
        at += 4;
    }
    *to = '\0';
    return *name != '\0';
}

/* "[2,3]" */
static int read_shape(const char *text, unsigned *rank, uint64_t *shape)
{
    *rank = 0;
    if (strcmp(text, "[]") == 0)
        return 1;
    while (*text == (*rank ? ',' : '[') && *rank < SB_MAX_RANK) {
        char *end;
        if (text[1] < '0' || text[1] > '9')
            return 0;
        shape[(*rank)++] = strtoull(text + 1, &end, 10);
        text = end;
    }
    return strcmp(text, "]") == 0;
}

/* Splits a line at blanks into at most `most` fields; the last field has the rest. */
static void cut(text_reader *r, char *line, size_t most)
{
    r->count = 0;
    while (r->count < most) {
        r->fields[r->count++] = line;
        char *blank = strchr(line, ' ');
        if (!blank || r->count == most)
            return;
        *blank = '\0';
        line = blank + 1;
    }
}

static sb_status read_tensor(text_reader *r, char *rest, int in_layer, sb_manifest *m,
                             sb_error *err)
{
    sb_manifest_tensor *t = sb_manifest_add_tensor(m);
    if (!t)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(r->path));
    cut(r, rest, 4);
    t->in_layer = in_layer;
    if (r->count != 4 || !take_digest(r->fields[0], &t->digest) ||
        !sb_dtype_find(r->fields[1], &t->dtype) || !read_shape(r->fields[2], &t->rank, t->shape) ||
        !unescape(r->fields[3]))
        return bad_line(r, "digest, dtype, shape and name of a tensor", err);
    t->name = sb_strdup(r->fields[3]);
    return t->name ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(r->path));
}

static sb_status read_value(text_reader *r, char *rest, sb_manifest *m, sb_error *err)
{
    sb_manifest_value *v = sb_manifest_add_value(m);
    if (!v)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(r->path));
    cut(r, rest, 6);
    if (r->count != 6 || !take_digest(r->fields[0], &v->values) ||
        !take_digest(r->fields[1], &v->exact) || !take_bits(r->fields[2], v->divisor) ||
        !take_bits(r->fields[3], v->input) || strlen(r->fields[4]) >= sizeof v->container ||
        !unescape(r->fields[5]))
        return bad_line(r, "two digests, divisor, input, container and name of a layer", err);
    strcpy(v->container, r->fields[4]);
    v->name = sb_strdup(r->fields[5]);
    return v->name ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(r->path));
}

static sb_status read_line(text_reader *r, char *line, sb_manifest *m, int *ended, sb_error *err)
{
    char *rest = strchr(line, ' ');
    if (r->line == 1)
        return strcmp(line, "samebit-manifest 1") == 0 ? SB_OK
                                                       : bad_line(r, "\"samebit-manifest 1\"", err);
    if (*ended || !rest)
        return bad_line(
            r, *ended ? "the end of the file after the digest of the checkpoint" : "a keyword",
            err);
    *rest++ = '\0';
    if (strcmp(line, "tensor") == 0 || strcmp(line, "part") == 0)
        return read_tensor(r, rest, strcmp(line, "part") == 0, m, err);
    if (strcmp(line, "value") == 0)
        return read_value(r, rest, m, err);
    if (strcmp(line, "meaning") == 0 && take_digest(rest, &m->meaning)) {
        m->has_values = 1;
        return SB_OK;
    }
    *ended = 1;
    if (strcmp(line, "checkpoint") == 0 && take_digest(rest, &m->checkpoint))
        return SB_OK;
    return bad_line(r, "tensor, part, value, meaning or checkpoint", err);
}

static sb_status read_text(const char *path, char *text, sb_manifest *m, sb_error *err)
{
    text_reader r = {.path = path};
    int ended = 0;
    sb_status status = SB_OK;
    while (*text && !status) {
        char *end = strchr(text, '\n');
        r.line++;
        if (!end)
            return bad_line(&r, "a line break at the end: the file is truncated", err);
        *end = '\0';
        status = read_line(&r, text, m, &ended, err);
        text = end + 1;
    }
    if (!status && !ended)
        status = bad_line(
            &r, "the digest of the checkpoint as the next line: the file is truncated", err);
    return status;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static sb_status json_tensor(const sb_json_object *at, sb_manifest *m, sb_error *err)
{
    sb_manifest_tensor *t = sb_manifest_add_tensor(m);
    const char *name = NULL, *dtype = NULL, *digest = NULL;
    size_t rank = 0;
    if (!t)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(at->file));
    sb_status status = sb_json_string(at, "name", &name, err);
    if (!status)
        status = sb_json_string(at, "dtype", &dtype, err);
    if (!status)
        status = sb_json_string(at, "digest", &digest, err);
    if (!status)
        status = sb_json_u64_array(at, "shape", 0, SB_MAX_RANK, t->shape, &rank, err);
    if (!status)
        status = sb_json_bool_or(at, "in_layer", 0, &t->in_layer, err);
    t->rank = (unsigned)rank;
    if (!status && (!take_digest(digest, &t->digest) || !sb_dtype_find(dtype, &t->dtype)))
        status = sb_json_fail(at, "digest", SB_ERR_INPUT, err,
                              "is \"%s\" with dtype \"%s\", expected 32 hexadecimal digits and a "
                              "dtype of safetensors",
                              SB_SHOW(digest), SB_SHOW(dtype));
    t->name = status ? NULL : sb_strdup(name);
    if (!status && !t->name)
        status = sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(at->file));
    return status;
}

static sb_status json_value(const sb_json_object *at, sb_manifest *m, sb_error *err)
{
    static const char *const keys[] = {"name", "values", "exact", "divisor", "input", "container"};
    const char *text[6] = {NULL};
    sb_manifest_value *v = sb_manifest_add_value(m);
    sb_status status = SB_OK;
    if (!v)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(at->file));
    for (size_t i = 0; i < 6 && !status; i++)
        status = sb_json_string(at, keys[i], &text[i], err);
    if (status)
        return status;
    unsigned wrong = !take_digest(text[1], &v->values)        ? 1
                     : !take_digest(text[2], &v->exact)       ? 2
                     : !take_bits(text[3], v->divisor)        ? 3
                     : !take_bits(text[4], v->input)          ? 4
                     : strlen(text[5]) >= sizeof v->container ? 5
                                                              : 0;
    if (wrong)
        return sb_json_fail(at, keys[wrong], SB_ERR_INPUT, err, "is \"%s\", expected %s",
                            SB_SHOW(text[wrong]),
                            wrong < 3   ? "32 hexadecimal digits"
                            : wrong < 5 ? "8 hexadecimal digits or \"-\""
                                        : "the name of a container");
    strcpy(v->container, text[5]);
    v->name = sb_strdup(text[0]);
    return v->name ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(at->file));
}

static sb_status json_rows(const sb_json_object *root, const char *key,
                           sb_status (*take)(const sb_json_object *, sb_manifest *, sb_error *),
                           sb_manifest *m, sb_error *err)
{
    json_t *array = sb_json_get(root, key);
    if (!json_is_array(array))
        return sb_json_wrong(root, key, array, "an array", err);
    sb_status status = SB_OK;
    for (size_t i = 0; i < json_array_size(array) && !status; i++) {
        sb_json_object row;
        char path[64];
        snprintf(path, sizeof path, "%s[%zu]", key, i);
        status = sb_json_object_at(json_array_get(array, i), root->file, path, &row, err);
        if (!status)
            status = take(&row, m, err);
    }
    return status;
}

static sb_status read_json(const char *path, const char *text, size_t n, sb_manifest *m,
                           sb_error *err)
{
    json_t *document = NULL;
    sb_json_object root;
    const char *digest = NULL, *meaning = NULL;
    sb_status status = sb_json_parse_rich(text, n, path, &document, err);
    if (!status)
        status = sb_json_object_at(document, path, "", &root, err);
    if (!status)
        status = json_rows(&root, "tensors", json_tensor, m, err);
    if (!status)
        status = sb_json_string(&root, "checkpoint", &digest, err);
    m->has_values = !status && sb_json_get(&root, "values") != NULL;
    if (m->has_values) {
        status = json_rows(&root, "values", json_value, m, err);
        if (!status)
            status = sb_json_string(&root, "meaning", &meaning, err);
    }
    if (!status &&
        (!take_digest(digest, &m->checkpoint) || (meaning && !take_digest(meaning, &m->meaning))))
        status = sb_fail(err, SB_ERR_INPUT,
                         "%s: checkpoint is \"%s\" and meaning \"%s\", expected digests of 32 "
                         "hexadecimal digits",
                         SB_SHOW(path), SB_SHOW(digest), SB_SHOW(meaning ? meaning : ""));
    json_decref(document);
    return status;
}

/* --- both ------------------------------------------------------------------------------------- */

static sb_status refuse_digest(const char *path, const char *what, const sb_digest *made,
                               const sb_digest *said, sb_error *err)
{
    return sb_fail(err, SB_ERR_INPUT,
                   "%s: the digest of its %s is %s, but it says %s: the file was changed",
                   SB_SHOW(path), what, made->hex, said->hex);
}

/* Refuses a manifest with changed, missing or unsorted lines. */
static sb_status check_sound(const char *path, const sb_manifest *m, sb_error *err)
{
    sb_digest checkpoint, meaning;
    for (size_t i = 1; i < m->tensor_count; i++)
        if (strcmp(m->tensors[i - 1].name, m->tensors[i].name) >= 0)
            return sb_fail(err, SB_ERR_INPUT, "%s: tensor \"%s\" does not follow \"%s\" in order",
                           SB_SHOW(path), SB_SHOW(m->tensors[i].name),
                           SB_SHOW(m->tensors[i - 1].name));
    for (size_t i = 1; i < m->value_count; i++)
        if (strcmp(m->values[i - 1].name, m->values[i].name) >= 0)
            return sb_fail(err, SB_ERR_INPUT, "%s: layer \"%s\" does not follow \"%s\" in order",
                           SB_SHOW(path), SB_SHOW(m->values[i].name),
                           SB_SHOW(m->values[i - 1].name));
    sb_status status = sb_manifest_close(m, &checkpoint, &meaning, err);
    if (!status && strcmp(checkpoint.hex, m->checkpoint.hex) != 0)
        status = refuse_digest(path, "tensors", &checkpoint, &m->checkpoint, err);
    if (!status && m->has_values && strcmp(meaning.hex, m->meaning.hex) != 0)
        status = refuse_digest(path, "values", &meaning, &m->meaning, err);
    return status;
}

sb_status sb_manifest_load(const char *path, sb_manifest *out, sb_error *err)
{
    unsigned char *text = NULL;
    size_t n = 0;
    *out = (sb_manifest){0};
    sb_status status = sb_read_file(path, MAX_MANIFEST, &text, &n, err);
    if (status)
        return status;
    if (strlen((char *)text) != n)
        status = sb_fail(err, SB_ERR_INPUT, "%s: has a NUL byte, so it is not a manifest",
                         SB_SHOW(path));
    else if (text[0] == '{')
        status = read_json(path, (char *)text, n, out, err);
    else
        status = read_text(path, (char *)text, out, err);
    free(text);
    if (!status)
        status = check_sound(path, out, err);
    if (status)
        sb_manifest_free(out);
    return status;
}
