/* explain_keep.c - the steps on which explanations are tried. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/compare/explain.h"

/* Earlier steps are dropped, and later ones are not kept, beyond so many rows. */
enum { KEEP_BYTES = 256 << 20, KEEP_ROWS = 48 };

static size_t values_bytes(const sb_step_values *values)
{
    size_t bytes = 0;
    for (size_t i = 0; i < values->count; i++)
        if (values->items[i].data)
            bytes += values->items[i].rows * values->items[i].cols * sizeof(float);
    return bytes;
}

static size_t step_bytes(const sb_step *step)
{
    size_t bytes = values_bytes(&step->taps);
    for (size_t i = 0; i < step->state_count; i++)
        bytes += values_bytes(&step->states[i].pieces);
    return bytes;
}

/* True if the full state of a sequence before this row is recorded. */
static int has_state(const sb_step *step, const sb_step_row *row)
{
    for (size_t i = 0; i < step->state_count; i++) {
        const sb_step_state *s = &step->states[i];
        size_t with_data = 0;
        if (s->sequence != row->sequence || s->position != row->position)
            continue;
        for (size_t k = 0; k < s->pieces.count; k++)
            with_data += s->pieces.items[k].data != NULL;
        return s->pieces.count && with_data == s->pieces.count;
    }
    return 0;
}

/* True if the step can be compared without the steps before it. */
static int is_complete(const sb_step *step)
{
    for (size_t i = 0; i < step->row_count; i++) {
        const sb_step_row *row = &step->rows[i];
        int first = i == 0 || step->rows[i - 1].sequence != row->sequence;
        if (row->kind == SB_CALL_draft || (first && row->position && !has_state(step, row)))
            return 0;
    }
    return step->row_count != 0;
}

/* Drops the first `n` steps. */
static void drop(sb_keep *keep, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        keep->rows -= keep->steps[i].row_count;
        keep->bytes -= step_bytes(&keep->steps[i]);
        sb_step_clear(&keep->steps[i]);
    }
    if (n)
        memmove(keep->steps, keep->steps + n, (keep->count - n) * sizeof *keep->steps);
    keep->count -= n;
    keep->from -= n < keep->from ? n : keep->from;
    keep->prior -= n < keep->prior ? n : keep->prior;
    keep->dropped += n;
}

void sb_keep_free(sb_keep *keep)
{
    drop(keep, keep->count);
    free(keep->steps);
    *keep = (sb_keep){0};
}

static int is_full(const sb_keep *keep, const sb_step *step)
{
    return keep->bytes + step_bytes(step) > KEEP_BYTES ||
           (!keep->whole && keep->rows + step->row_count > KEEP_ROWS);
}

/* Makes room before the failure: only the steps since the last complete one are needed, and those
 * that made the state with which it begins. */
static void make_room(sb_keep *keep, const sb_step *step)
{
    if (is_full(keep, step) && !keep->whole)
        drop(keep, keep->prior);
    if (keep->bytes + step_bytes(step) > KEEP_BYTES) {
        drop(keep, keep->count);
        keep->lost = 1;
    }
}

void sb_keep_failed(sb_keep *keep)
{
    if (keep->after)
        return;
    keep->after = 1;
    keep->failed = keep->count;
    keep->rows = 0;
}

sb_status sb_keep_step(sb_keep *keep, const sb_step *step, sb_error *err)
{
    if (!step->row_count && !step->state_count)
        return SB_OK;
    if (keep->after && (keep->more || is_full(keep, step))) {
        keep->more = 1;
        return SB_OK;
    }
    if (!keep->after && is_complete(step)) {
        keep->prior = keep->from;
        keep->from = keep->count;
        keep->lost = 0;
    }
    if (!keep->after)
        make_room(keep, step);
    if (keep->lost)
        return SB_OK;
    sb_step *steps = sb_grow(keep->steps, keep->count, &keep->room, sizeof *steps);
    if (!steps)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu steps", keep->count + 1);
    keep->steps = steps;
    if (!sb_step_copy(step, &keep->steps[keep->count++]))
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a copy of a step");
    keep->bytes += step_bytes(step);
    keep->rows += step->row_count;
    return SB_OK;
}

/* The number of rows that stay if all rows are of one sequence: up to the failed row, but at least
 * two, so that a call of several rows remains such a call. 0: all rows stay. */
static size_t rows_kept(const sb_step *step, uint64_t position)
{
    size_t kept = 0;
    for (size_t i = 0; i < step->row_count; i++) {
        if (step->rows[i].sequence != step->rows[0].sequence || step->rows[i].kind == SB_CALL_draft)
            return 0;
        if (step->rows[i].position == position)
            kept = i + 1;
    }
    return kept == 1 ? 2 : kept;
}

static void cut_values(sb_step *step, size_t kept)
{
    for (size_t i = 0; i < step->taps.count; i++) {
        sb_step_value *v = &step->taps.items[i];
        size_t gone = step->row_count - kept;
        if (strcmp(v->name, "logits") == 0 || strncmp(v->name, "top_", 4) == 0)
            continue;
        /* the last entries of the head belong to the last rows */
        v->rows = v->rows > gone ? v->rows - gone : 0;
        v->has_digest = 0;
    }
}

static void cut_logits(sb_step *step, size_t kept)
{
    size_t n = 0;
    if (step->logits_rows)
        while (n < step->logits_count && step->logits_rows[n] < kept)
            n++;
    else
        n = kept;
    for (size_t i = 0; i < step->taps.count; i++) {
        sb_step_value *v = &step->taps.items[i];
        if ((strcmp(v->name, "logits") == 0 || strncmp(v->name, "top_", 4) == 0) && v->rows > n)
            v->rows = n;
    }
    step->logits_count = step->logits_rows ? n : 0;
}

uint64_t sb_keep_end(const sb_keep *keep)
{
    for (size_t i = keep->count; i-- > 0;)
        if (keep->steps[i].row_count)
            return keep->steps[i].rows[keep->steps[i].row_count - 1].position;
    return 0;
}

int sb_keep_cut(const sb_step *step, uint64_t position, sb_step *out)
{
    size_t kept = rows_kept(step, position);
    *out = *step;
    if (!kept || kept >= step->row_count)
        return 1;
    out->taps.items = sb_alloc(step->taps.count + 1, sizeof *out->taps.items);
    if (!out->taps.items)
        return 0;
    memcpy(out->taps.items, step->taps.items, step->taps.count * sizeof *out->taps.items);
    cut_values(out, kept);
    cut_logits(out, kept);
    out->row_count = kept;
    out->round_count = 0;
    return 1;
}
