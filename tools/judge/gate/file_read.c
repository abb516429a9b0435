/* file_read.c - reads files of vectors; refuses a file unless all its content follows from its
 * inputs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/spec.h"
#include "ref/base/text.h"
#include "ref/container/safetensors.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "tools/judge/gate/file.h"

typedef struct reader {
    const sb_safetensors *file;
    const char *path;
    const sb_gate_op *op;
    sb_gate_request request;
    sb_gate_case *c;
    sb_gate_arith *ar;
} reader;

/* --- metadata --------------------------------------------------------------------------------- */

static sb_status key_of(const reader *r, const char *key, const char **value, sb_error *err)
{
    *value = sb_metadata_get(&r->file->metadata, key);
    if (*value)
        return SB_OK;
    return sb_fail(err, SB_ERR_INPUT,
                   "%s: the metadata has no %s: this is not a file of samebit vectors",
                   SB_SHOW(r->path), key);
}

static sb_status wrong_key(const reader *r, const char *key, const char *value,
                           const char *expected, sb_error *err)
{
    return sb_fail(err, SB_ERR_INPUT, "%s: metadata %s is '%s', expected %s", SB_SHOW(r->path), key,
                   SB_SHOW(value), expected);
}

static sb_status read_version(const reader *r, sb_error *err)
{
    const char *value = NULL;
    char expected[16];
    sb_status status = key_of(r, "samebit.vectors", &value, err);
    snprintf(expected, sizeof expected, "%d", SB_SPEC_VERSION);
    if (!status && strcmp(value, expected) != 0)
        return wrong_key(r, "samebit.vectors", value, expected, err);
    return status;
}

static sb_status read_op(reader *r, sb_gate_find find, sb_error *err)
{
    sb_status status = key_of(r, "samebit.vectors.op", &r->request.op, err);
    if (!status && !(r->op = find(r->request.op)))
        status = wrong_key(r, "samebit.vectors.op", r->request.op,
                           "one of 'samebit vectors --list'", err);
    return status;
}

static sb_status read_numbers(reader *r, sb_error *err)
{
    const char *input = NULL, *seed = NULL;
    char again[24];
    sb_status status = key_of(r, "samebit.vectors.input", &input, err);
    if (!status && !sb_dtype_find(input, &r->request.input))
        status = wrong_key(r, "samebit.vectors.input", input, "BF16, F16 or F32", err);
    if (!status)
        status = key_of(r, "samebit.vectors.seed", &seed, err);
    if (status)
        return status;
    r->request.seed = strtoull(seed, NULL, 10);
    snprintf(again, sizeof again, "%" PRIu64, r->request.seed);
    return strcmp(again, seed) == 0
               ? SB_OK
               : wrong_key(r, "samebit.vectors.seed", seed, "a number of 64 bits", err);
}

static sb_status read_request(reader *r, sb_gate_find find, sb_error *err)
{
    const char *arith = NULL;
    sb_status status = read_version(r, err);
    if (!status)
        status = read_op(r, find, err);
    if (!status)
        status = key_of(r, "samebit.vectors.format", &r->request.format, err);
    if (!status)
        status = key_of(r, "samebit.vectors.shape", &r->request.shape, err);
    if (!status)
        status = key_of(r, "samebit.vectors.regime", &r->request.regime, err);
    if (!status)
        status = key_of(r, "samebit.vectors.arith", &arith, err);
    if (!status)
        status = read_numbers(r, err);
    if (status)
        return status;
    if (sb_gate_arith_of(arith, r->ar, err))
        return sb_fail_in(err, SB_ERR_INPUT, SB_SHOW(r->path));
    return SB_OK;
}

/* --- elements --------------------------------------------------------------------------------- */

/* Element i as a number; integers and codes as the number of their bits. */
static double number_at(sb_dtype dtype, const unsigned char *bytes, uint64_t i)
{
    size_t size = sb_dtype_bits(dtype) / 8;
    uint64_t bits = 0;
    for (size_t b = size; b-- > 0;)
        bits = bits << 8 | bytes[i * size + b];
    switch (dtype) {
    case SB_DTYPE_F64:
        return sb_f64_from_bits(bits);
    case SB_DTYPE_F32:
        return (double)sb_f32_from_bits((uint32_t)bits);
    case SB_DTYPE_BF16:
        return (double)sb_bf16_to_f32((uint16_t)bits);
    case SB_DTYPE_F16:
        return (double)sb_f16_to_f32((uint16_t)bits);
    default:
        return (double)bits;
    }
}

/* The bytes of one tensor: in the file, and as expected. */
typedef struct pair {
    const char *in, *name; /* the name in two parts */
    const char *axes;
    sb_dtype dtype;
    unsigned rank;
    const uint64_t *shape;
    const unsigned char *found, *expected;
    uint64_t bytes;
} pair;

/* "row 3, column 5" of element i. */
static const char *place_of(const pair *p, uint64_t i, char *text, size_t bytes)
{
    uint64_t index[SB_GATE_RANK] = {0};
    const char *axis = p->axes;
    size_t n = 0;
    snprintf(text, bytes, "its only element");
    for (unsigned d = p->rank; d-- > 0; i /= p->shape[d])
        index[d] = i % p->shape[d];
    for (unsigned d = 0; d < p->rank && n < bytes; d++) {
        int length = (int)strcspn(axis, ",");
        n += (size_t)snprintf(text + n, bytes - n, "%s%.*s %" PRIu64, d ? ", " : "", length, axis,
                              index[d]);
        axis += length + (axis[length] == ',');
    }
    return text;
}

static sb_status compare_bytes(const reader *r, const pair *p, const char *gives, sb_error *err)
{
    char place[200];
    uint64_t size = sb_dtype_bits(p->dtype) / 8, i = 0;
    while (i < p->bytes && memcmp(p->found + i, p->expected + i, (size_t)size) == 0)
        i += size;
    if (i == p->bytes)
        return SB_OK;
    i /= size;
    return sb_fail(err, SB_ERR_INPUT, "%s: %s%s at %s is %.17g, but the %s %.17g", SB_SHOW(r->path),
                   p->in, p->name, place_of(p, i, place, sizeof place),
                   number_at(p->dtype, p->found, i), gives, number_at(p->dtype, p->expected, i));
}

/* --- inputs ----------------------------------------------------------------------------------- */

/* The inputs of the file; their axes are not known yet. */
static sb_status take_inputs(const reader *r, sb_error *err)
{
    for (size_t i = 0; i < r->file->count; i++) {
        const sb_tensor *t = &r->file->tensors[i];
        if (!sb_starts(t->name, "in."))
            continue;
        if (strlen(t->name) - 3 >= SB_GATE_NAME || t->rank > SB_GATE_RANK ||
            r->c->arrays == SB_GATE_ARRAYS)
            return sb_fail(err, SB_ERR_INPUT, "%s: %s is not an input of %s", SB_SHOW(r->path),
                           SB_SHOW(t->name), r->op->name);
        sb_gate_array *a = sb_gate_add(r->c, t->name + 3, t->dtype, "", t->rank, t->shape);
        if (!a)
            return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(r->path));
        memcpy(a->data, t->data, (size_t)t->bytes);
    }
    return SB_OK;
}

/* Compares an input of the file with the op's input. Unless `all` is set, the op's input belongs to
 * another case: its shape and values are not compared. */
static sb_status compare_input(const reader *r, sb_gate_array *a, const sb_gate_array *m, int all,
                               sb_error *err)
{
    if (a->dtype != m->dtype || a->rank != m->rank)
        return sb_fail(err, SB_ERR_INPUT, "%s: in.%s is %s with %u axes, expected %s with %u",
                       SB_SHOW(r->path), a->name, sb_dtype_name(a->dtype), a->rank,
                       sb_dtype_name(m->dtype), m->rank);
    a->axes = m->axes;
    if (!all)
        return SB_OK;
    if (sb_gate_need(r->c, a->name, m->rank, m->shape, err))
        return sb_fail_in(err, SB_ERR_INPUT, SB_SHOW(r->path));
    pair p = {"in.", a->name, a->axes, a->dtype, a->rank, a->shape, a->data, m->data, a->bytes};
    return compare_bytes(r, &p, "seed gives", err);
}

static sb_status compare_inputs(const reader *r, const sb_gate_case *made, int all, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < r->c->arrays && !status; i++) {
        sb_gate_array *a = &r->c->array[i];
        const sb_gate_array *m = sb_gate_input(made, a->name);
        if (m)
            status = compare_input(r, a, m, all, err);
        else if (all)
            status = sb_fail(err, SB_ERR_INPUT, "%s: in.%s is not an input of %s", SB_SHOW(r->path),
                             a->name, r->op->name);
    }
    for (size_t i = 0; all && i < made->arrays && !status; i++)
        if (!sb_gate_input(r->c, made->array[i].name))
            status = sb_fail(err, SB_ERR_INPUT, "%s: in.%s is missing; %s needs it",
                             SB_SHOW(r->path), made->array[i].name, r->op->name);
    return status;
}

static sb_status compare_with(const reader *r, const char *shape, int all, sb_error *err)
{
    sb_gate_request request = r->request;
    sb_gate_case *made = NULL;
    request.shape = shape;
    sb_status status = sb_gate_case_begin(r->op, &request, 1, &made, err);
    if (status)
        return sb_fail_in(err, status == SB_ERR_USAGE ? SB_ERR_INPUT : status, SB_SHOW(r->path));
    status = compare_inputs(r, made, all, err);
    sb_gate_case_free(made);
    return status;
}

static sb_status declare(const reader *r, sb_error *err)
{
    sb_status status = sb_gate_declare(r->c, err);
    if (status == SB_ERR_MEMORY) /* sets no message */
        return sb_fail(err, status, "%s: out of memory", SB_SHOW(r->path));
    return status ? sb_fail_in(err, status, SB_SHOW(r->path)) : SB_OK;
}

/* Checks the types before the op reads values, and compares the sizes with the file's before it
 * makes a case of these sizes. */
static sb_status read_inputs(reader *r, sb_error *err)
{
    sb_status status = sb_gate_case_begin(r->op, &r->request, 0, &r->c, err);
    if (status)
        return sb_fail_in(err, status == SB_ERR_USAGE ? SB_ERR_INPUT : status, SB_SHOW(r->path));
    status = take_inputs(r, err);
    if (!status)
        status = compare_with(r, NULL, 0, err);
    if (!status)
        status = declare(r, err);
    if (!status)
        status = compare_with(r, r->request.shape, 1, err);
    return status;
}

/* --- expected values -------------------------------------------------------------------------- */

static sb_status compare_tensor(const reader *r, const sb_gate_entry *e, const sb_tensor *t,
                                sb_error *err)
{
    if (t->dtype != e->dtype || t->rank != e->rank || t->bytes != e->count ||
        memcmp(t->shape, e->shape, e->rank * sizeof *e->shape) != 0)
        return sb_fail(
            err, SB_ERR_INPUT,
            "%s: %s does not have the type or shape that its inputs give: expected %s, %" PRIu64
            " bytes",
            SB_SHOW(r->path), e->name, sb_dtype_name(e->dtype), e->count);
    pair p = {"", e->name, e->axes, e->dtype, e->rank, e->shape, t->data, e->bytes, e->count};
    return compare_bytes(r, &p, "inputs of the file give", err);
}

static const sb_tensor *tensor_of(const sb_safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    return NULL;
}

static const sb_gate_entry *entry_of(const sb_gate_file *f, const char *name)
{
    for (size_t i = 0; i < f->entries; i++)
        if (strcmp(f->entry[i].name, name) == 0)
            return &f->entry[i];
    return NULL;
}

static sb_status compare_tensors(const reader *r, const sb_gate_file *f, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < r->file->count; i++)
        if (!entry_of(f, r->file->tensors[i].name))
            return sb_fail(err, SB_ERR_INPUT, "%s: %s is not a tensor of vectors for %s",
                           SB_SHOW(r->path), SB_SHOW(r->file->tensors[i].name), r->op->name);
    for (size_t i = f->inputs; i < f->entries && !status; i++) {
        const sb_tensor *t = tensor_of(r->file, f->entry[i].name);
        status =
            t ? compare_tensor(r, &f->entry[i], t, err)
              : sb_fail(err, SB_ERR_INPUT, "%s: %s is missing", SB_SHOW(r->path), f->entry[i].name);
    }
    return status;
}

/* The case's value of a key; NULL: none. */
static const char *said(const sb_gate_file *f, const char *key)
{
    for (size_t i = 0; i < f->keys; i++)
        if (strcmp(f->key[i].key, key) == 0)
            return f->key[i].value;
    for (size_t i = 0; i < f->entries; i++)
        if (strcmp(sb_gate_axes_key_of(&f->entry[i]).text, key) == 0)
            return f->entry[i].axes;
    return NULL;
}

/* The key "format" belongs to the container. */
static sb_status compare_metadata(const reader *r, const sb_gate_file *f, sb_error *err)
{
    const sb_metadata *m = &r->file->metadata;
    for (size_t i = 0; i < m->count; i++) {
        const char *key = m->pairs[i].key, *expected = said(f, key);
        if (strcmp(key, "format") == 0)
            continue;
        if (!expected)
            return sb_fail(err, SB_ERR_INPUT, "%s: metadata %s is not known", SB_SHOW(r->path),
                           SB_SHOW(key));
        if (strcmp(m->pairs[i].value, expected) != 0)
            return wrong_key(r, key, m->pairs[i].value, expected, err);
    }
    for (size_t i = 0; i < f->entries; i++)
        if (!sb_metadata_get(m, sb_gate_axes_key_of(&f->entry[i]).text))
            return sb_fail(err, SB_ERR_INPUT, "%s: the metadata has no %s", SB_SHOW(r->path),
                           sb_gate_axes_key_of(&f->entry[i]).text);
    return SB_OK;
}

/* V-105: "A file with any difference is refused" */
static sb_status check_expected(reader *r, sb_error *err)
{
    sb_gate_file *f = sb_alloc(1, sizeof *f);
    sb_status status =
        f ? sb_gate_case_expected(r->c, err) : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    if (!status)
        status = sb_gate_file_of(r->c, r->ar, f, err);
    if (status)
        status = sb_fail_in(err, status, SB_SHOW(r->path));
    if (!status)
        status = compare_metadata(r, f, err);
    if (!status)
        status = compare_tensors(r, f, err);
    if (f)
        sb_gate_file_free(f);
    free(f);
    return status;
}

/* --- the whole -------------------------------------------------------------------------------- */

static sb_status read_file(const sb_safetensors *file, const char *path, sb_gate_find find,
                           sb_gate_case **out, sb_gate_arith *ar, sb_error *err)
{
    reader r = {.file = file, .path = path, .ar = ar};
    sb_status status = read_request(&r, find, err);
    if (!status)
        status = read_inputs(&r, err);
    if (!status)
        status = check_expected(&r, err);
    if (status) {
        sb_gate_case_free(r.c);
        r.c = NULL;
    }
    *out = r.c;
    return status;
}

sb_status sb_gate_parse(const unsigned char *bytes, size_t size, const char *path,
                        sb_gate_find find, sb_gate_case **out, sb_gate_arith *ar, sb_error *err)
{
    sb_safetensors file;
    sb_status status = sb_safetensors_parse(bytes, size, path, &file, err);
    *out = NULL;
    if (status)
        return status;
    status = read_file(&file, path, find, out, ar, err);
    sb_safetensors_close(&file);
    return status;
}

sb_status sb_gate_read(const char *path, sb_gate_case **out, sb_gate_arith *ar, sb_error *err)
{
    sb_map map = {NULL, 0};
    *out = NULL;
    sb_status status = sb_map_open(path, &map, err);
    if (!status)
        status = sb_gate_parse(map.data, map.size, path, sb_gate_op_find, out, ar, err);
    sb_map_close(&map);
    return status;
}
