#include "tools/judge/trace/history.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"

typedef struct course {
    uint32_t number;
    int has_parent;
    uint32_t parent;
    uint64_t start; /* position of its own first token */
    uint32_t *tokens;
    size_t count, room;
    uint64_t *ends; /* positions at which its calls ended, ascending */
    size_t end_count, end_room;
} course;

struct sb_history {
    course *items; /* in the order in which they began */
    size_t count, room;
    size_t *places; /* (place_room) by the number of a sequence: its item + 1; 0: none */
    size_t place_room;
};

sb_history *sb_history_new(void)
{
    return sb_alloc(1, sizeof(sb_history));
}

void sb_history_free(sb_history *h)
{
    for (size_t i = 0; h && i < h->count; i++) {
        free(h->items[i].tokens);
        free(h->items[i].ends);
    }
    if (h) {
        free(h->items);
        free(h->places);
    }
    free(h);
}

static course *find(const sb_history *h, uint32_t number)
{
    size_t place = number < h->place_room ? h->places[number] : 0;
    return place ? &h->items[place - 1] : NULL;
}

static course *add(sb_history *h, uint32_t number, uint64_t start)
{
    if (number >= h->place_room) {
        size_t room = 2 * (size_t)number + 16;
        size_t *places = sb_realloc(h->places, room, sizeof *places);
        if (!places)
            return NULL;
        memset(places + h->place_room, 0, (room - h->place_room) * sizeof *places);
        h->places = places;
        h->place_room = room;
    }
    course *more = sb_grow(h->items, h->count, &h->room, sizeof *more);
    if (!more)
        return NULL;
    h->items = more;
    h->items[h->count] = (course){.number = number, .start = start};
    h->places[number] = ++h->count;
    return &h->items[h->count - 1];
}

static int add_token(course *c, uint32_t token)
{
    uint32_t *more = sb_grow(c->tokens, c->count, &c->room, sizeof *more);
    if (!more)
        return 0;
    c->tokens = more;
    c->tokens[c->count++] = token;
    return 1;
}

static int add_end(course *c, uint64_t position)
{
    uint64_t *more = sb_grow(c->ends, c->end_count, &c->end_room, sizeof *more);
    if (!more)
        return 0;
    c->ends = more;
    c->ends[c->end_count++] = position;
    return 1;
}

/* Takes back tokens from a position on, and the ends of calls behind it. */
static void cut(course *c, uint64_t position)
{
    uint64_t kept = position > c->start ? position - c->start : 0;
    c->count = kept < c->count ? (size_t)kept : c->count;
    while (c->end_count && c->ends[c->end_count - 1] > position)
        c->end_count--;
}

/* Adds rows [first, first + n) of a step, one call. */
static int add_call(sb_history *h, const sb_step *step, size_t first, size_t n)
{
    const sb_step_row *rows = step->rows + first;
    course *c = find(h, rows->sequence);
    if (!c)
        c = add(h, rows->sequence, rows->position);
    if (!c)
        return 0;
    cut(c, rows->position);
    n = sb_step_kept(step, rows->sequence, n);
    for (size_t i = 0; i < n; i++)
        if (!add_token(c, rows[i].token))
            return 0;
    return add_end(c, c->start + c->count);
}

static int begin(sb_history *h, const sb_step_prefix *p)
{
    course *c = find(h, p->sequence) ? NULL : add(h, p->sequence, p->position);
    if (c) {
        c->has_parent = find(h, p->parent) != NULL && p->parent != p->sequence;
        c->parent = p->parent;
    }
    return c || find(h, p->sequence);
}

sb_status sb_history_step(sb_history *h, const sb_step *step, sb_error *err)
{
    int good = 1;
    for (size_t i = 0; i < step->prefix_count && good; i++)
        good = begin(h, &step->prefixes[i]);
    for (size_t i = 0, n; i < step->row_count && good; i += n) {
        for (n = 1;
             i + n < step->row_count && step->rows[i + n].sequence == step->rows[i].sequence;)
            n++;
        if (step->rows[i].kind != SB_CALL_draft)
            good = add_call(h, step, i, n);
    }
    return good ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for the tokens of sequences");
}

uint64_t sb_history_end(const sb_history *h, uint32_t sequence)
{
    const course *c = find(h, sequence);
    return c ? c->start + c->count : 0;
}

/* The sequence whose own call fed the token before this position. */
static const course *feeder(const sb_history *h, uint32_t sequence, uint64_t position)
{
    const course *c = find(h, sequence);
    while (c && position <= c->start)
        c = c->has_parent ? find(h, c->parent) : NULL;
    return c;
}

int sb_history_ended_at(const sb_history *h, uint32_t sequence, uint64_t position)
{
    const course *c = feeder(h, sequence, position);
    for (size_t i = 0; c && i < c->end_count; i++)
        if (c->ends[i] == position)
            return 1;
    return 0;
}

int sb_history_token(const sb_history *h, uint32_t sequence, uint64_t position, uint32_t *out)
{
    const course *c = feeder(h, sequence, position + 1);
    if (!c || position - c->start >= c->count)
        return 0;
    *out = c->tokens[position - c->start];
    return 1;
}

size_t sb_history_count(const sb_history *h)
{
    return h->count;
}

uint32_t sb_history_at(const sb_history *h, size_t i)
{
    return h->items[i].number;
}
