/* bundle_write.c - the file of one op that failed. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/spec.h"
#include "ref/container/writer.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"
#include "ref/ops/knob.h"
#include "ref/ops/values.h"
#include "tools/judge/compare/bundle.h"
#include "tools/judge/compare/bundle_matrix.h"

enum { BUNDLE_TENSORS = 24, BUNDLE_TEXT = 4096, BUNDLE_WINDOW = 64, BUNDLE_SHOWN = 1 << 20 };

typedef struct part {
    char name[64];
    sb_dtype dtype;
    uint64_t shape[2];
    unsigned char *bytes;
} part;

typedef struct bundle {
    part parts[BUNDLE_TENSORS];
    size_t count;
    char args[BUNDLE_TEXT], knobs[BUNDLE_TEXT];
    char matrix[2][BUNDLE_TEXT];
    const char *matrix_name[2];
    size_t matrices;
    sb_status status;
} bundle;

static void say(char *text, const char *format, ...) SB_PRINTF(2, 3);
static void say(char *text, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, BUNDLE_TEXT - used, format, args);
    va_end(args);
}

/* Adds a tensor (rows, cols); NULL, with the status set, if memory runs out. */
static unsigned char *add(bundle *b, const char *group, const char *name, sb_dtype dtype,
                          size_t rows, size_t cols)
{
    size_t width = sb_dtype_bits(dtype) / 8;
    if (b->status || b->count == BUNDLE_TENSORS || rows * cols == 0)
        return NULL;
    part *p = &b->parts[b->count];
    snprintf(p->name, sizeof p->name, "%s%s", group, name);
    p->dtype = dtype;
    p->shape[0] = rows;
    p->shape[1] = cols;
    p->bytes = sb_alloc(rows * cols, width);
    if (p->bytes)
        b->count++;
    else
        b->status = SB_ERR_MEMORY;
    return p->bytes;
}

static void add_f32(bundle *b, const char *group, const char *name, const float *x, size_t rows,
                    size_t cols, size_t stride)
{
    unsigned char *to = add(b, group, name, SB_DTYPE_F32, rows, cols);
    for (size_t i = 0; to && i < rows * cols; i++)
        sb_store_u32(to + 4 * i, sb_bits_f32(x[i / cols * stride + i % cols]));
}

static void add_f64(bundle *b, const char *group, const char *name, const double *x, size_t rows,
                    size_t cols)
{
    unsigned char *to = add(b, group, name, SB_DTYPE_F64, rows, cols);
    for (size_t i = 0; to && i < rows * cols; i++)
        sb_store_u64(to + 8 * i, sb_bits_f64(x[i]));
}

static void add_u32(bundle *b, const char *group, const char *name, const uint32_t *x, size_t count)
{
    unsigned char *to = add(b, group, name, SB_DTYPE_U32, 1, count);
    for (size_t i = 0; to && i < count; i++)
        sb_store_u32(to + 4 * i, x[i]);
}

static void add_bytes(bundle *b, const char *group, const char *name, const unsigned char *x,
                      uint64_t count)
{
    unsigned char *to = x ? add(b, group, name, SB_DTYPE_U8, 1, (size_t)count) : NULL;
    if (to)
        memcpy(to, x, (size_t)count);
}

/* --- parameters ------------------------------------------------------------------------------- */

/* Cuts the matrix to rows n .. n + count - 1, if these are contiguous and start at a block of
 * scales. Else it stays whole. */
static int cut_matrix(sb_matrix *m, uint32_t n, uint32_t count)
{
    sb_quant *q = &m->quant;
    uint64_t first = (uint64_t)m->first_row + n;
    if (m->row_map || q->packing != SB_PACKING_rows || q->zero_points ||
        (q->scales && first % q->block_rows != 0))
        return 0;
    m->data += first * (m->cols * sb_format_bits(m->format) / 8);
    if (q->scales)
        q->scales += first / q->block_rows * q->scale_row * sb_format_bytes(q->scale_format);
    m->first_row = 0;
    m->rows = count;
    q->stored_rows = count;
    return 1;
}

static uint64_t last_row(const sb_matrix *m)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < m->rows; i++)
        last = sb_matrix_stored_row(m, i) > last ? sb_matrix_stored_row(m, i) : last;
    return last;
}

/* Adds the values of the codes for other readers of the file, exact except for the factor. */
static void add_values(bundle *b, const char *group, const sb_matrix *m)
{
    size_t count = (size_t)m->rows * m->cols;
    double *values = count <= BUNDLE_SHOWN ? sb_alloc(count, sizeof *values) : NULL;
    if (count <= BUNDLE_SHOWN && !values)
        b->status = SB_ERR_MEMORY;
    for (uint32_t i = 0; values && i < m->rows; i++)
        sb_matrix_wide(m, i, values + (size_t)i * m->cols);
    if (values)
        add_f64(b, group, "values", values, m->rows, m->cols);
    free(values);
}

static void add_matrix(bundle *b, const char *name, const sb_matrix *whole)
{
    double numbers[BUNDLE_MATRIX_NUMBERS];
    sb_matrix m = *whole;
    char group[48];
    cut_matrix(&m, 0, m.rows);
    bundle_extent size = bundle_extent_of(&m, last_row(&m));
    bundle_matrix_numbers(&m, numbers);
    snprintf(group, sizeof group, "param.%s.", name);
    b->matrix_name[b->matrices] = name;
    for (size_t i = 0; i < BUNDLE_MATRIX_NUMBERS; i++)
        say(b->matrix[b->matrices], "%s=%a ", bundle_matrix_names[i], numbers[i]);
    b->matrices++;
    add_bytes(b, group, "data", m.data, size.data);
    add_bytes(b, group, "scales", m.quant.scales, size.scales);
    add_bytes(b, group, "zero_points", m.quant.zero_points, size.zero_points);
    add_bytes(b, group, "group_index", m.quant.group_index, size.group_index);
    if (m.row_map)
        add_u32(b, group, "row_map", m.row_map, m.rows);
    add_values(b, group, &m);
}

/* --- arguments -------------------------------------------------------------------------------- */

static const sb_op_value *value_of(const sb_op_values *v, const char *name)
{
    for (size_t i = 0; i < v->inputs; i++)
        if (strcmp(v->in[i].name, name) == 0)
            return &v->in[i];
    return NULL;
}

static void add_number(bundle *b, const sb_arg *arg, const void *member)
{
    if (arg->kind == SB_ARG_size)
        say(b->args, "%s=%zu ", arg->name, *(const size_t *)member);
    else if (arg->kind == SB_ARG_int)
        say(b->args, "%s=%d ", arg->name, *(const int *)member);
    else if (arg->kind == SB_ARG_double)
        say(b->args, "%s=%a ", arg->name, *(const double *)member);
    else
        say(b->args, "%s=%a ", arg->name, (double)*(const float *)member);
}

static void add_positions(bundle *b, const uint32_t *const position[3], size_t rows)
{
    static const char *const names[3] = {"time", "height", "width"};
    for (size_t i = 0; i < 3; i++)
        add_u32(b, "in.position.", names[i], position[i], rows);
}

static void add_value(bundle *b, const sb_op_value *value)
{
    if (value)
        add_f32(b, "in.", value->name, value->data, value->rows, value->cols, value->stride);
}

static void add_arg(bundle *b, const sb_arg *arg, void *args, const sb_op_values *v)
{
    void *member = sb_arg_at(args, arg);
    switch (arg->kind) {
    case SB_ARG_size:
    case SB_ARG_int:
    case SB_ARG_float:
    case SB_ARG_double:
    case SB_ARG_scalar:
        add_number(b, arg, member);
        break;
    case SB_ARG_input:
    case SB_ARG_inplace:
    case SB_ARG_state:
        add_value(b, value_of(v, arg->name));
        break;
    case SB_ARG_ids:
        if (*(const uint32_t *const *)member)
            add_u32(b, "in.", arg->name, *(const uint32_t *const *)member, sb_arg_count(args, arg));
        break;
    case SB_ARG_positions:
        add_positions(b, member, sb_arg_count(args, arg));
        break;
    case SB_ARG_section:
        if (*(const uint32_t *const *)member)
            add_u32(b, "in.", arg->name, *(const uint32_t *const *)member, 3);
        break;
    case SB_ARG_weight:
        add_matrix(b, arg->name, *(const sb_matrix *const *)member);
        break;
    case SB_ARG_trail:
    case SB_ARG_output:
    case SB_ARG_second:
    case SB_ARG_choice:
        break;
    }
}

/* One row of a linear layer or embedding, and the rows of its matrix around the element. */
typedef struct slice {
    sb_matrix matrix;
    uint32_t token;
    size_t first, count; /* columns of the output that are kept */
} slice;

static void cut_linear(const sb_bundle_source *from, sb_linear_args *a, slice *s)
{
    size_t n = a->weight->rows, first = from->column / BUNDLE_WINDOW * BUNDLE_WINDOW;
    size_t block = a->weight->quant.block_rows;
    first = block > 1 ? first / block * block : first;
    size_t count = from->column - first + BUNDLE_WINDOW;
    count = count < n - first ? count : n - first;
    s->matrix = *a->weight;
    if (cut_matrix(&s->matrix, (uint32_t)first, (uint32_t)count)) {
        s->first = first;
        s->count = count;
    }
    a->weight = &s->matrix;
    a->in += from->row * a->weight->cols;
    a->rows = 1;
}

static void cut_embed(const sb_bundle_source *from, sb_embed_args *a, slice *s)
{
    s->matrix = *a->table;
    s->token = a->tokens[from->row];
    if (cut_matrix(&s->matrix, s->token, 1))
        s->token = 0;
    a->table = &s->matrix;
    a->tokens = &s->token;
    a->rows = 1;
}

/* Cuts the arguments to the kept part of the call, and sets its rows and columns of the output. */
static size_t cut_args(const sb_bundle_source *from, void *args, slice *s)
{
    s->first = 0;
    s->count = from->cols;
    if (from->call->op == SB_OP_linear)
        cut_linear(from, args, s);
    else if (from->call->op == SB_OP_embed)
        cut_embed(from, args, s);
    else
        return 0;
    return from->row;
}

static void add_results(bundle *b, const sb_bundle_source *from, const slice *s, size_t row)
{
    int one = from->call->op == SB_OP_linear || from->call->op == SB_OP_embed;
    size_t rows = one ? 1 : from->rows, at = row * from->cols + s->first;
    add_f32(b, "", "expected", from->expected + at, rows, s->count, from->cols);
    add_f32(b, "", "recorded", from->recorded + at, rows, s->count, from->cols);
    unsigned char *to = add(b, "", "bound", SB_DTYPE_F64, rows, s->count);
    for (size_t i = 0; to && i < rows * s->count; i++)
        sb_store_u64(to + 8 * i,
                     sb_bits_f64(from->bound[at + i / s->count * from->cols + i % s->count]));
}

/* --- the file --------------------------------------------------------------------------------- */

static sb_status fill(void *ctx, const sb_tensor *tensor, uint64_t first, unsigned char *bytes,
                      size_t count, sb_error *err)
{
    const bundle *b = ctx;
    (void)err;
    for (size_t i = 0; i < b->count; i++)
        if (strcmp(b->parts[i].name, tensor->name) == 0)
            memcpy(bytes, b->parts[i].bytes + first, count);
    return SB_OK;
}

static sb_status write_keys(sb_writer *writer, const bundle *b, const sb_bundle_source *from,
                            sb_error *err)
{
    char numbers[4][24], keys[2][64];
    const sb_place *at = from->place;
    snprintf(numbers[0], sizeof numbers[0], "%d", SB_SPEC_VERSION);
    snprintf(numbers[1], sizeof numbers[1], "%" PRIu64, at->token);
    snprintf(numbers[2], sizeof numbers[2], "%u", (unsigned)at->sequence);
    snprintf(numbers[3], sizeof numbers[3], "%u", (unsigned)at->layer);
    const char *const pairs[][2] = {{"samebit.bundle", numbers[0]},
                                    {"samebit.bundle.token", numbers[1]},
                                    {"samebit.bundle.sequence", numbers[2]},
                                    {"samebit.bundle.layer", numbers[3]},
                                    {"samebit.bundle.op", sb_op_name(from->call->op)},
                                    {"samebit.bundle.name", at->name},
                                    {"samebit.bundle.words", at->words},
                                    {"samebit.bundle.output", from->output},
                                    {"samebit.bundle.arithmetic", from->arithmetic},
                                    {"samebit.bundle.knobs", b->knobs},
                                    {"samebit.bundle.args", b->args}};
    sb_status status = SB_OK;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs && !status; i++)
        status = sb_writer_metadata(writer, b->parts[0].name, pairs[i][0], pairs[i][1], err);
    for (size_t i = 0; i < b->matrices && !status; i++) {
        snprintf(keys[i], sizeof keys[i], "samebit.bundle.param.%s", b->matrix_name[i]);
        status = sb_writer_metadata(writer, b->parts[0].name, keys[i], b->matrix[i], err);
    }
    return status;
}

static sb_status write_file(const char *path, bundle *b, const sb_bundle_source *from,
                            sb_error *err)
{
    sb_writer *writer = NULL;
    sb_status status = sb_writer_new(path, 0, SB_WRITER_FILE | SB_WRITER_REPLACE, &writer, err);
    for (size_t i = 0; i < b->count && !status; i++)
        status =
            sb_writer_add(writer, b->parts[i].name, b->parts[i].dtype, 2, b->parts[i].shape, err);
    if (!status)
        status = write_keys(writer, b, from, err);
    if (!status)
        status = sb_writer_run(writer, fill, b, err);
    sb_writer_free(writer);
    return status;
}

sb_status sb_bundle_write(const char *path, const sb_bundle_source *from, sb_error *err)
{
    const sb_op op = from->call->op;
    const sb_arg_list list = sb_args_of(op);
    sb_any_args args;
    slice cut = {.first = 0};
    bundle *b = sb_alloc(1, sizeof *b);
    if (!b)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a bundle");
    sb_args_copy(op, from->call->args, &args);
    size_t row = cut_args(from, &args, &cut);
    sb_op_values v = sb_op_values_of(op, &args);
    add_results(b, from, &cut, row);
    for (size_t i = 0; i < list.count; i++)
        add_arg(b, &list.args[i], &args, &v);
    for (size_t k = 0; k < SB_KNOB_COUNT; k++)
        say(b->knobs, "%s=%s ", sb_knob_name((sb_knob)k),
            sb_knob_value_name(from->call->knobs->value[k]));
    sb_status status = b->status ? sb_fail(err, b->status, "out of memory for a bundle")
                                 : write_file(path, b, from, err);
    for (size_t i = 0; i < b->count; i++)
        free(b->parts[i].bytes);
    free(b);
    return status;
}
