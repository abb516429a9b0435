/* file.c - cases as safetensors files: their content, and writing them. */
#include "tools/judge/gate/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/spec.h"
#include "ref/container/writer.h"
#include "ref/formats/format.h"

/* --- content ---------------------------------------------------------------------------------- */

static void add_key(sb_gate_file *f, const char *key, const char *value)
{
    f->key[f->keys].key = key;
    snprintf(f->key[f->keys].value, sizeof f->key[f->keys].value, "%s", value);
    f->keys++;
}

/* V-102: "Every key of the metadata begins with `samebit.vectors`" */
static void add_keys(sb_gate_file *f, const sb_gate_case *c, const sb_gate_arith *ar)
{
    char number[24];
    snprintf(number, sizeof number, "%d", SB_SPEC_VERSION);
    add_key(f, "samebit.vectors", number);
    add_key(f, "samebit.vectors.op", c->op->name);
    add_key(f, "samebit.vectors.format", c->format);
    add_key(f, "samebit.vectors.input", sb_dtype_name(c->input));
    add_key(f, "samebit.vectors.shape", sb_gate_shape_of(c).text);
    add_key(f, "samebit.vectors.regime", sb_gate_regime_name(c->regime));
    snprintf(number, sizeof number, "%" PRIu64, c->seed);
    add_key(f, "samebit.vectors.seed", number);
    add_key(f, "samebit.vectors.arith", ar->name);
}

sb_gate_axes_key sb_gate_axes_key_of(const sb_gate_entry *e)
{
    sb_gate_axes_key key;
    snprintf(key.text, sizeof key.text, "samebit.vectors.axes.%s", e->name);
    return key;
}

static void add_input(sb_gate_file *f, const sb_gate_array *a)
{
    sb_gate_entry *e = &f->entry[f->entries++];
    snprintf(e->name, sizeof e->name, "in.%s", a->name);
    e->dtype = a->dtype;
    e->rank = a->rank;
    e->shape = a->shape;
    e->axes = a->axes;
    e->bytes = a->data;
    e->count = a->bytes;
}

/* Allocates the values of one tensor of an output; NULL if memory is out. */
static unsigned char *add_output(sb_gate_file *f, const sb_gate_output *y, const char *what,
                                 sb_dtype dtype)
{
    sb_gate_entry *e = &f->entry[f->entries++];
    snprintf(e->name, sizeof e->name, "%s%s%s", what, *y->name ? "." : "", y->name);
    e->dtype = dtype;
    e->rank = y->rank;
    e->shape = y->shape;
    e->axes = y->axes;
    e->count = (uint64_t)y->count * sb_dtype_bits(dtype) / 8;
    e->owned = sb_alloc((size_t)e->count, 1);
    e->bytes = e->owned;
    return e->owned;
}

static void store_f64(unsigned char *bytes, size_t i, double x)
{
    sb_store_u64(bytes + 8 * i, sb_bits_f64(x));
}

/* V-101: "real.hi, real.lo and bound are F64, exact is F32 and bf16 is BF16" */
static sb_status add_outputs(sb_gate_file *f, const sb_gate_output *y, const double *bound)
{
    unsigned char *hi = add_output(f, y, "real.hi", SB_DTYPE_F64);
    unsigned char *lo = add_output(f, y, "real.lo", SB_DTYPE_F64);
    unsigned char *limit = add_output(f, y, "bound", SB_DTYPE_F64);
    unsigned char *exact = add_output(f, y, "exact", SB_DTYPE_F32), *half = exact;
    if (y->kind == SB_GATE_VALUES)
        half = add_output(f, y, "bf16", SB_DTYPE_BF16);
    if (!hi || !lo || !limit || !exact || !half)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < y->count; i++) {
        store_f64(hi, i, y->real[i].hi);
        store_f64(lo, i, y->real[i].lo);
        store_f64(limit, i, bound[i]);
    }
    sb_encode(SB_FORMAT_f32, y->exact, y->count, exact);
    if (y->kind == SB_GATE_VALUES)
        sb_encode(SB_FORMAT_bf16, y->exact, y->count, half);
    return SB_OK;
}

static sb_status fill_file(sb_gate_file *f, const sb_gate_case *c, const sb_gate_arith *ar,
                           sb_error *err)
{
    sb_status status = SB_OK;
    add_keys(f, c, ar);
    for (size_t i = 0; i < c->arrays; i++)
        add_input(f, &c->array[i]);
    f->inputs = f->entries;
    for (size_t o = 0; o < c->outputs && !status; o++) {
        double *bound = sb_alloc(c->output[o].count, sizeof *bound);
        status = bound ? sb_gate_bound(c, ar, o, bound, err)
                       : sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", c->op->name);
        if (!status && add_outputs(f, &c->output[o], bound))
            status = sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", c->op->name);
        free(bound);
    }
    return status;
}

sb_status sb_gate_file_of(const sb_gate_case *c, const sb_gate_arith *ar, sb_gate_file *out,
                          sb_error *err)
{
    memset(out, 0, sizeof *out);
    sb_status status = fill_file(out, c, ar, err);
    if (status)
        sb_gate_file_free(out);
    return status;
}

void sb_gate_file_free(sb_gate_file *file)
{
    for (size_t i = 0; i < file->entries; i++)
        free(file->entry[i].owned);
    memset(file, 0, sizeof *file);
}

/* --- writing ---------------------------------------------------------------------------------- */

static sb_status fill(void *ctx, const sb_tensor *tensor, uint64_t first_byte, unsigned char *bytes,
                      size_t count, sb_error *err)
{
    const sb_gate_file *f = ctx;
    for (size_t i = 0; i < f->entries; i++)
        if (strcmp(f->entry[i].name, tensor->name) == 0) {
            memcpy(bytes, f->entry[i].bytes + first_byte, count);
            return SB_OK;
        }
    return sb_fail(err, SB_ERR_INPUT, "the case has no tensor \"%s\"", tensor->name);
}

static sb_status declare(sb_writer *writer, const sb_gate_file *f, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < f->entries && !status; i++) {
        const sb_gate_entry *e = &f->entry[i];
        status = sb_writer_add(writer, e->name, e->dtype, e->rank, e->shape, err);
        if (!status)
            status = sb_writer_metadata(writer, e->name, sb_gate_axes_key_of(e).text, e->axes, err);
    }
    for (size_t i = 0; i < f->keys && !status; i++)
        status = sb_writer_metadata(writer, f->entry[0].name, f->key[i].key, f->key[i].value, err);
    return status;
}

sb_status sb_gate_write(const sb_gate_case *c, const sb_gate_arith *ar, const char *path,
                        sb_error *err)
{
    sb_writer *writer = NULL;
    sb_gate_file *f = sb_alloc(1, sizeof *f);
    if (!f)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", c->op->name);
    sb_status status = sb_gate_file_of(c, ar, f, err);
    if (!status)
        status = sb_writer_new(path, 0, SB_WRITER_FILE | SB_WRITER_REPLACE, &writer, err);
    if (!status)
        status = declare(writer, f, err);
    if (!status)
        status = sb_writer_run(writer, fill, f, err);
    sb_writer_free(writer);
    sb_gate_file_free(f);
    free(f);
    return status;
}
