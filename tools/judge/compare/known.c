#include "tools/judge/compare/known.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"

sb_status sb_marks_add(sb_marks *marks, uint32_t id)
{
    size_t at = 0;
    while (at < marks->count && marks->ids[at] < id)
        at++;
    if (at < marks->count && marks->ids[at] == id)
        return SB_OK;
    uint32_t *more = sb_realloc(marks->ids, marks->count + 1, sizeof *more);
    if (!more)
        return SB_ERR_MEMORY;
    memmove(more + at + 1, more + at, (marks->count - at) * sizeof *more);
    more[at] = id;
    marks->ids = more;
    marks->count++;
    return SB_OK;
}

sb_status sb_marks_join(sb_marks *marks, const sb_marks *more)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < more->count && !status; i++)
        status = sb_marks_add(marks, more->ids[i]);
    return status;
}

void sb_marks_free(sb_marks *marks)
{
    free(marks->ids);
    *marks = (sb_marks){0};
}

/* Frees what an array owns. */
static void drop(sb_known *k)
{
    sb_marks_free(&k->waiting);
    free(k->ours);
    free(k->theirs);
    k->ours = k->theirs = NULL;
}

void sb_known_clear(sb_known_arrays *known)
{
    for (size_t i = 0; i < known->count; i++)
        drop(&known->items[i]);
    free(known->items);
    *known = (sb_known_arrays){0};
}

static int holds(const sb_known *k, const float *p)
{
    return (uintptr_t)p >= (uintptr_t)k->base && (uintptr_t)p < (uintptr_t)(k->base + k->count);
}

sb_known *sb_known_find(const sb_known_arrays *known, const float *p)
{
    for (size_t i = 0; i < known->count; i++)
        if (holds(&known->items[i], p))
            return &known->items[i];
    return NULL;
}

/* The number of the `count` values from p on that lie in k. */
static size_t run_of(const sb_known *k, const float *p, size_t count)
{
    size_t rest = k->count - (size_t)(p - k->base);
    return rest < count ? rest : count;
}

sb_knowledge sb_known_of(const sb_known_arrays *known, const float *p, size_t count)
{
    sb_knowledge least = SB_KNOWN_exact;
    while (count) {
        const sb_known *k = sb_known_find(known, p);
        if (!k || k->kind == SB_KNOWN_not)
            return SB_KNOWN_not;
        size_t run = run_of(k, p, count);
        least = k->kind < least ? k->kind : least;
        p += run;
        count -= run;
    }
    return least;
}

void sb_known_balls(const sb_known_arrays *known, const float *p, size_t count, int theirs,
                    sb_ball *out)
{
    while (count) {
        const sb_known *k = sb_known_find(known, p);
        size_t run = k ? run_of(k, p, count) : count;
        if (!k || k->kind != SB_KNOWN_balls)
            sb_balls_of(p, run, out);
        else
            memcpy(out, (theirs ? k->theirs : k->ours) + (p - k->base), run * sizeof *out);
        p += run;
        out += run;
        count -= run;
    }
}

static int overlap(const sb_known *a, const sb_known *b)
{
    return (uintptr_t)a->base < (uintptr_t)(b->base + b->count) &&
           (uintptr_t)b->base < (uintptr_t)(a->base + a->count);
}

static sb_known *append(sb_known_arrays *known)
{
    sb_known *items = sb_grow(known->items, known->count, &known->room, sizeof *items);
    if (!items)
        return NULL;
    known->items = items;
    return &known->items[known->count++];
}

static void forget(sb_known_arrays *known, const sb_known *place)
{
    for (size_t i = known->count; i-- > 0;)
        if (overlap(&known->items[i], place)) {
            drop(&known->items[i]);
            known->items[i] = known->items[--known->count];
        }
}

static sb_ball *longer(sb_ball **old, size_t count, const sb_ball *more, size_t added)
{
    sb_ball *all = sb_realloc(*old, count + added, sizeof *all);
    if (!all)
        return NULL;
    memcpy(all + count, more, added * sizeof *all);
    *old = all;
    return all;
}

/* The array of the preceding calls, if this call continues it. */
static sb_known *continued(const sb_known_arrays *known, const sb_known *made)
{
    for (size_t i = 0; i < known->count; i++) {
        sb_known *k = &known->items[i];
        if (k->single && made->single && k->base + k->count == made->base &&
            k->name == made->name && k->kind == made->kind && k->layer == made->layer &&
            !k->ours == !made->ours)
            return k;
    }
    return NULL;
}

sb_status sb_known_make(sb_known_arrays *known, const sb_known *made)
{
    sb_known copy = *made;
    sb_status status = SB_OK;
    if (copy.count == 0) {
        drop(&copy);
        return SB_OK;
    }
    forget(known, made);
    sb_known *k = continued(known, made);
    if (!k) {
        k = append(known);
        if (k)
            *k = copy;
        else
            drop(&copy);
        return k ? SB_OK : SB_ERR_MEMORY;
    }
    if (copy.ours && (!longer(&k->ours, k->count, copy.ours, copy.count) ||
                      !longer(&k->theirs, k->count, copy.theirs, copy.count)))
        status = SB_ERR_MEMORY;
    else
        k->count += copy.count;
    k->chained |= copy.chained;
    if (!status)
        status = sb_marks_join(&k->waiting, &copy.waiting);
    drop(&copy);
    return status;
}

sb_status sb_known_set(sb_known_arrays *known, const float *p, size_t count, sb_knowledge kind,
                       uint32_t value)
{
    const sb_known *old = sb_known_find(known, p);
    sb_known made = {.base = p,
                     .count = count,
                     .kind = kind,
                     .op = old ? old->op : SB_OP_COUNT,
                     .layer = old ? old->layer : 0,
                     .name = NULL,
                     .source = value,
                     .value = value};
    return sb_known_make(known, &made);
}
