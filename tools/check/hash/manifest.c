#include "tools/check/hash/manifest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/check/hash/values.h"

static sb_status no_memory(sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for a manifest");
}

/* Appends a zeroed element of `size` bytes to an array. */
static void *append(void **rows, size_t *count, size_t *room, size_t size)
{
    void *grown = sb_grow(*rows, *count, room, size);
    if (!grown)
        return NULL;
    *rows = grown;
    return memset((char *)*rows + size * (*count)++, 0, size);
}

sb_manifest_tensor *sb_manifest_add_tensor(sb_manifest *m)
{
    void *rows = m->tensors;
    sb_manifest_tensor *t = append(&rows, &m->tensor_count, &m->tensor_room, sizeof *t);
    m->tensors = rows;
    return t;
}

sb_manifest_value *sb_manifest_add_value(sb_manifest *m)
{
    void *rows = m->values;
    sb_manifest_value *v = append(&rows, &m->value_count, &m->value_room, sizeof *v);
    m->values = rows;
    return v;
}

void sb_manifest_free(sb_manifest *m)
{
    for (size_t i = 0; i < m->tensor_count; i++)
        free(m->tensors[i].name);
    for (size_t i = 0; i < m->value_count; i++)
        free(m->values[i].name);
    free(m->tensors);
    free(m->values);
    *m = (sb_manifest){0};
}

/* D-8: "over the tensors that belong to no layer as G-5 says, and then, in order of name, for each
 * matrix its name, its value hash (D-5) and the canonical divisor of its inputs" */
static void add_meaning(sb_hash *hash, const sb_manifest *m)
{
    for (size_t i = 0; i < m->tensor_count; i++) {
        const sb_manifest_tensor *t = &m->tensors[i];
        if (!t->in_layer)
            sb_digest_add(hash, t->name, sb_dtype_name(t->dtype), t->rank, t->shape, &t->digest);
    }
    for (size_t i = 0; i < m->value_count; i++) {
        const sb_manifest_value *v = &m->values[i];
        sb_hash_bytes(hash, v->name, strlen(v->name) + 1);
        sb_hash_bytes(hash, v->values.hex, 32);
        sb_hash_bytes(hash, v->input, strlen(v->input) + 1);
    }
}

sb_status sb_manifest_close(const sb_manifest *m, sb_digest *checkpoint, sb_digest *meaning,
                            sb_error *err)
{
    sb_hash *all = sb_hash_new(), *meant = sb_hash_new();
    sb_status status = all && meant ? SB_OK : no_memory(err);
    if (!status) {
        for (size_t i = 0; i < m->tensor_count; i++)
            sb_digest_add(all, m->tensors[i].name, sb_dtype_name(m->tensors[i].dtype),
                          m->tensors[i].rank, m->tensors[i].shape, &m->tensors[i].digest);
        add_meaning(meant, m);
        *checkpoint = sb_hash_end(all);
        *meaning = sb_hash_end(meant);
    }
    sb_hash_free(all);
    sb_hash_free(meant);
    return status;
}

/* --- making ----------------------------------------------------------------------------------- */

typedef struct making {
    const sb_checkpoint *checkpoint;
    sb_manifest *out;
    sb_hash_progress progress;
    uint64_t done; /* hashed tensors of layers */
} making;

static sb_status take_tensors(const making *m, sb_error *err)
{
    size_t n = sb_checkpoint_count(m->checkpoint);
    uint64_t done = 0, total = sb_checkpoint_bytes(m->checkpoint);
    for (size_t i = 0; i < n; i++) {
        const sb_tensor *t = sb_checkpoint_at(m->checkpoint, i);
        sb_manifest_tensor *row = sb_manifest_add_tensor(m->out);
        if (!row || !(row->name = sb_strdup(t->name)))
            return no_memory(err);
        row->dtype = t->dtype;
        row->rank = t->rank;
        memcpy(row->shape, t->shape, sizeof row->shape);
        sb_status status = sb_tensor_digest(t, &row->digest, err);
        if (status)
            return status;
        done += t->bytes;
        if (m->progress)
            m->progress(NULL, "hashed", done, total);
    }
    return SB_OK;
}

static void put_bits(char text[9], int there, float value)
{
    snprintf(text, 9, there ? "%08" PRIx32 : "-", sb_bits_f32(value));
}

static sb_status take_piece(void *ctx, const sb_piece *piece, sb_error *err)
{
    making *m = ctx;
    sb_value_hash hash;
    sb_status status = sb_value_hash_of(m->checkpoint, piece, &hash, err);
    if (status)
        return status;
    sb_manifest_value *row = sb_manifest_add_value(m->out);
    if (!row || !(row->name = sb_strdup(piece->name)))
        return no_memory(err);
    row->values = hash.values;
    row->exact = hash.exact;
    put_bits(row->divisor, hash.has_divisor, hash.divisor);
    put_bits(row->input, hash.has_input, hash.input);
    snprintf(row->container, sizeof row->container, "%s",
             sb_container_name(piece->found->container));
    return SB_OK;
}

static sb_status take_layer(void *ctx, const char *name, const sb_found *found, sb_error *err)
{
    making *m = ctx;
    const sb_tensor *first = sb_checkpoint_at(m->checkpoint, 0);
    for (unsigned p = 0; p < SB_PART_COUNT; p++) {
        if (!found->part[p])
            continue;
        m->out->tensors[found->part[p] - first].in_layer = 1;
        m->done++;
    }
    if (m->progress)
        m->progress(NULL, "layers", m->done, m->out->tensor_count + 1);
    return sb_each_piece(m->checkpoint, name, found, take_piece, m, err);
}

static int by_name(const void *left, const void *right)
{
    const sb_manifest_value *a = left;
    const sb_manifest_value *b = right;
    return strcmp(a->name, b->name);
}

static sb_status take_values(making *m, sb_error *err)
{
    sb_manifest *out = m->out;
    sb_status status = sb_each_layer(m->checkpoint, take_layer, m, err);
    out->has_values = 1;
    if (out->value_count && !status)
        qsort(out->values, out->value_count, sizeof *out->values, by_name);
    if (m->progress)
        m->progress(NULL, "layers", out->tensor_count + 1, out->tensor_count + 1);
    for (size_t i = 1; i < out->value_count && !status; i++)
        if (strcmp(out->values[i].name, out->values[i - 1].name) == 0)
            status =
                sb_fail(err, SB_ERR_INPUT, "%s: layer %s is stored twice",
                        SB_SHOW(sb_checkpoint_path(m->checkpoint)), SB_SHOW(out->values[i].name));
    return status;
}

sb_status sb_manifest_make(const sb_checkpoint *checkpoint, int with_values,
                           sb_hash_progress progress, sb_manifest *out, sb_error *err)
{
    *out = (sb_manifest){0};
    making m = {checkpoint, out, progress, 0};
    sb_status status = take_tensors(&m, err);
    if (!status && with_values)
        status = take_values(&m, err);
    if (!status)
        status = sb_manifest_close(out, &out->checkpoint, &out->meaning, err);
    if (status)
        sb_manifest_free(out);
    return status;
}

/* --- writing ---------------------------------------------------------------------------------- */

void sb_manifest_print_name(const char *name, FILE *out)
{
    while (*name) {
        size_t n = *name == '\\' ? 0 : sb_shown_bytes(name);
        if (n)
            fwrite(name, 1, n, out);
        else
            fprintf(out, "\\x%02x", (unsigned)(unsigned char)*name);
        name += n ? n : 1;
    }
    putc('\n', out);
}

void sb_manifest_print(const sb_manifest *m, FILE *out)
{
    fprintf(out, "samebit-manifest 1\n");
    for (size_t i = 0; i < m->tensor_count; i++) {
        const sb_manifest_tensor *t = &m->tensors[i];
        sb_tensor like = {.rank = t->rank};
        sb_shape_text shape;
        memcpy(like.shape, t->shape, sizeof like.shape);
        fprintf(out, "%s %s %s %s ", t->in_layer ? "part" : "tensor", t->digest.hex,
                sb_dtype_name(t->dtype), sb_shape_show(&like, &shape));
        sb_manifest_print_name(t->name, out);
    }
    for (size_t i = 0; i < m->value_count; i++) {
        const sb_manifest_value *v = &m->values[i];
        fprintf(out, "value %s %s %s %s %s ", v->values.hex, v->exact.hex, v->divisor, v->input,
                v->container);
        sb_manifest_print_name(v->name, out);
    }
    if (m->has_values)
        fprintf(out, "meaning %s\n", m->meaning.hex);
    fprintf(out, "checkpoint %s\n", m->checkpoint.hex);
}

json_t *sb_manifest_json(const sb_manifest *m, json_t *document)
{
    json_t *tensors = json_array(), *values = json_array();
    for (size_t i = 0; i < m->tensor_count; i++) {
        const sb_manifest_tensor *t = &m->tensors[i];
        json_t *shape = json_array();
        for (unsigned d = 0; d < t->rank; d++)
            json_array_append_new(shape, json_integer((json_int_t)t->shape[d]));
        json_array_append_new(tensors, json_pack("{s:s,s:s,s:o,s:s,s:b}", "name", t->name, "dtype",
                                                 sb_dtype_name(t->dtype), "shape", shape, "digest",
                                                 t->digest.hex, "in_layer", t->in_layer));
    }
    for (size_t i = 0; i < m->value_count; i++) {
        const sb_manifest_value *v = &m->values[i];
        json_array_append_new(values,
                              json_pack("{s:s,s:s,s:s,s:s,s:s,s:s}", "name", v->name, "values",
                                        v->values.hex, "exact", v->exact.hex, "divisor", v->divisor,
                                        "input", v->input, "container", v->container));
    }
    json_object_set_new(document, "tensors", tensors);
    if (m->has_values) {
        json_object_set_new(document, "values", values);
        json_object_set_new(document, "meaning", json_string(m->meaning.hex));
    } else {
        json_decref(values);
    }
    json_object_set_new(document, "checkpoint", json_string(m->checkpoint.hex));
    return document;
}
