/* spoken.c - the data of a sequence: stored, sorted, and cut to one length. */
#include "tools/dump/spoken.h"

#include <stdlib.h>

#include "ref/base/mem.h"

void sb_spoken_clear(sb_spoken *s)
{
    free(s->told);
    free(s->list);
    sb_dump_arrays_clear(&s->experts);
    free(s->experts_bytes);
    *s = (sb_spoken){.count = 0};
}

static sb_status no_memory(sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for an answer");
}

sb_status sb_spoken_token(sb_spoken *s, uint32_t id, sb_error *err)
{
    sb_told *grown = sb_grow(s->told, s->count, &s->room, sizeof *grown);
    if (!grown)
        return no_memory(err);
    s->told = grown;
    s->told[s->at = s->count++] = (sb_told){.id = id, .first = s->listed};
    return SB_OK;
}

void sb_spoken_at(sb_spoken *s, size_t i, int is_map)
{
    s->at = i;
    s->told[i].first = s->listed;
    s->told[i].is_map = is_map;
}

static float above_floor(const sb_spoken *s, double logprob)
{
    return logprob <= (double)s->floor ? s->floor : sb_dump_f32(logprob);
}

void sb_spoken_own(sb_spoken *s, double logprob)
{
    s->told[s->at].has_own = 1;
    s->told[s->at].own = above_floor(s, logprob);
}

sb_status sb_spoken_list(sb_spoken *s, uint32_t id, double logprob, uint32_t rank, sb_error *err)
{
    sb_listed *grown = sb_grow(s->list, s->listed, &s->list_room, sizeof *grown);
    if (!grown)
        return no_memory(err);
    s->list = grown;
    s->list[s->listed++] = (sb_listed){id, above_floor(s, logprob), rank};
    s->told[s->at].count++;
    return SB_OK;
}

/* --- order ------------------------------------------------------------------------------------ */

static int descending(const void *a, const void *b)
{
    const sb_listed *x = a, *y = b;
    if (x->logprob != y->logprob)
        return x->logprob > y->logprob ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* True if the rank says that the token is in its list only in addition to the largest ones. */
static int beyond(const sb_spoken *s, const sb_told *t)
{
    const sb_listed *last = t->count ? &s->list[t->first + t->count - 1] : NULL;
    return last && t->is_map && last->id == t->id && last->rank > t->count;
}

/* True if the token is the least of its list, which has no ranks. */
static int may_be_beyond(const sb_spoken *s, const sb_told *t)
{
    const sb_listed *last = t->count ? &s->list[t->first + t->count - 1] : NULL;
    return last && t->is_map && last->id == t->id && last->rank == 0;
}

/* J-40: "and stands in no list says only that it is unlikely" */
static void find_own(sb_spoken *s, sb_told *t)
{
    size_t i = t->first, end = t->first + t->count;
    while (i < end && s->list[i].id != t->id)
        i++;
    if (i < end && !t->has_own) {
        t->has_own = 1;
        t->own = s->list[i].logprob;
    } else if (i == end && t->has_own && t->own <= SB_SPOKEN_UNLIKELY) {
        t->has_own = 0;
    }
}

/* J-37: "A list that is in order may have this token first, before larger ones" */
static void drop_first(const sb_spoken *s, sb_told *t)
{
    const sb_listed *list = s->list + t->first;
    if (t->is_map || t->count < 2 || list[0].id != t->id || !(list[0].logprob < list[1].logprob))
        return;
    t->first++;
    t->count--;
}

/* J-37: "the lists of a part, prompt or generated tokens, are cut to the shortest" */
static void cut(sb_spoken *s, size_t from, size_t to)
{
    size_t least = SIZE_MAX, open = 0, lists = 0;
    for (size_t i = from; i < to; i++) {
        sb_told *t = &s->told[i];
        if (!t->count)
            continue;
        t->count -= (size_t)beyond(s, t);
        least = t->count < least ? t->count : least;
        open += (size_t)may_be_beyond(s, t);
        lists++;
    }
    /* in every row the token may be an addition to the largest ones */
    if (lists && open == lists && least)
        least--;
    for (size_t i = from; i < to; i++)
        s->told[i].count = s->told[i].count > least ? least : s->told[i].count;
}

void sb_spoken_finish(sb_spoken *s)
{
    for (size_t i = 0; i < s->count; i++) {
        sb_told *t = &s->told[i];
        find_own(s, t);
        drop_first(s, t);
        if (t->is_map && t->count)
            qsort(s->list + t->first, t->count, sizeof *s->list, descending);
    }
    cut(s, 0, s->prompt < s->count ? s->prompt : s->count);
    cut(s, s->prompt < s->count ? s->prompt : s->count, s->count);
}
