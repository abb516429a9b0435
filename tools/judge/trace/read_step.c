/* read_step.c - reads the file of a step: its arrays, their rows, and whether they match their
 * digests. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/digest.h"
#include "ref/container/safetensors.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "tools/judge/trace/names.h"
#include "tools/judge/trace/reader.h"

typedef struct reader {
    const sb_trace *trace;
    const char *file;
    const sb_safetensors *in;
    sb_step *out;
    sb_error *err;
} reader;

/* --- places of arrays ------------------------------------------------------------------------- */

static sb_step_state *state_of(const sb_step *step, uint32_t sequence)
{
    for (size_t i = 0; i < step->state_count; i++)
        if (step->states[i].sequence == sequence)
            return &step->states[i];
    return NULL;
}

/* Finds the list for an array of this name, and its name there; *out NULL: no comparison reads it.
 */
static sb_status place_of(const reader *r, const char *name, sb_step_values **out,
                          const char **within, sb_tap_name *tap)
{
    uint32_t sequence = 0;
    *out = NULL;
    *within = name;
    *tap = (sb_tap_name){.name = NULL};
    if (sb_state_piece_name(name, &sequence, within)) {
        sb_step_state *state = state_of(r->out, sequence);
        if (!state)
            return sb_fail(r->err, SB_ERR_INPUT,
                           "%s: \"%s\": step %" PRIu64 " lists no state of sequence %u",
                           SB_SHOW(r->file), SB_SHOW(name), r->out->number, (unsigned)sequence);
        *out = &state->pieces;
    } else if (sb_tap_find(name, tap)) {
        *out = &r->out->taps;
    }
    return SB_OK;
}

/* U-5: "axis 0 is the rows of the step, in their order" */
static size_t rows_of(const reader *r, const sb_tap_name *tap, size_t rows)
{
    if (sb_tap_is_of_logits(tap->name))
        return r->out->logits_rows ? r->out->logits_count : r->out->row_count;
    return (tap->is_head || tap->is_drafter) && rows < r->out->row_count ? rows : r->out->row_count;
}

static sb_status check_rows(const reader *r, const char *name, const sb_tap_name *tap, size_t rows)
{
    size_t expected = tap->name ? rows_of(r, tap, rows) : rows;
    if (rows == expected)
        return SB_OK;
    return sb_fail(r->err, SB_ERR_INPUT,
                   "%s: \"%s\" has %zu rows, expected %zu: the number of rows of step %" PRIu64
                   "%s",
                   SB_SHOW(r->file), SB_SHOW(name), rows, expected, r->out->number,
                   expected == r->out->row_count ? "" : " listed in logits_rows");
}

/* --- tensors ---------------------------------------------------------------------------------- */

static int is_number(sb_dtype dtype)
{
    return dtype == SB_DTYPE_F32 || dtype == SB_DTYPE_BF16 || dtype == SB_DTYPE_F16;
}

static int is_id(sb_dtype dtype)
{
    return dtype == SB_DTYPE_I32 || dtype == SB_DTYPE_U32 || dtype == SB_DTYPE_I64;
}

static uint64_t load_id(const sb_tensor *t, size_t i)
{
    return t->dtype == SB_DTYPE_I64 ? sb_load_u64(t->data + 8 * i) : sb_load_u32(t->data + 4 * i);
}

/* U-7: "Numbers are F32, BF16 or F16, whatever the engine has at that point" */
static sb_status check_dtype(const reader *r, const sb_tensor *t, int ids)
{
    if (ids ? is_id(t->dtype) : is_number(t->dtype))
        return SB_OK;
    return sb_fail(r->err, SB_ERR_INPUT, "%s: \"%s\" is %s, expected %s", SB_SHOW(r->file),
                   SB_SHOW(t->name), sb_dtype_name(t->dtype),
                   ids ? "I32, U32 or I64" : "F32, BF16 or F16");
}

/* Negative ids become large ids. */
static sb_status read_id_values(const reader *r, const sb_tensor *t, size_t cols, float *out)
{
    size_t count = (size_t)(t->bytes / (sb_dtype_bits(t->dtype) / 8));
    for (size_t i = 0; i < count; i++) {
        uint64_t id = load_id(t, i);
        if (id >= SB_TRACE_MAX_VOCAB)
            return sb_fail(r->err, SB_ERR_INPUT,
                           "%s: \"%s\": row %zu, column %zu is %" PRId64
                           ", expected an id from 0 to 2^24 - 1",
                           SB_SHOW(r->file), SB_SHOW(t->name), i / cols, i % cols,
                           t->dtype == SB_DTYPE_I64 ? (int64_t)id : (int64_t)(int32_t)id);
        out[i] = (float)id;
    }
    return SB_OK;
}

/* Rows and columns are axis 0 and the product of the other axes. A vector has one column; in a
 * state it has one row. */
static sb_status shape_of(const reader *r, const sb_tensor *t, int is_state, size_t *rows,
                          size_t *cols)
{
    *rows = t->rank && !(is_state && t->rank == 1) ? (size_t)t->shape[0] : 1;
    if (t->rank == 0)
        return sb_fail(r->err, SB_ERR_INPUT, "%s: \"%s\" is a scalar, expected an axis of rows",
                       SB_SHOW(r->file), SB_SHOW(t->name));
    *cols = (size_t)(t->bytes / (sb_dtype_bits(t->dtype) / 8)) / *rows;
    return SB_OK;
}

/* The value of this name: the one that a digest announced, or a new one. */
static sb_status value_for(const reader *r, sb_step_values *list, const char *name,
                           const char *within, size_t rows, size_t cols, sb_step_value **out)
{
    sb_step_value *v = (sb_step_value *)sb_step_find(list, within);
    if (v && (v->rows != rows || v->cols != cols))
        return sb_fail(r->err, SB_ERR_INPUT,
                       "%s: \"%s\" has %zu rows and %zu columns, but its digest is of %zu rows and "
                       "%zu columns",
                       SB_SHOW(r->file), SB_SHOW(name), rows, cols, v->rows, v->cols);
    if (!v)
        v = sb_step_add(list, within, rows, cols, 0);
    if (v)
        v->data = sb_alloc(rows * cols, sizeof *v->data);
    *out = v;
    return v && v->data ? SB_OK
                        : sb_fail(r->err, SB_ERR_MEMORY, "%s: out of memory for \"%s\"",
                                  SB_SHOW(r->file), SB_SHOW(name));
}

/* U-8: "over the values in binary32, whatever the dtype of the tensor" */
static sb_status check_digest(const reader *r, const char *name, const sb_step_value *v)
{
    sb_digest found = sb_digest_f32(v->data, v->rows * v->cols);
    if (!v->has_digest || strcmp(found.hex, v->digest.hex) == 0)
        return SB_OK;
    return sb_fail(
        r->err, SB_ERR_INPUT,
        "%s: \"%s\": its digest is %s, and its values give %s: one of the two was changed",
        SB_SHOW(r->file), SB_SHOW(name), v->digest.hex, found.hex);
}

static sb_status check_vocabulary(const reader *r, const sb_tap_name *tap, const sb_tensor *t,
                                  size_t cols)
{
    int whole = tap->name && (strcmp(tap->name, "logits") == 0 ||
                              strcmp(tap->name, "logprobs") == 0 || tap->where == SB_TAP_draft);
    if (!whole || cols == r->trace->head.vocab_size)
        return SB_OK;
    return sb_fail(r->err, SB_ERR_INPUT, "%s: \"%s\" has %zu columns, expected vocab_size %u",
                   SB_SHOW(r->file), SB_SHOW(t->name), cols, (unsigned)r->trace->head.vocab_size);
}

static sb_status read_array(const reader *r, const sb_tensor *t)
{
    sb_step_values *list;
    sb_step_value *v = NULL;
    const char *within;
    sb_tap_name tap;
    size_t rows = 0, cols = 0;
    sb_status status = place_of(r, t->name, &list, &within, &tap);
    if (!status && !list && r->out->unknown++ == 0)
        snprintf(r->out->first_unknown, sizeof r->out->first_unknown, "%s", t->name);
    if (status || !list)
        return status;
    int ids = sb_tap_is_ids(t->name);
    status = check_dtype(r, t, ids);
    if (!status)
        status = shape_of(r, t, !tap.name, &rows, &cols);
    if (!status)
        status = check_rows(r, t->name, &tap, rows);
    if (!status)
        status = check_vocabulary(r, &tap, t, cols);
    if (!status)
        status = value_for(r, list, t->name, within, rows, cols, &v);
    if (status)
        return status;
    if (ids)
        status = read_id_values(r, t, cols, v->data);
    else
        sb_decode(t->dtype == SB_DTYPE_F32    ? SB_FORMAT_f32
                  : t->dtype == SB_DTYPE_BF16 ? SB_FORMAT_bf16
                                              : SB_FORMAT_f16,
                  t->data, rows * cols, v->data);
    return status ? status : check_digest(r, t->name, v);
}

/* Checks the tensors that repeat fields of trace.json. */
static sb_status check_repeated(const reader *r, const sb_tensor *t)
{
    int is_step = strcmp(t->name, SB_TRACE_STEP) == 0;
    size_t expected = is_step ? 1 : r->out->row_count;
    sb_status status = check_dtype(r, t, 1);
    if (status)
        return status;
    if (t->rank != 1 || t->shape[0] != expected)
        return sb_fail(r->err, SB_ERR_INPUT, "%s: \"%s\" has another shape, expected [%zu]",
                       SB_SHOW(r->file), t->name, expected);
    for (size_t i = 0; i < expected; i++) {
        uint64_t want = is_step ? r->out->number : r->out->rows[i].token, found = load_id(t, i);
        if (found != want)
            return sb_fail(r->err, SB_ERR_INPUT,
                           "%s: \"%s\" has %" PRIu64 " at %zu, expected %" PRIu64
                           ", the value for step %" PRIu64 " in trace.json",
                           SB_SHOW(r->file), t->name, found, i, want, r->out->number);
    }
    return SB_OK;
}

/* --- digests ---------------------------------------------------------------------------------- */

static int read_size(const json_t *value, size_t *out)
{
    json_int_t n = json_is_integer(value) ? json_integer_value(value) : 0;
    *out = (size_t)n;
    return n > 0 && n <= (json_int_t)1 << 40;
}

static sb_status read_digest(const reader *r, const char *name, const json_t *entry)
{
    sb_step_values *list;
    const char *within, *hex = json_string_value(json_array_get(entry, 2));
    sb_tap_name tap;
    size_t rows = 0, cols = 0;
    sb_status status = place_of(r, name, &list, &within, &tap);
    if (status || !list)
        return status;
    if (json_array_size(entry) != 3 || !read_size(json_array_get(entry, 0), &rows) ||
        !read_size(json_array_get(entry, 1), &cols) || !hex || strlen(hex) != 32 ||
        strspn(hex, "0123456789abcdef") != 32)
        return sb_fail(r->err, SB_ERR_INPUT,
                       "%s: " SB_TRACE_DIGESTS
                       ": \"%s\" is not a list of rows, columns and 32 hexadecimal digits",
                       SB_SHOW(r->file), SB_SHOW(name));
    status = check_rows(r, name, &tap, rows);
    if (status)
        return status;
    sb_step_value *v = sb_step_add(list, within, rows, cols, 0);
    if (!v)
        return sb_fail(r->err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(r->file));
    memcpy(v->digest.hex, hex, sizeof v->digest.hex);
    v->has_digest = 1;
    return SB_OK;
}

static sb_status read_digests(const reader *r)
{
    const char *text = sb_metadata_get(&r->in->metadata, SB_TRACE_DIGESTS), *name;
    json_t *root = NULL, *value;
    if (!text)
        return SB_OK;
    sb_status status = sb_json_parse_rich(text, strlen(text), r->file, &root, r->err);
    if (!status && !json_is_object(root))
        status = sb_fail(r->err, SB_ERR_INPUT, "%s: " SB_TRACE_DIGESTS " is not an object",
                         SB_SHOW(r->file));
    if (!status)
        json_object_foreach(root, name, value)
        {
            status = read_digest(r, name, value);
            if (status)
                break;
        }
    json_decref(root);
    return status;
}

sb_status sb_trace_read_arrays(const sb_trace *trace, size_t i, const unsigned char *bytes,
                               size_t size, const char *file, sb_step *out, sb_error *err)
{
    sb_safetensors in;
    sb_status status = sb_safetensors_parse(bytes, size, file, &in, err);
    if (status)
        return status;
    reader r = {trace, file, &in, out, err};
    if (in.count != trace->tensors[i])
        status = sb_fail(err, SB_ERR_INPUT,
                         "%s: has %zu tensors, expected %" PRIu64 ", the number in trace.json",
                         SB_SHOW(file), in.count, trace->tensors[i]);
    if (!status)
        status = read_digests(&r);
    for (size_t k = 0; k < in.count && !status; k++) {
        const sb_tensor *t = &in.tensors[k];
        int repeated = strcmp(t->name, SB_TRACE_STEP) == 0 || strcmp(t->name, SB_TRACE_TOKENS) == 0;
        status = repeated ? check_repeated(&r, t) : read_array(&r, t);
    }
    sb_safetensors_close(&in);
    return status;
}
