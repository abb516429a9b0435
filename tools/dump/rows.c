/* rows.c - the tap of each array, its type, and its row axes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/show.h"
#include "tools/dump/rows_parts.h"

/* --- names ------------------------------------------------------------------------------------ */

/* J-2: "says what the bits of an array are" */
static sb_status dtype_of(sb_dump_item *item, sb_error *err)
{
    const sb_dump_array *a = item->array;
    item->dtype = a->dtype;
    if (!item->named.has_dtype)
        return SB_OK;
    if (sb_dtype_bits(a->dtype) != sb_dtype_bits(item->named.dtype) ||
        (a->dtype != item->named.dtype && !sb_dump_is_integer(a->dtype)))
        return sb_fail(err, SB_ERR_INPUT, "%s: \"%s\" is %s, but the map says %s", SB_SHOW(a->file),
                       SB_SHOW(a->name), sb_dtype_name(a->dtype), sb_dtype_name(item->named.dtype));
    item->dtype = item->named.dtype;
    return SB_OK;
}

static sb_status check_dtype(const sb_dump_item *item, sb_error *err)
{
    const sb_dump_array *a = item->array;
    int of_bits = a->dtype == SB_DTYPE_U16 || a->dtype == SB_DTYPE_U8;
    if (item->is_ids ? sb_dump_is_integer(item->dtype) : sb_dump_is_number(item->dtype))
        return SB_OK;
    return sb_fail(err, SB_ERR_INPUT, "%s: \"%s\" is %s, expected %s%s", SB_SHOW(a->file),
                   SB_SHOW(a->name), sb_dtype_name(item->dtype),
                   item->is_ids ? "integers" : "F64, F32, F16, BF16, F8_E4M3 or F8_E5M2",
                   of_bits && !item->is_ids ? "; --map can declare the type of its bits" : "");
}

static sb_status name_item(const sb_dump_rows *r, sb_dump_item *item, sb_error *err)
{
    sb_status status = sb_dump_map_find(r->map, item->array->name, &item->named, err);
    if (!status)
        status = dtype_of(item, err);
    if (status || item->named.kind == SB_DUMP_UNKNOWN || item->named.kind == SB_DUMP_LEFT_OUT)
        return status;
    if (item->named.kind == SB_DUMP_TAP) {
        const char *tap = item->named.tap;
        sb_tap_find(tap, &item->tap);
        item->is_logits = sb_tap_is_of_logits(tap);
        item->is_ids = sb_tap_is_ids(tap);
    } else {
        item->is_ids = 1;
    }
    return check_dtype(item, err);
}

static int by_call(const void *left, const void *right)
{
    const sb_dump_item *a = left, *b = right;
    if (a->array->call != b->array->call)
        return a->array->call < b->array->call ? -1 : 1;
    return a->array < b->array ? -1 : a->array > b->array;
}

static sb_status name_items(sb_dump_rows *r, const sb_dump_arrays *arrays, sb_error *err)
{
    sb_status status = SB_OK;
    size_t taps = 0;
    r->items = sb_alloc(arrays->count, sizeof *r->items);
    if (!r->items)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(r->file));
    for (size_t i = 0; i < arrays->count && !status; i++) {
        r->items[i].array = &arrays->items[i];
        status = name_item(r, &r->items[i], err);
        taps += r->items[i].named.kind == SB_DUMP_TAP;
    }
    r->item_count = arrays->count;
    if (!status && arrays->count == 0)
        status = sb_fail(err, SB_ERR_INPUT, "%s: has no array", SB_SHOW(r->file));
    if (!status && taps == 0)
        status = sb_fail(err, SB_ERR_INPUT,
                         "%s: none of its %zu arrays has the name of a tap, its own or by --map; "
                         "the first is \"%s\"%s",
                         SB_SHOW(r->file), arrays->count, SB_SHOW(arrays->items[0].name),
                         sb_ends(arrays->items[0].name, ".weight")
                             ? ": are these weights of a checkpoint instead of values of a run?"
                             : "");
    if (!status)
        qsort(r->items, r->item_count, sizeof *r->items, by_call);
    return status;
}

/* --- shapes ----------------------------------------------------------------------------------- */

/* J-12: the number of row axes: 1, or 2 if the first axis is sequences of equal length. */
static unsigned row_axes(const sb_dump_array *a, size_t spans, uint64_t each, uint64_t all)
{
    if (a->rank > 0 && a->shape[0] == all)
        return 1;
    return a->rank > 1 && each && a->shape[0] == spans && a->shape[1] == each ? 2 : 0;
}

static sb_status find_axis(const sb_dump_call *c, sb_dump_item *item, unsigned *axes, sb_error *err)
{
    const sb_dump_array *a = item->array;
    int head = item->tap.is_head;
    uint64_t each = head && c->each && c->entries < c->rows ? c->each - 1 : c->each;
    sb_dump_shape shown;
    item->axis = head ? SB_DUMP_OF_ENTRIES : SB_DUMP_OF_ROWS;
    *axes = row_axes(a, c->span_count, each, head ? c->entries : c->rows);
    if (*axes)
        return SB_OK;
    item->axis = SB_DUMP_OF_LAST;
    *axes = a->rank > 0 && a->shape[0] == c->span_count;
    if (item->is_logits && (*axes || (a->rank == 1 && c->span_count == 1)))
        return SB_OK;
    return sb_fail(err, SB_ERR_INPUT,
                   "%s: \"%s\" has the shape %s, expected %zu on axis 0: one for each %s%s",
                   SB_SHOW(a->file), SB_SHOW(a->name), sb_dump_shape_show(a, &shown),
                   head ? c->entries : c->rows, head ? "entry of the MTP head" : "token",
                   item->is_logits ? ", or for the last of each sequence" : "");
}

static sb_status check_columns(sb_dump_rows *r, sb_dump_item *item, unsigned axes,
                               sb_trace_head *head, sb_error *err)
{
    const sb_dump_array *a = item->array;
    uint64_t cols = 1;
    int whole = strcmp(item->named.tap, "logits") == 0 ||
                strcmp(item->named.tap, "logprobs") == 0 || item->tap.where == SB_TAP_draft;
    for (unsigned k = axes; k < a->rank; k++)
        cols *= a->shape[k];
    if (cols == 0 || cols > SB_DUMP_STEP_BYTES)
        return sb_fail(err, SB_ERR_INPUT, "%s: \"%s\" has %" PRIu64 " columns, zero or too many",
                       SB_SHOW(a->file), SB_SHOW(a->name), cols);
    item->cols = (size_t)cols;
    if (whole && r->vocab_size == 0)
        head->vocab_size = r->vocab_size = (uint32_t)cols;
    if (whole && cols != r->vocab_size)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: \"%s\" has %" PRIu64 " columns, expected vocab_size %u",
                       SB_SHOW(a->file), SB_SHOW(a->name), cols, (unsigned)r->vocab_size);
    return SB_OK;
}

/* Refuses duplicate names in a call, and arrays of logits with different rows. */
static sb_status check_alone(const sb_dump_call *c, const sb_dump_item *item, sb_error *err)
{
    for (const sb_dump_item *other = c->items; other < item; other++) {
        int both = item->is_logits && other->is_logits && item->axis != other->axis;
        if (other->named.kind != SB_DUMP_TAP)
            continue;
        if (both || strcmp(other->named.tap, item->named.tap) == 0)
            return sb_fail(err, SB_ERR_INPUT, "%s: \"%s\" and \"%s\" are %s",
                           SB_SHOW(item->array->file), SB_SHOW(other->array->name),
                           SB_SHOW(item->array->name),
                           both ? "from different rows" : "the same tap of one call");
    }
    return SB_OK;
}

static sb_status shape_items(sb_dump_rows *r, sb_trace_head *head, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < r->call_count && !status; i++) {
        const sb_dump_call *c = &r->calls[i];
        sb_dump_item *items = &r->items[c->items - r->items];
        for (size_t k = 0; k < c->item_count && !status; k++) {
            unsigned axes = 0;
            if (items[k].named.kind != SB_DUMP_TAP)
                continue;
            status = find_axis(c, &items[k], &axes, err);
            if (!status)
                status = check_columns(r, &items[k], axes, head, err);
            if (!status)
                status = check_alone(c, &items[k], err);
        }
    }
    return status;
}

/* J-13: "an id below vocab_size" */
static sb_status check_ids(const sb_dump_rows *r, sb_error *err)
{
    for (size_t i = 0; i < r->id_count && r->vocab_size; i++)
        if (r->ids[i] >= r->vocab_size)
            return sb_fail(err, SB_ERR_INPUT,
                           "%s: token %zu has the id %u, expected an id below vocab_size %u",
                           SB_SHOW(r->file), i, (unsigned)r->ids[i], (unsigned)r->vocab_size);
    return SB_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

sb_status sb_dump_rows_new(const sb_dump_arrays *arrays, const char *file,
                           const sb_dump_options *options, sb_trace_head *head, sb_dump_rows **out,
                           sb_error *err)
{
    sb_dump_rows *r = sb_alloc(1, sizeof *r);
    if (!r)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(file));
    *r = (sb_dump_rows){.file = file, .options = options, .vocab_size = options->vocab_size};
    sb_status status = sb_dump_map_open(options->map, &r->map, err);
    if (!status)
        status = name_items(r, arrays, err);
    if (!status)
        status = sb_dump_rows_calls(r, err);
    if (!status)
        status = shape_items(r, head, err);
    if (!status)
        status = check_ids(r, err);
    if (status)
        sb_dump_rows_free(r);
    else
        *out = r;
    return status;
}

void sb_dump_rows_free(sb_dump_rows *r)
{
    if (!r)
        return;
    sb_dump_map_free(r->map);
    free(r->items);
    free(r->calls);
    free(r->spans);
    free(r->ids);
    free(r);
}
