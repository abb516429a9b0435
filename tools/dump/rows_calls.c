/* rows_calls.c - the rows of each call: their sequences, positions and token ids. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/dump/rows_parts.h"

/* --- calls ------------------------------------------------------------------------------------ */

static sb_status take_once(const sb_dump_item **slot, const sb_dump_item *item, sb_error *err)
{
    if (*slot)
        return sb_fail(err, SB_ERR_INPUT, "%s: \"%s\" and \"%s\" are the same values of one call",
                       SB_SHOW(item->array->file), SB_SHOW((*slot)->array->name),
                       SB_SHOW(item->array->name));
    *slot = item;
    return SB_OK;
}

static sb_status add_item(sb_dump_call *c, const sb_dump_item *item, sb_error *err)
{
    if (c->item_count++ == 0)
        c->items = item;
    if (item->named.kind == SB_DUMP_UNKNOWN && c->unknown++ == 0)
        c->first_unknown = item->array->name;
    if (item->named.kind == SB_DUMP_TOKENS)
        return take_once(&c->tokens, item, err);
    return item->named.kind == SB_DUMP_POSITIONS ? take_once(&c->positions, item, err) : SB_OK;
}

/* The number of rows of a call, from the first array whose tap has all rows. In an array with more
 * than two axes, a first axis of length one is a batch. */
static uint64_t rows_told(const sb_dump_call *c)
{
    uint64_t told = 0;
    for (unsigned rank = 2; rank <= SB_MAX_RANK + 1 && !told; rank++)
        for (size_t i = 0; i < c->item_count && !told; i++) {
            const sb_dump_array *a = c->items[i].array;
            int is_tap = c->items[i].named.kind == SB_DUMP_TAP && !c->items[i].tap.is_head;
            if (!is_tap || a->rank == 0 || (rank <= SB_MAX_RANK && c->items[i].is_logits) ||
                a->rank > rank)
                continue;
            told = a->rank > 2 && a->shape[0] == 1 ? a->shape[1] : a->shape[0];
        }
    return told;
}

/* --- spans ------------------------------------------------------------------------------------ */

/* The total number of ids on the command line. */
static size_t ids_given(const sb_dump_options *o)
{
    size_t n = 0;
    for (size_t i = 0; i < o->sequence_count; i++)
        n += o->id_count[i];
    return n;
}

/* J-13: a single call has the sequences of the command line, or those of its token ids. Several
 * calls continue one sequence. */
static sb_status shape_call(const sb_dump_rows *r, sb_dump_call *c, sb_error *err)
{
    const sb_dump_options *o = r->options;
    const sb_dump_array *t = c->tokens ? c->tokens->array : NULL;
    int alone = r->call_count == 1;
    uint64_t rows = t                            ? sb_dump_array_elements(t)
                    : alone && o->sequence_count ? ids_given(o)
                                                 : rows_told(c);
    sb_dump_shape shown;
    if (!t && o->sequence_count == 0)
        return sb_fail(err, SB_ERR_USAGE,
                       "%s: contains no token ids: expected --tokens or --tokens-file",
                       SB_SHOW(r->file));
    if (t && (t->rank == 0 || t->rank > 2 || (t->rank == 2 && t->shape[0] > 1 && !alone)))
        return sb_fail(err, SB_ERR_INPUT, "%s: \"%s\" has the shape %s, expected one id per row",
                       SB_SHOW(t->file), SB_SHOW(t->name), sb_dump_shape_show(t, &shown));
    if (rows == 0 || rows > SB_POSITION_LIMIT)
        return sb_fail(err, SB_ERR_INPUT, "%s: a call has no rows, or too many", SB_SHOW(r->file));
    c->rows = (size_t)rows;
    c->span_count = 1;
    if (alone && o->sequence_count)
        c->span_count = o->sequence_count;
    else if (alone && t && t->rank == 2)
        c->span_count = (size_t)t->shape[0];
    return SB_OK;
}

/* Makes the spans of a call; the first one begins at `position`. */
static void fill_spans(const sb_dump_rows *r, sb_dump_call *c, sb_dump_span *spans,
                       uint64_t position, const uint32_t *ids)
{
    const sb_dump_options *o = r->options;
    size_t row = 0;
    c->spans = spans;
    c->each = c->rows / c->span_count;
    for (size_t i = 0; i < c->span_count; i++) {
        size_t n = c->rows / c->span_count;
        if (r->call_count == 1 && o->sequence_count)
            n = o->id_count[i];
        spans[i] = (sb_dump_span){(uint32_t)i, position, row, c->entries, n, ids + row};
        c->entries += n - (position == 0 && n > 0);
        if (n != c->each || c->rows % c->span_count)
            c->each = 0;
        row += n;
    }
}

/* --- token ids -------------------------------------------------------------------------------- */

static void flatten(const sb_dump_options *o, uint32_t *out)
{
    for (size_t i = 0; i < o->sequence_count; i++)
        for (size_t k = 0; k < o->id_count[i]; k++)
            *out++ = o->ids[i][k];
}

/* Reads the ids of a call from its array; they must agree with given ones in r->ids (J-1). */
static sb_status read_ids(const sb_dump_rows *r, const sb_dump_call *c, size_t first, sb_error *err)
{
    const sb_dump_array *t = c->tokens ? c->tokens->array : NULL;
    for (size_t i = 0; t && i < c->rows; i++) {
        unsigned char bytes[8];
        int negative = 0;
        sb_dump_gather(t, i, 1, bytes);
        uint64_t id = sb_dump_integer(t->dtype, bytes, &negative);
        if (negative || id >= UINT32_MAX)
            return sb_fail(err, SB_ERR_INPUT, "%s: \"%s\": element %zu is not a token id",
                           SB_SHOW(t->file), SB_SHOW(t->name), i);
        if (r->options->sequence_count && id != r->ids[first + i])
            return sb_fail(err, SB_ERR_INPUT,
                           "%s: \"%s\": element %zu is %" PRIu64 ", but the given token is %u",
                           SB_SHOW(t->file), SB_SHOW(t->name), i, id, (unsigned)r->ids[first + i]);
        r->ids[first + i] = (uint32_t)id;
    }
    return SB_OK;
}

/* J-13: "where a file has positions they must agree with that" */
static sb_status check_positions(const sb_dump_call *c, sb_error *err)
{
    if (!c->positions)
        return SB_OK;
    const sb_dump_array *a = c->positions->array;
    sb_dump_shape shown;
    if (sb_dump_array_elements(a) != c->rows)
        return sb_fail(err, SB_ERR_INPUT, "%s: \"%s\" has the shape %s, expected one of %zu rows",
                       SB_SHOW(a->file), SB_SHOW(a->name), sb_dump_shape_show(a, &shown), c->rows);
    for (size_t s = 0; s < c->span_count; s++)
        for (size_t i = 0; i < c->spans[s].count; i++) {
            unsigned char bytes[8];
            int negative = 0;
            uint64_t expected = c->spans[s].position + i;
            sb_dump_gather(a, c->spans[s].row + i, 1, bytes);
            uint64_t found = sb_dump_integer(a->dtype, bytes, &negative);
            if (negative || found != expected)
                return sb_fail(err, SB_ERR_INPUT,
                               "%s: \"%s\": row %zu is not at position %" PRIu64
                               ": the rows belong to several requests, or a call is missing",
                               SB_SHOW(a->file), SB_SHOW(a->name), c->spans[s].row + i, expected);
        }
    return SB_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

static sb_status make_calls(sb_dump_rows *r, sb_error *err)
{
    sb_status status = SB_OK;
    r->call_count = r->items[r->item_count - 1].array->call + 1;
    r->calls = sb_alloc(r->call_count, sizeof *r->calls);
    if (!r->calls)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(r->file));
    for (size_t i = 0; i < r->item_count && !status; i++)
        status = add_item(&r->calls[r->items[i].array->call], &r->items[i], err);
    if (!status && r->call_count > 1 && r->options->sequence_count > 1)
        status = sb_fail(err, SB_ERR_USAGE,
                         "%s: has %zu calls, all of one sequence, but %zu sequences are given",
                         SB_SHOW(r->file), r->call_count, r->options->sequence_count);
    for (size_t i = 0; i < r->call_count && !status; i++) {
        status = shape_call(r, &r->calls[i], err);
        r->span_count += r->calls[i].span_count;
        r->id_count += r->calls[i].rows;
    }
    return status;
}

static sb_status check_count(const sb_dump_rows *r, sb_error *err)
{
    size_t given = ids_given(r->options);
    if (r->options->sequence_count == 0 || given == r->id_count)
        return SB_OK;
    return sb_fail(err, SB_ERR_INPUT,
                   "%s: has %zu rows, but %zu token ids are given: expected the fed tokens, "
                   "without a last token that was only generated",
                   SB_SHOW(r->file), r->id_count, given);
}

sb_status sb_dump_rows_calls(sb_dump_rows *r, sb_error *err)
{
    sb_status status = make_calls(r, err);
    if (!status)
        status = check_count(r, err);
    if (status)
        return status;
    r->spans = sb_alloc(r->span_count, sizeof *r->spans);
    r->ids = sb_alloc(r->id_count, sizeof *r->ids);
    if (!r->spans || !r->ids)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(r->file));
    size_t first = 0, span = 0;
    flatten(r->options, r->ids);
    for (size_t i = 0; i < r->call_count && !status; i++) {
        sb_dump_call *c = &r->calls[i];
        fill_spans(r, c, r->spans + span, r->call_count > 1 ? first : 0, r->ids + first);
        status = read_ids(r, c, first, err);
        if (!status)
            status = check_positions(c, err);
        first += c->rows;
        span += c->span_count;
    }
    return status;
}
