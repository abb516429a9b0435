/* repeated_keys.c - distributes keys by their first bits to bins that fit into the cache. In each
 * bin, a table with two bits per hashed value filters out most keys that occur only once. */
#include "tools/check/scan/repeated_keys.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"

enum {
    FULL = 4096,     /* approximate number of keys per bin */
    BINS = 1 << 12,  /* largest number of bins */
    SPREAD = 16,     /* entries of a table per key */
    TABLE_BITS = 18, /* ... and log2 of the largest number of entries */
    PER_BYTE = 4,    /* entries per byte */
    PARTS = 16,      /* parts of the units, and of the bins; each part is one task of a thread */
    FEW = 1 << 14    /* up to this number of keys, starting other threads does not pay */
};

/* Keys by bin: bin b has keys[first[b]] to keys[first[b + 1] - 1]. */
typedef struct bins {
    const sb_units *units;
    uint64_t *keys;
    size_t *first, *next; /* next: for each part and bin, the position of its next key */
    size_t count, parts;
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

/* The first of `count` items that belongs to part i. */
static size_t part_of(const bins *b, size_t count, size_t i)
{
    return count / b->parts * i + count % b->parts * i / b->parts;
}

/* Counts the keys of a part of the units by bin. */
static void count_part(void *ctx, size_t part, size_t worker)
{
    bins *b = ctx;
    size_t *counts = b->next + part * b->count, end = part_of(b, b->units->count, part + 1);
    (void)worker;
    for (size_t i = part_of(b, b->units->count, part); i < end; i++)
        for (size_t k = 0; k < b->units->rows[i].marks.count; k++)
            counts[bin_of(b, sb_mark_kind(&b->units->rows[i].marks.rows[k]))]++;
}

static void deal_part(void *ctx, size_t part, size_t worker)
{
    bins *b = ctx;
    size_t *next = b->next + part * b->count, end = part_of(b, b->units->count, part + 1);
    (void)worker;
    for (size_t i = part_of(b, b->units->count, part); i < end; i++)
        for (size_t k = 0; k < b->units->rows[i].marks.count; k++) {
            uint64_t key = sb_mark_kind(&b->units->rows[i].marks.rows[k]);
            b->keys[next[bin_of(b, key)]++] = key;
        }
}

/* Turns the counts into positions. */
static void place_bins(bins *b)
{
    size_t at = 0;
    for (size_t i = 0; i < b->count; i++) {
        b->first[i] = at;
        for (size_t part = 0; part < b->parts; part++) {
            size_t *next = &b->next[part * b->count + i], here = *next;
            *next = at;
            at += here;
        }
    }
    b->first[b->count] = at;
}

static int deal_out(bins *b)
{
    size_t total = 0;
    for (size_t i = 0; i < b->units->count; i++)
        total += b->units->rows[i].marks.count;
    for (b->count = 1; b->count < BINS && b->count * FULL < total; b->count *= 2)
        b->bits++;
    b->parts = total > FEW ? PARTS : 1;
    b->keys = sb_alloc(total + 1, sizeof *b->keys);
    b->first = sb_alloc(b->count + 1, sizeof *b->first);
    b->next = sb_alloc(b->count * b->parts, sizeof *b->next);
    if (!b->keys || !b->first || !b->next)
        return 0;
    sb_parallel_for(b->parts, 1, count_part, b);
    place_bins(b);
    sb_parallel_for(b->parts, 1, deal_part, b);
    return 1;
}

/* --- one bin ---------------------------------------------------------------------------------- */

typedef struct table {
    unsigned char bits[(1 << TABLE_BITS) / PER_BYTE]; /* per entry: occurred, occurred again */
    uint64_t mask;
    unsigned shift; /* the bits of a key that select its entry */
} table;

/* Does not use the first bits, which are equal for all keys of a bin, nor the last bits, which may
 * be zero in all keys. The second pass uses other bits than the first. */
static uint64_t place_of(const table *t, uint64_t key)
{
    return key >> t->shift & t->mask;
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

/* Moves the keys that may repeat to the front; returns their number. */
static size_t sieve(table *t, unsigned shift, uint64_t *keys, size_t count)
{
    size_t kept = 0;
    t->shift = shift;
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
    /* one key in eight shares its entry with another; few do so in both passes */
    size_t kept = sieve(t, 24, keys, count);
    kept = sieve(t, 40, keys, kept);
    if (kept)
        qsort(keys, kept, sizeof *keys, by_value);
    for (size_t i = 1; i < kept; i++)
        if (keys[i] == keys[i - 1] && (!f->count || f->keys[f->count - 1] != keys[i]))
            keep(f, keys[i]);
}

/* --- all bins --------------------------------------------------------------------------------- */

typedef struct search {
    bins bins;
    table *tables; /* one per thread */
    found found[PARTS];
} search;

static void look_into_part(void *ctx, size_t part, size_t worker)
{
    search *s = ctx;
    const bins *b = &s->bins;
    size_t end = part_of(b, b->count, part + 1);
    for (size_t i = part_of(b, b->count, part); i < end; i++)
        look_into(&s->tables[worker], b->keys + b->first[i], b->first[i + 1] - b->first[i],
                  &s->found[part]);
}

/* Joins the keys of all parts, in ascending order: bins are in ascending order, and so are parts of
 * them. */
static void join(search *s, found *all)
{
    for (size_t part = 0; part < s->bins.parts; part++) {
        const found *f = &s->found[part];
        all->lost |= f->lost;
        for (size_t i = 0; i < f->count; i++)
            keep(all, f->keys[i]);
    }
}

static size_t first_bits(uint64_t key)
{
    return (size_t)(key >> (64 - SB_KEY_BITS));
}

static int make_set(found *all, sb_key_set *out)
{
    *out = (sb_key_set){all->keys, all->count, sb_alloc((1 << SB_KEY_BITS) / 8, 1)};
    if (!out->maybe)
        return 0;
    for (size_t i = 0; i < all->count; i++) {
        size_t at = first_bits(all->keys[i]);
        out->maybe[at / 8] |= (unsigned char)(1u << at % 8);
    }
    return 1;
}

int sb_repeated_keys(const sb_units *u, sb_key_set *out)
{
    search s = {.bins = {.units = u}};
    found all = {.keys = NULL};
    s.tables = sb_alloc(sb_threads_here(), sizeof *s.tables);
    int sound = s.tables && deal_out(&s.bins);
    if (sound) {
        sb_parallel_for(s.bins.parts, 1, look_into_part, &s);
        join(&s, &all);
    }
    for (size_t part = 0; part < PARTS; part++)
        free(s.found[part].keys);
    free(s.tables);
    free(s.bins.keys);
    free(s.bins.first);
    free(s.bins.next);
    if (make_set(&all, out) && sound && !all.lost)
        return 1;
    sb_key_set_free(out);
    return 0;
}

int sb_key_set_has(const sb_key_set *set, uint64_t key)
{
    size_t at = first_bits(key);
    return set->count && set->maybe[at / 8] >> at % 8 & 1 &&
           bsearch(&key, set->keys, set->count, sizeof *set->keys, by_value) != NULL;
}

void sb_key_set_free(sb_key_set *set)
{
    free(set->keys);
    free(set->maybe);
    *set = (sb_key_set){0};
}
