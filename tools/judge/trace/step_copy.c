/* step_copy.c - a copy of a whole step. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/trace/step.h"

static void *copy(const void *from, size_t count, size_t size)
{
    void *to = sb_alloc(count ? count : 1, size);
    if (to && count)
        memcpy(to, from, count * size);
    return to;
}

/* 0 if memory runs out; `to` then owns the values copied so far. */
static int copy_values(const sb_step_values *from, sb_step_values *to)
{
    to->count = 0;
    to->room = from->count ? from->count : 1;
    to->items = copy(from->items, from->count, sizeof *to->items);
    if (!to->items)
        return 0;
    for (size_t i = 0; i < from->count; i++) {
        const sb_step_value *v = &from->items[i];
        to->items[i].data = v->data ? copy(v->data, v->rows * v->cols, sizeof *v->data) : NULL;
        to->count = i + 1;
        if (v->data && !to->items[i].data)
            return 0;
    }
    return 1;
}

static int copy_states(const sb_step *from, sb_step *to)
{
    to->states = copy(from->states, from->state_count, sizeof *to->states);
    to->state_count = 0;
    for (size_t i = 0; to->states && i < from->state_count; i++) {
        int good = copy_values(&from->states[i].pieces, &to->states[i].pieces);
        to->state_count = i + 1;
        if (!good)
            return 0;
    }
    return to->states != NULL;
}

static int copy_prefixes(const sb_step *from, sb_step *to)
{
    for (size_t i = 0; i < from->prefix_count; i++) {
        sb_step_prefix *prefix = sb_step_add_prefix(to);
        if (!prefix)
            return 0;
        *prefix = from->prefixes[i];
        prefix->tokens = NULL; /* no comparison reads them */
    }
    return 1;
}

static int copy_samplings(const sb_step *from, sb_step *to)
{
    if (!from->sampling_count)
        return 1;
    to->samplings = copy(from->samplings, from->sampling_count, sizeof *to->samplings);
    to->sampling_count = to->samplings ? from->sampling_count : 0;
    return to->samplings != NULL;
}

int sb_step_copy(const sb_step *from, sb_step *to)
{
    *to = (sb_step){.number = from->number, .again = from->again};
    to->rows = copy(from->rows, from->row_count, sizeof *to->rows);
    to->row_count = to->rows ? from->row_count : 0;
    to->rounds = copy(from->rounds, from->round_count, sizeof *to->rounds);
    to->round_count = to->rounds ? from->round_count : 0;
    if (from->logits_rows) {
        to->logits_rows = copy(from->logits_rows, from->logits_count, sizeof *to->logits_rows);
        to->logits_count = from->logits_count;
    }
    if (from->logits_rows && !to->logits_rows)
        return 0;
    return to->rows && to->rounds && copy_values(&from->taps, &to->taps) && copy_states(from, to) &&
           copy_prefixes(from, to) && copy_samplings(from, to);
}
