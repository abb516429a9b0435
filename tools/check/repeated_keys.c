/* repeated_keys.c - keys are dealt out by their first bits to bins that stay in the cache; in each
 * of them a table of two bits for each of some values tells most keys that stand once. */
#include "tools/check/repeated_keys.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"

enum {
    FULL = 4096,     /* keys of a bin, about */
    BINS = 1 << 12,  /* at most */
    SPREAD = 16,     /* places of a table for each key */
    TABLE_BITS = 18, /* ... and at most so many places, as a power of two */
    PER_BYTE = 4     /* places */
};

/* Keys by bin: those of bin b from first[b] to first[b + 1] - 1. */
typedef struct bins {
    uint64_t *keys;
    size_t *first;
    size_t count;
    unsigned bits;
} bins;

typedef struct found {
    uint64_t *keys;
    size_t count, room;
    int lost;
} found;

static size_t bin_of(const bins *b, uint64_t key)
{
    return b->bits ? (size_t)(key >> (64 - b->bits)) : 0;
}

static int deal_out(const sb_units *u, bins *b)
{
    size_t total = 0;
    for (size_t i = 0; i < u->count; i++)
        total += u->rows[i].marks.count;
    for (b->count = 1; b->count < BINS && b->count * FULL < total; b->count *= 2)
        b->bits++;
    b->keys = sb_alloc(total + 1, sizeof *b->keys);
    b->first = sb_alloc(b->count + 2, sizeof *b->first);
    if (!b->keys || !b->first)
        return 0;
    size_t *next = b->first + 1; /* where the next key of a bin comes; then where the bin ends */
    for (size_t i = 0; i < u->count; i++)
        for (size_t k = 0; k < u->rows[i].marks.count; k++)
            next[1 + bin_of(b, sb_mark_kind(&u->rows[i].marks.rows[k]))]++;
    for (size_t i = 1; i <= b->count; i++)
        next[i] += next[i - 1];
    for (size_t i = 0; i < u->count; i++)
        for (size_t k = 0; k < u->rows[i].marks.count; k++) {
            uint64_t key = sb_mark_kind(&u->rows[i].marks.rows[k]);
            b->keys[next[bin_of(b, key)]++] = key;
        }
    return 1;
}

/* --- one bin ---------------------------------------------------------------------------------- */

typedef struct table {
    unsigned char bits[(1 << TABLE_BITS) / PER_BYTE]; /* it has come, and it has come again */
    uint64_t mask;
} table;

/* Neither the first bits, which all keys of a bin have, nor the last ones, which may be zero in all
 * keys. */
static uint64_t place_of(const table *t, uint64_t key)
{
    return key >> 24 & t->mask;
}

static void count_key(table *t, uint64_t key)
{
    uint64_t at = place_of(t, key);
    unsigned shift = (unsigned)(at % PER_BYTE) * 2, pair = t->bits[at / PER_BYTE];
    unsigned seen = pair >> shift & 1u;
    t->bits[at / PER_BYTE] = (unsigned char)(pair | 1u << shift | seen << (shift + 1));
}

static int may_repeat(const table *t, uint64_t key)
{
    uint64_t at = place_of(t, key);
    return t->bits[at / PER_BYTE] >> ((unsigned)(at % PER_BYTE) * 2 + 1) & 1;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void keep(found *f, uint64_t key)
{
    uint64_t *grown = sb_grow(f->keys, f->count, &f->room, sizeof *grown);
    f->lost |= !grown;
    if (!grown)
        return;
    f->keys = grown;
    f->keys[f->count++] = key;
}

/* Moves the keys that may repeat to the front; returns how many. */
static size_t sieve(table *t, uint64_t *keys, size_t count)
{
    size_t kept = 0;
    t->mask = 1023;
    while (t->mask / SPREAD < count && t->mask < (1u << TABLE_BITS) - 1)
        t->mask = t->mask << 1 | 1;
    memset(t->bits, 0, (size_t)(t->mask / PER_BYTE) + 1);
    for (size_t i = 0; i < count; i++)
        count_key(t, keys[i]);
    for (size_t i = 0; i < count; i++) {
        keys[kept] = keys[i];
        kept += (size_t)may_repeat(t, keys[i]);
    }
    return kept;
}

static void look_into(table *t, uint64_t *keys, size_t count, found *f)
{
    size_t kept = sieve(t, keys, count);
    if (kept)
        qsort(keys, kept, sizeof *keys, by_value);
    for (size_t i = 1; i < kept; i++)
        if (keys[i] == keys[i - 1] && (!f->count || f->keys[f->count - 1] != keys[i]))
            keep(f, keys[i]);
}

int sb_repeated_keys(const sb_units *u, uint64_t **keys, size_t *count)
{
    bins b = {.bits = 0};
    found f = {.keys = NULL};
    table *t = sb_alloc(1, sizeof *t);
    int sound = t && deal_out(u, &b);
    for (size_t i = 0; i < b.count && sound; i++)
        look_into(t, b.keys + b.first[i], b.first[i + 1] - b.first[i], &f);
    free(t);
    free(b.keys);
    free(b.first);
    if (!sound || f.lost)
        f.count = 0;
    *keys = f.keys;
    *count = f.count;
    return sound && !f.lost;
}

int sb_is_repeated(const uint64_t *keys, size_t count, uint64_t key)
{
    return count && bsearch(&key, keys, count, sizeof *keys, by_value) != NULL;
}
