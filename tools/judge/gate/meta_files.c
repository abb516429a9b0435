/* meta_files.c - the metamorphic gate of a program that reads and writes files. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "ref/container/writer.h"
#include "tools/judge/gate/element.h"
#include "tools/judge/gate/meta_parts.h"

/* V-119: "Every file says which rows of base.safetensors its rows are" */
static const char key_rows[] = "samebit.meta.rows", base_name[] = "base.safetensors";

/* --- writing ---------------------------------------------------------------------------------- */

static sb_status fill(void *ctx, const sb_tensor *tensor, uint64_t first, unsigned char *bytes,
                      size_t count, sb_error *err)
{
    const sb_gate_case *c = ctx;
    (void)err;
    memcpy(bytes, sb_gate_input(c, tensor->name + 3)->data + first, count);
    return SB_OK;
}

/* "0,1,2" for the variant; the caller frees it. */
static char *rows_list(const sb_meta_variant *v)
{
    size_t size = 24 * v->count + 1, used = 0;
    char *text = sb_alloc(size, 1);
    for (size_t i = 0; text && i < v->count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%zu", i ? "," : "", v->rows[i]);
    return text;
}

static sb_status write_one(const sb_gate_case *c, const char *folder, const sb_meta_variant *v,
                           sb_error *err)
{
    char file[80], name[SB_GATE_NAME + 8], first[SB_GATE_NAME + 8];
    snprintf(file, sizeof file, "%s.safetensors", v->name);
    char *path = sb_path_join(folder, file), *rows = rows_list(v);
    sb_writer *w = NULL;
    sb_status status = path && rows ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    if (!status)
        status = sb_writer_new(path, 0, SB_WRITER_FILE | SB_WRITER_REPLACE, &w, err);
    snprintf(first, sizeof first, "in.%s", c->array[0].name);
    for (size_t i = 0; i < c->arrays && !status; i++) {
        const sb_gate_array *a = &c->array[i];
        snprintf(name, sizeof name, "in.%s", a->name);
        status = sb_writer_add(w, name, a->dtype, a->rank, a->shape, err);
    }
    if (!status)
        status = sb_writer_metadata(w, first, "samebit.meta", c->op->name, err);
    if (!status)
        status = sb_writer_metadata(w, first, key_rows, rows, err);
    if (!status) {
        sb_gate_case copy = *c;
        status = sb_writer_run(w, fill, &copy, err);
    }
    sb_writer_free(w);
    free(path);
    free(rows);
    return status;
}

static sb_status write_variant(const sb_gate_case *c, const char *folder, const sb_meta_variant *v,
                               size_t *files, sb_error *err)
{
    sb_gate_case *derived = NULL;
    sb_status status = sb_meta_derive(c, v, &derived, NULL);
    if (status == SB_ERR_MEMORY)
        return sb_fail(err, status, "out of memory for the rows of %s", v->name);
    if (status) /* too many rows for the op */
        return SB_OK;
    status = write_one(derived, folder, v, err);
    sb_gate_case_free(derived);
    *files += status == SB_OK;
    return status;
}

static sb_status write_kind(const sb_gate_case *c, sb_gate_meta_kind kind, const char *folder,
                            size_t *files, sb_error *err)
{
    size_t rows = sb_meta_rows(c);
    sb_status status = SB_OK;
    for (size_t i = 0; i < sb_meta_variants(kind, rows) && !status; i++) {
        sb_meta_variant v;
        status = sb_meta_variant_at(kind, i, rows, &v);
        if (status)
            return sb_fail(err, status, "out of memory for rows");
        status = write_variant(c, folder, &v, files, err);
        free(v.rows);
    }
    return status;
}

/* Three copies of the unchanged case: a program must give the same output each time.
 * base.safetensors is written last; without it nothing is judged. */
static sb_status write_plain(const sb_gate_case *c, const char *folder, size_t *files,
                             sb_error *err)
{
    static const char *const names[] = {"repeated-1", "repeated-2", "base"};
    size_t rows = sb_meta_rows(c);
    sb_meta_variant v = {.rows = sb_alloc(rows + 1, sizeof(size_t)), .count = rows};
    sb_status status = v.rows ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for rows");
    for (size_t r = 0; r < rows && !status; r++)
        v.rows[r] = r;
    for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++) {
        snprintf(v.name, sizeof v.name, "%s", names[i]);
        status = write_one(c, folder, &v, err);
        *files += status == SB_OK;
    }
    free(v.rows);
    return status;
}

/* From here on sb_gate_meta_judge refuses the folder until it is complete. */
static sb_status remove_base(const char *folder, sb_error *err)
{
    char *path = sb_path_join(folder, base_name);
    sb_status status = path ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    if (path && unlink(path) != 0 && errno != ENOENT)
        status = sb_fail(err, SB_ERR_IO, "%s: cannot remove: %s", SB_SHOW(path), strerror(errno));
    free(path);
    return status;
}

sb_status sb_gate_meta_write(const sb_gate_case *c, const char *folder, size_t *files,
                             sb_error *err)
{
    *files = 0;
    if (mkdir(folder, 0777) && errno != EEXIST)
        return sb_fail(err, SB_ERR_IO, "%s: %s", SB_SHOW(folder), strerror(errno));
    sb_status status = remove_base(folder, err);
    for (int k = SB_GATE_META_alone; k < SB_GATE_METAS && !status && !sb_meta_why_not(c); k++)
        status = write_kind(c, (sb_gate_meta_kind)k, folder, files, err);
    return status ? status : write_plain(c, folder, files, err);
}

/* --- comparing -------------------------------------------------------------------------------- */

/* The rows listed in a file; the caller frees them. */
static sb_status read_rows(const sb_safetensors *in, const char *path, size_t most, size_t **rows,
                           size_t *count, sb_error *err)
{
    const char *text = sb_metadata_get(&in->metadata, key_rows);
    *count = 0;
    *rows = sb_alloc(text ? strlen(text) + 1 : 1, sizeof **rows);
    if (!*rows)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for rows");
    for (const char *at = text; at && *at;) {
        size_t n = strspn(at, "0123456789");
        size_t row = n && n < 9 ? (size_t)strtoul(at, NULL, 10) : most;
        if (row >= most || (at[n] && (at[n] != ',' || !at[n + 1])))
            return sb_fail(err, SB_ERR_INPUT, "%s: %s is '%s', expected rows below %zu",
                           SB_SHOW(path), key_rows, SB_SHOW(text), most);
        (*rows)[(*count)++] = row;
        at += n + (at[n] == ',');
    }
    return text ? SB_OK
                : sb_fail(err, SB_ERR_INPUT,
                          "%s: has no %s; expected a file of samebit vectors --metamorphic",
                          SB_SHOW(path), key_rows);
}

/* One variant: the outputs of the base, and its own. */
typedef struct files {
    const char *name; /* "width-5" */
    const sb_safetensors *base, *got;
    const size_t *rows;
    size_t count, base_rows; /* base_rows 0: no rows; whole outputs are compared */
    sb_gate_meta_row *row;
} files;

static const sb_tensor *tensor_of(const sb_safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    return NULL;
}

static void note(files *f, const char *words)
{
    if (f->row->verdict == SB_VERDICT_FAIL)
        return;
    f->row->verdict = SB_VERDICT_FAIL;
    snprintf(f->row->words, sizeof f->row->words, "%s: %s", f->name, words);
}

/* Describes the first element with different bytes by its index in the flat row. */
static void differ(files *f, const sb_tensor *a, const unsigned char *want,
                   const unsigned char *found, size_t bytes, size_t row)
{
    size_t width = sb_dtype_bits(a->dtype) / 8, i = 0;
    char words[300];
    width = width ? width : 1;
    while ((i + 1) * width < bytes && memcmp(want + i * width, found + i * width, width) == 0)
        i++;
    snprintf(words, sizeof words, "%.64s: row %zu, element %zu of the row is %s, but in base %s",
             a->name, row, i, sb_element_print(sb_element_value(a->dtype, found, i, 0)).text,
             sb_element_print(sb_element_value(a->dtype, want, i, 0)).text);
    note(f, words);
}

static int same_but_rows(const sb_tensor *a, const sb_tensor *b, int from)
{
    int same = a->dtype == b->dtype && a->rank == b->rank;
    for (unsigned i = (unsigned)from; same && i < a->rank; i++)
        same = a->shape[i] == b->shape[i];
    return same;
}

/* Compares an output row by row if it has a row per row of the case. Any other output is compared
 * only in files that repeat the base. */
static void compare_output(files *f, const sb_tensor *a)
{
    const sb_tensor *b = tensor_of(f->got, a->name);
    int of_rows = f->base_rows && a->rank && a->shape[0] == f->base_rows;
    int plain = sb_starts(f->name, "repeated");
    if (!of_rows && !plain)
        return;
    size_t parts = of_rows ? f->base_rows : 1, bytes = (size_t)a->bytes / parts;
    if (!b || !same_but_rows(a, b, of_rows) || (of_rows && b->shape[0] != f->count)) {
        char words[200];
        snprintf(words, sizeof words, "%.80s %s", a->name,
                 b ? "has not the same type and shape as in base" : "is missing");
        note(f, words);
        return;
    }
    for (size_t r = 0; r < (of_rows ? f->count : 1); r++) {
        size_t from = of_rows ? f->rows[r] : 0;
        const unsigned char *want = a->data + from * bytes, *found = b->data + r * bytes;
        f->row->elements += bytes;
        if (memcmp(want, found, bytes) != 0)
            differ(f, a, want, found, bytes, from);
    }
}

static void compare_outputs(files *f)
{
    for (size_t i = 0; i < f->base->count; i++)
        if (sb_starts(f->base->tensors[i].name, "out"))
            compare_output(f, &f->base->tensors[i]);
}

typedef struct folders {
    const char *in, *got;
    sb_safetensors base;
    size_t base_rows;
    sb_gate_meta *out;
} folders;

static sb_status open_in(const char *folder, const char *file, sb_safetensors *out, sb_error *err)
{
    char *path = sb_path_join(folder, file);
    sb_status status = path ? sb_safetensors_open(path, out, err)
                            : sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    free(path);
    return status;
}

/* One file of the folder of inputs. */
static sb_status judge_file(folders *d, const char *file, const char *name, sb_gate_meta_kind kind,
                            sb_error *err)
{
    sb_safetensors in = {.count = 0}, got = {.count = 0};
    size_t *rows = NULL, count = 0;
    sb_gate_meta_row *row = &d->out->row[kind];
    sb_status status = open_in(d->in, file, &in, err);
    if (!status)
        status = read_rows(&in, file, d->base_rows, &rows, &count, err);
    if (!status)
        status = open_in(d->got, file, &got, err);
    if (!status) {
        files f = {.name = name,
                   .base = &d->base,
                   .got = &got,
                   .rows = rows,
                   .count = count,
                   .base_rows = d->base_rows,
                   .row = row};
        row->calls++;
        compare_outputs(&f);
    }
    sb_safetensors_close(&in);
    sb_safetensors_close(&got);
    free(rows);
    return status;
}

/* Reads only files with the names that the writer uses. */
static sb_status judge_kind(folders *d, sb_gate_meta_kind kind, sb_error *err)
{
    size_t count = kind == SB_GATE_META_repeated ? 2 : sb_meta_variants(kind, d->base_rows);
    sb_status status = SB_OK;
    for (size_t i = 0; i < count && !status; i++) {
        char file[80];
        sb_meta_variant v = {.rows = NULL};
        struct stat info;
        if (kind == SB_GATE_META_repeated)
            snprintf(v.name, sizeof v.name, "repeated-%zu", i + 1);
        else
            status = sb_meta_variant_at(kind, i, d->base_rows, &v);
        free(v.rows);
        snprintf(file, sizeof file, "%s.safetensors", v.name);
        char *path = sb_path_join(d->in, file);
        if (!path || status)
            status = sb_fail(err, SB_ERR_MEMORY, "out of memory for rows");
        else if (stat(path, &info) == 0)
            status = judge_file(d, file, v.name, kind, err);
        else if (errno != ENOENT)
            status = sb_fail(err, SB_ERR_IO, "%s: %s", SB_SHOW(path), strerror(errno));
        free(path);
    }
    return status;
}

static size_t count_rows(const sb_safetensors *in)
{
    const char *text = sb_metadata_get(&in->metadata, key_rows);
    size_t count = text && *text ? 1 : 0;
    for (; text && *text; text++)
        count += *text == ',';
    return count;
}

/* True if all elements of each output of the base are equal. */
static int constant(const sb_safetensors *got)
{
    for (size_t t = 0; t < got->count; t++) {
        const sb_tensor *x = &got->tensors[t];
        size_t width = sb_dtype_bits(x->dtype) / 8;
        for (size_t i = width; width && sb_starts(x->name, "out") && i < x->bytes; i += width)
            if (memcmp(x->data, x->data + i, width) != 0)
                return 0;
    }
    return 1;
}

static void conclude(folders *d)
{
    sb_gate_meta *m = d->out;
    size_t compared = 0;
    m->verdict = SB_VERDICT_IDENTICAL;
    for (int k = 0; k < SB_GATE_METAS; k++) {
        sb_gate_meta_row *row = &m->row[k];
        compared += row->elements;
        if (row->verdict != SB_VERDICT_FAIL)
            row->verdict = row->elements ? SB_VERDICT_IDENTICAL : SB_VERDICT_SKIPPED;
        if (row->verdict == SB_VERDICT_SKIPPED)
            snprintf(row->words, sizeof row->words, "no such files");
        else if (row->verdict == SB_VERDICT_FAIL && m->verdict != SB_VERDICT_FAIL) {
            m->verdict = SB_VERDICT_FAIL;
            snprintf(m->words, sizeof m->words, "%s", row->words);
        }
    }
    if (m->verdict != SB_VERDICT_FAIL && (!compared || constant(&d->base))) {
        m->verdict = SB_VERDICT_MISTRUSTED;
        snprintf(m->words, sizeof m->words, "%s",
                 compared ? "every element of the output is the same" : "nothing was compared");
    }
}

sb_status sb_gate_meta_judge(const char *folder, const char *got, sb_gate_meta *out, sb_error *err)
{
    folders d = {.in = folder, .got = got, .out = out};
    sb_safetensors in = {.count = 0};
    *out = (sb_gate_meta){.verdict = SB_VERDICT_none};
    sb_status status = open_in(folder, base_name, &in, err);
    if (!status && !sb_metadata_get(&in.metadata, key_rows))
        status = sb_fail(
            err, SB_ERR_INPUT,
            "%s/base.safetensors: has no %s; expected a file of samebit vectors --metamorphic",
            SB_SHOW(folder), key_rows);
    if (!status) {
        d.base_rows = count_rows(&in);
        status = open_in(got, base_name, &d.base, err);
    }
    for (int k = 0; k < SB_GATE_METAS && !status; k++)
        status = judge_kind(&d, (sb_gate_meta_kind)k, err);
    if (!status)
        conclude(&d);
    sb_safetensors_close(&in);
    sb_safetensors_close(&d.base);
    return status;
}
