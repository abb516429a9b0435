/* rows_play.c - the steps: a slice of the rows of one sequence at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/dump/logprobs.h"
#include "tools/dump/rows_parts.h"

/* A slice: rows [from, to) of a span. */
typedef struct slice {
    const sb_dump_call *call;
    const sb_dump_span *span;
    size_t from, to;
} slice;

/* The rows of an item that belong to a slice. */
static void part_of(const sb_dump_item *item, const slice *s, size_t *first, size_t *count)
{
    size_t lost = s->span->position == 0; /* the first row of a sequence adds no entry */
    switch (item->axis) {
    case SB_DUMP_OF_ROWS:
        *first = s->span->row + s->from;
        *count = s->to - s->from;
        break;
    case SB_DUMP_OF_ENTRIES:
        *first = s->span->entry + (s->from ? s->from - lost : 0);
        *count = s->to - lost - (s->from ? s->from - lost : 0);
        break;
    case SB_DUMP_OF_LAST:
        *first = (size_t)(s->span - s->call->spans);
        *count = s->to == s->span->count;
        break;
    }
}

static sb_status read_values(const sb_dump_item *item, size_t first, sb_step_value *v,
                             sb_error *err)
{
    size_t size = sb_dtype_bits(item->dtype) / 8;
    unsigned char *bytes = sb_alloc(item->cols, size);
    sb_status status = bytes ? SB_OK : SB_ERR_MEMORY;
    if (status)
        sb_fail(err, status, "%s: out of memory", SB_SHOW(item->array->file));
    for (size_t row = 0; row < v->rows && !status; row++) {
        uint64_t at = (uint64_t)(first + row) * item->cols;
        const unsigned char *found = sb_dump_in_place(item->array, at);
        if (!found)
            sb_dump_gather(item->array, at, item->cols, bytes);
        long long bad = sb_dump_decode(item->dtype, found ? found : bytes, item->cols,
                                       v->data + row * item->cols);
        if (bad >= 0)
            status = sb_fail(err, SB_ERR_INPUT, "%s: \"%s\": row %zu, column %lld is not %s",
                             SB_SHOW(item->array->file), SB_SHOW(item->array->name), first + row,
                             bad, item->is_ids ? "an id below 2^24" : "a binary32 number");
    }
    free(bytes);
    return status;
}

/* J-12: "of the last row of each sequence" */
static sb_status only_last(const slice *s, sb_step *step, sb_error *err)
{
    if (step->logits_rows)
        return SB_OK;
    step->logits_rows = sb_alloc(1, sizeof *step->logits_rows);
    if (!step->logits_rows)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a step");
    step->logits_rows[0] = s->to - s->from - 1;
    step->logits_count = s->to == s->span->count;
    return SB_OK;
}

static sb_status add_item(const sb_dump_item *item, const slice *s, sb_step *step, sb_error *err)
{
    size_t first = 0, count = 0;
    part_of(item, s, &first, &count);
    sb_status status = item->axis == SB_DUMP_OF_LAST ? only_last(s, step, err) : SB_OK;
    if (status || count == 0)
        return status;
    sb_step_value *v = sb_step_add(&step->taps, item->named.tap, count, item->cols, 1);
    if (!v)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for \"%s\"",
                       SB_SHOW(item->array->file), SB_SHOW(item->array->name));
    return read_values(item, first, v, err);
}

/* A name from a file, for reports: question marks replace all that is not ASCII. */
static void copy_plain(char *out, size_t room, const char *name)
{
    size_t n = 0;
    for (; name[n] && n + 1 < room; n++)
        out[n] = name[n] >= ' ' && name[n] <= '~' ? name[n] : '?';
    out[n] = '\0';
}

static sb_status play_slice(const slice *s, sb_step_fn take, void *ctx, sb_error *err)
{
    sb_step step;
    sb_status status =
        sb_step_of_ids(s->span->sequence, s->span->position + s->from, s->span->ids + s->from,
                       s->to - s->from, SB_CALL_prompt, &step, err);
    if (status)
        return status;
    if (s->span == s->call->spans && s->from == 0) { /* once per call */
        step.unknown = s->call->unknown;
        if (s->call->first_unknown)
            copy_plain(step.first_unknown, sizeof step.first_unknown, s->call->first_unknown);
    }
    /* a later call of one row feeds a generated token */
    if (s->span->position > 0 && s->span->count == 1)
        step.rows[0].kind = SB_CALL_decode;
    for (size_t i = 0; i < s->call->item_count && !status; i++)
        if (s->call->items[i].named.kind == SB_DUMP_TAP)
            status = add_item(&s->call->items[i], s, &step, err);
    if (!status)
        status = take(ctx, &step, err);
    sb_step_clear(&step);
    return status;
}

/* The most rows of a call in one step. */
static size_t rows_at_once(const sb_dump_call *c)
{
    size_t width = 0;
    for (size_t i = 0; i < c->item_count; i++)
        if (c->items[i].named.kind == SB_DUMP_TAP && c->items[i].axis != SB_DUMP_OF_LAST)
            width += c->items[i].cols;
    return sb_dump_rows_of_step(width);
}

sb_status sb_dump_rows_play(const sb_dump_rows *r, sb_step_fn take, void *ctx, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < r->call_count; i++) {
        const sb_dump_call *c = &r->calls[i];
        size_t most = rows_at_once(c);
        for (size_t k = 0; k < c->span_count; k++)
            for (size_t from = 0, n = 0; from < c->spans[k].count && !status; from += n) {
                n = sb_dump_next_rows(c->spans[k].count - from, most);
                slice s = {c, &c->spans[k], from, from + n};
                status = play_slice(&s, take, ctx, err);
            }
    }
    return status;
}
