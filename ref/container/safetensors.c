#include "ref/container/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/json.h"
#include "ref/container/kind.h"
#include "ref/container/show.h"
#include "ref/container/stub.h"

enum { PREFIX = 8 }; /* bytes of the header length, which come before the header */

/* The data of one pass over a file. */
typedef struct reader {
    const char *file;
    const unsigned char *buffer; /* the data */
    uint64_t buffer_bytes;
    sb_safetensors *out;
} reader;

/* C-1: "eight bytes of little-endian header length n, n bytes of JSON, then the data buffer" */
static sb_status find_header(const unsigned char *bytes, size_t size, const char *file,
                             uint64_t *header_bytes, sb_error *err)
{
    if (size < PREFIX)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: the file has %zu bytes, expected 8 bytes of header length first%s",
                       SB_SHOW(file), size, sb_kind_of(bytes, size));
    uint64_t n = sb_load_u64(bytes);
    if (n > SB_MAX_HEADER_BYTES)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: header length at offset 0 is %" PRIu64 ", expected at most %d%s",
                       SB_SHOW(file), n, SB_MAX_HEADER_BYTES, sb_kind_of(bytes, size));
    if (n > size - PREFIX)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: header length at offset 0 is %" PRIu64
                       ", but only %zu bytes follow: the file is truncated",
                       SB_SHOW(file), n, size - PREFIX);
    if (n == 0 || bytes[PREFIX] != '{')
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: the header at offset 8 begins with byte 0x%02x, expected '{'",
                       SB_SHOW(file), n ? (unsigned)bytes[PREFIX] : 0u);
    *header_bytes = n;
    return SB_OK;
}

/* Writers pad the header with spaces so that the data begins aligned; any other byte after the
 * JSON, even a line break or a NUL, does not come from a writer. */
static sb_status trim_header(const unsigned char *text, const char *file, size_t *n, sb_error *err)
{
    while (*n > 0 && text[*n - 1] == ' ')
        --*n;
    if (text[*n - 1] != '}')
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: the header ends with byte 0x%02x at offset %zu, expected '}' and then "
                       "only spaces",
                       SB_SHOW(file), (unsigned)text[*n - 1], PREFIX + *n - 1);
    return SB_OK;
}

/* "[2, 3]" */
typedef struct shape_text {
    char text[SB_MAX_RANK * 22 + 4];
} shape_text;

static const char *show_shape(const sb_tensor *t, shape_text *room)
{
    size_t used = 1;
    memcpy(room->text, "[", 2);
    for (unsigned i = 0; i < t->rank; i++)
        used += (size_t)snprintf(room->text + used, sizeof room->text - used, "%s%" PRIu64,
                                 i ? ", " : "", t->shape[i]);
    snprintf(room->text + used, sizeof room->text - used, "]");
    return room->text;
}

static sb_status read_dtype(const sb_json_object *entry, sb_tensor *t, sb_error *err)
{
    const char *spelled;
    sb_status status = sb_json_string(entry, "dtype", &spelled, err);
    if (status != SB_OK)
        return status;
    if (!sb_dtype_find(spelled, &t->dtype))
        return sb_json_fail(entry, "dtype", SB_ERR_INPUT, err,
                            "is \"%s\", which is no safetensors dtype", SB_SHOW(spelled));
    const char *refused = sb_dtype_refused(t->dtype);
    if (refused)
        return sb_json_fail(entry, "dtype", SB_ERR_UNSUPPORTED, err,
                            "is %s, which is not read here: %s", spelled, refused);
    return SB_OK;
}

static sb_status read_shape(const sb_json_object *entry, sb_tensor *t, sb_error *err)
{
    size_t rank;
    sb_status status = sb_json_u64_array(entry, "shape", 0, SB_MAX_RANK, t->shape, &rank, err);
    if (status != SB_OK)
        return status;
    t->rank = (unsigned)rank;
    sb_error why;
    status = sb_dtype_bytes(t->dtype, t->rank, t->shape, &t->bytes, &why);
    if (status != SB_OK) {
        shape_text shape;
        return sb_json_fail(entry, "shape", status, err, "%s: %.300s", show_shape(t, &shape),
                            why.text);
    }
    return SB_OK;
}

static sb_status read_offsets(const reader *r, const sb_json_object *entry, sb_tensor *t,
                              sb_error *err)
{
    static const char key[] = "data_offsets";
    uint64_t at[2];
    size_t two;
    sb_status status = sb_json_u64_array(entry, key, 2, 2, at, &two, err);
    if (status != SB_OK)
        return status;
    if (at[0] > at[1] || at[1] - at[0] != t->bytes) {
        shape_text shape;
        return sb_json_fail(entry, key, SB_ERR_INPUT, err,
                            "[%" PRIu64 ", %" PRIu64 "] do not span the %" PRIu64
                            " bytes of shape %s in %s",
                            at[0], at[1], t->bytes, show_shape(t, &shape), sb_dtype_name(t->dtype));
    }
    if (at[1] > r->buffer_bytes)
        return sb_json_fail(entry, key, SB_ERR_INPUT, err,
                            "[%" PRIu64 ", %" PRIu64 "] end beyond the %" PRIu64
                            " data bytes of the file: it is truncated",
                            at[0], at[1], r->buffer_bytes);
    t->data = r->buffer + at[0];
    return SB_OK;
}

static sb_status read_entry(const reader *r, json_t *value, sb_tensor *t, sb_error *err)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets", NULL};
    sb_json_object entry = {.json = value, .file = r->file, .tensor = t->name};
    sb_json_text found;
    if (!json_is_object(value))
        return sb_fail(err, SB_ERR_INPUT, "%s: tensor \"%s\" is %s, expected an object",
                       SB_SHOW(r->file), SB_SHOW(t->name), sb_json_found(value, &found));
    sb_status status = sb_json_only(&entry, keys, err);
    if (status == SB_OK)
        status = read_dtype(&entry, t, err);
    if (status == SB_OK)
        status = read_shape(&entry, t, err);
    if (status == SB_OK)
        status = read_offsets(r, &entry, t, err);
    return status;
}

/* The least number of header bytes per tensor:
 * {"a":{"dtype":"F4","shape":[],"data_offsets":[0,0]}} */
enum { LEAST = 50 };

/* The state of reading the header. */
typedef struct reading {
    const reader *r;
    char *name; /* the place of the next name */
    size_t room;
    int has_metadata;
} reading;

/* Reads one member: a tensor, or the metadata. */
static sb_status read_member(void *ctx, const char *key, json_t *value, sb_error *err)
{
    reading *at = ctx;
    const reader *r = at->r;
    size_t n = strlen(key);
    if (strcmp(key, "__metadata__") == 0) {
        if (at->has_metadata++)
            return sb_fail(err, SB_ERR_INPUT,
                           "%s (header): not strict JSON: duplicate object key \"__metadata__\"",
                           SB_SHOW(r->file));
        return sb_metadata_read(value, r->file, &r->out->metadata, err);
    }
    if (n == 0 || n > SB_MAX_TENSOR_NAME)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: tensor \"%s\": its name has %zu bytes, expected 1 to %d",
                       SB_SHOW(r->file), SB_SHOW(key), n, SB_MAX_TENSOR_NAME);
    if (r->out->count == at->room)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: the header is too short, expected at least %d bytes per tensor",
                       SB_SHOW(r->file), LEAST);
    sb_tensor *t = &r->out->tensors[r->out->count++];
    t->name = strcpy(at->name, key);
    at->name += n + 1;
    return read_entry(r, value, t, err);
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* C-4: "a duplicate key is refused" */
static sb_status check_names(const reader *r, sb_error *err)
{
    const sb_safetensors *out = r->out;
    const char **names = sb_alloc(out->count, sizeof *names);
    sb_status status = SB_OK;
    if (!names)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for %zu tensors", SB_SHOW(r->file),
                       out->count);
    for (size_t i = 0; i < out->count; i++)
        names[i] = out->tensors[i].name;
    qsort(names, out->count, sizeof *names, by_name);
    for (size_t i = 1; i < out->count && !status; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status = sb_fail(err, SB_ERR_INPUT,
                             "%s (header): not strict JSON: duplicate object key \"%s\"",
                             SB_SHOW(r->file), SB_SHOW(names[i]));
    free(names);
    return status;
}

/* Parses the header tensor by tensor, so that only the tensors take memory, not a JSON document. */
static sb_status read_tensors(const reader *r, const char *text, size_t n, sb_error *err)
{
    size_t members, key_bytes;
    char name[sizeof(sb_shown) + 16];
    snprintf(name, sizeof name, "%s (header)", SB_SHOW(r->file));
    sb_status status = sb_json_measure(text, n, name, "__metadata__", &members, &key_bytes, err);
    if (status != SB_OK)
        return status;
    if (members > SB_MAX_TENSORS)
        return sb_fail(err, SB_ERR_INPUT, "%s: the header lists %zu tensors, expected at most %d",
                       SB_SHOW(r->file), members, SB_MAX_TENSORS);
    /* some members must be invalid then, and reading ends at the first invalid member */
    if (members > n / LEAST + 1)
        members = n / LEAST + 1;
    r->out->tensors = sb_alloc(members, sizeof *r->out->tensors);
    r->out->names = sb_alloc(key_bytes, 1);
    if (!r->out->tensors || !r->out->names)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for %zu tensors", SB_SHOW(r->file),
                       members);
    reading at = {.r = r, .name = r->out->names, .room = members};
    status = sb_json_each(text, n, name, read_member, &at, err);
    return status ? status : check_names(r, err);
}

static int by_data(const void *left, const void *right)
{
    const sb_tensor *a = left;
    const sb_tensor *b = right;
    if (a->data != b->data)
        return a->data < b->data ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* C-2: "the tensors, sorted by offset, cover the data buffer from 0 to its end without gap or
 * overlap" */
static sb_status check_cover(const reader *r, sb_error *err)
{
    sb_safetensors *out = r->out;
    qsort(out->tensors, out->count, sizeof *out->tensors, by_data);
    uint64_t end = 0;
    for (size_t i = 0; i < out->count; i++) {
        const sb_tensor *t = &out->tensors[i];
        uint64_t begin = (uint64_t)(t->data - r->buffer);
        if (begin < end)
            return sb_fail(err, SB_ERR_INPUT,
                           "%s: tensor \"%s\" begins at data offset %" PRIu64
                           ", but tensor \"%s\" ends at %" PRIu64 ": they overlap",
                           SB_SHOW(r->file), SB_SHOW(t->name), begin,
                           SB_SHOW(out->tensors[i - 1].name), end);
        if (begin > end)
            return sb_fail(err, SB_ERR_INPUT,
                           "%s: data bytes %" PRIu64 " to %" PRIu64
                           " in front of tensor \"%s\" belong to no tensor",
                           SB_SHOW(r->file), end, begin, SB_SHOW(t->name));
        end = begin + t->bytes;
    }
    if (end != r->buffer_bytes)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: %" PRIu64 " bytes at data offset %" PRIu64
                       " follow the last tensor, expected the end of the file",
                       SB_SHOW(r->file), r->buffer_bytes - end, end);
    return SB_OK;
}

sb_status sb_safetensors_parse(const unsigned char *bytes, size_t size, const char *file,
                               sb_safetensors *out, sb_error *err)
{
    *out = (sb_safetensors){.bytes = bytes, .size = size};
    uint64_t header_bytes = 0;
    sb_status status = find_header(bytes, size, file, &header_bytes, err);
    size_t n = (size_t)header_bytes;
    if (status == SB_OK)
        status = trim_header(bytes + PREFIX, file, &n, err);
    if (status != SB_OK)
        return status;
    reader r = {file, bytes + PREFIX + header_bytes, size - PREFIX - header_bytes, out};
    status = read_tensors(&r, (const char *)bytes + PREFIX, n, err);
    if (status == SB_OK)
        status = check_cover(&r, err);
    if (status != SB_OK)
        sb_safetensors_close(out);
    return status;
}

sb_status sb_safetensors_open(const char *path, sb_safetensors *out, sb_error *err)
{
    sb_map map;
    int is_stub = 0;
    *out = (sb_safetensors){0};
    sb_status status = sb_map_open(path, &map, err);
    if (status != SB_OK)
        return status;
    status = sb_stub_open(path, &map, &is_stub, err);
    int refused = status != SB_OK && is_stub;
    if (status == SB_OK)
        status = sb_safetensors_parse(map.data, map.size, path, out, err);
    if (status == SB_OK)
        out->map = map;
    else
        sb_map_close(&map);
    out->is_stub = refused || (status == SB_OK && is_stub);
    return status;
}

void sb_safetensors_close(sb_safetensors *file)
{
    free(file->tensors);
    free(file->names);
    sb_metadata_free(&file->metadata);
    sb_map_close(&file->map);
    *file = (sb_safetensors){0};
}
