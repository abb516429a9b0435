#include "tools/check/read/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/check/read/fused.h"

typedef struct row {
    sb_unit *unit;
    sb_digest key; /* of the name: an order that has nothing to do with that of the layers */
    size_t turn;   /* position among the units of its kind */
} row;

static int key_order(const row *a, const row *b)
{
    int order = strcmp(a->key.hex, b->key.hex);
    return order ? order : strcmp(a->unit->name, b->unit->name);
}

static int same_kind(const row *a, const row *b)
{
    return a->unit->region == b->unit->region && strcmp(a->unit->kind, b->unit->kind) == 0;
}

static int kind_order(const void *a, const void *b)
{
    const row *x = a, *y = b;
    if (x->unit->region != y->unit->region)
        return x->unit->region < y->unit->region ? -1 : 1;
    int order = strcmp(x->unit->kind, y->unit->kind);
    return order ? order : key_order(x, y);
}

static int turn_order(const void *a, const void *b)
{
    const row *x = a, *y = b;
    return x->turn != y->turn ? (x->turn < y->turn ? -1 : 1) : key_order(x, y);
}

static int may_be_read(const sb_unit *unit)
{
    const uint64_t bytes = sb_unit_bytes(unit);
    return !unit->status && bytes > 0 && bytes <= SB_SAMPLE_UNIT_BYTES &&
           (unit->tensor || unit->found.container != SB_CONTAINER_COUNT);
}

static sb_status fill(sb_units *units, row *rows, size_t *n, sb_error *err)
{
    sb_hash *hash = NULL;
    for (size_t i = 0; i < units->count; i++) {
        sb_unit *unit = &units->rows[i];
        unit->chosen = 0;
        if (!may_be_read(unit))
            continue;
        hash = sb_hash_new();
        if (!hash)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for a sample");
        sb_hash_bytes(hash, unit->name, strlen(unit->name));
        rows[(*n)++] = (row){.unit = unit, .key = sb_hash_end(hash)};
        sb_hash_free(hash);
    }
    return SB_OK;
}

/* The unit beside this one that has `last` as the last part of its name; NULL: none. */
static sb_unit *beside(const sb_units *units, const sb_unit *unit, const char *last)
{
    char name[SB_MAX_TENSOR_NAME + 32];
    const char *dot = strrchr(unit->name, '.');
    if (!dot)
        return NULL;
    snprintf(name, sizeof name, "%.*s%s", (int)(dot + 1 - unit->name), unit->name, last);
    const sb_unit *found = sb_unit_named(units, name);
    return found ? units->rows + (found - units->rows) : NULL;
}

/* The unit and those that engines fuse with it. The checks compare their scales, so a sample has
 * all of them or none. */
static size_t fused_with(const sb_units *units, sb_unit *unit, sb_unit *group[SB_FUSED_MOST])
{
    const char *dot = strrchr(unit->name, '.');
    for (size_t s = 0; s < SB_FUSED_SETS && dot; s++) {
        size_t n = 0;
        int in = 0;
        for (size_t i = 0; i < SB_FUSED_MOST && sb_fused_sets[s][i]; i++) {
            sb_unit *one = beside(units, unit, sb_fused_sets[s][i]);
            in |= one == unit;
            if (one)
                group[n++] = one;
        }
        if (in)
            return n;
    }
    group[0] = unit;
    return 1;
}

sb_status sb_sample_choose(sb_units *units, size_t count, size_t *chosen, uint64_t *bytes,
                           sb_error *err)
{
    size_t n = 0;
    row *rows = sb_alloc(units->count, sizeof *rows);
    *chosen = 0;
    *bytes = 0;
    if (!rows)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a sample");
    sb_status status = fill(units, rows, &n, err);
    if (n)
        qsort(rows, n, sizeof *rows, kind_order);
    for (size_t i = 1; i < n; i++)
        rows[i].turn = same_kind(&rows[i - 1], &rows[i]) ? rows[i - 1].turn + 1 : 0;
    if (n)
        qsort(rows, n, sizeof *rows, turn_order);
    for (size_t i = 0; !status && i < n && *chosen < count; i++) {
        sb_unit *group[SB_FUSED_MOST];
        const size_t size = fused_with(units, rows[i].unit, group);
        int fits = !rows[i].unit->chosen && size <= count - *chosen;
        for (size_t g = 0; g < size; g++)
            fits &= may_be_read(group[g]);
        for (size_t g = 0; g < size && fits; g++) {
            group[g]->chosen = 1;
            *bytes += sb_unit_bytes(group[g]);
        }
        *chosen += fits ? size : 0;
    }
    free(rows);
    return status;
}

sb_sample_word sb_sample_says(unsigned number)
{
    static const unsigned char nothing[] = {26, 41, 43, 44, 52, 54};
    static const unsigned char hints[] = {17, 18, 19, 20, 21, 22, 27, 29,
                                          30, 33, 34, 35, 36, 40, 42};
    if (number <= 255 && memchr(nothing, (int)number, sizeof nothing))
        return SB_SAMPLE_nothing;
    return number <= 255 && memchr(hints, (int)number, sizeof hints) ? SB_SAMPLE_hints
                                                                     : SB_SAMPLE_verdict;
}
