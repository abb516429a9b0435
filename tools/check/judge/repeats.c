/* repeats.c - check 13: rows, pages and sectors that occur twice, in one tensor or in two. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/show.h"
#include "tools/check/scan/content.h"
#include "tools/check/scan/across.h"
#include "tools/check/scan/repeated_keys.h"

enum {
    /* V-13: "128 bits, 256 of scales" */
    BITS = 128,
    SCALE_BITS = 256,
    TOKENS = 8 /* "eight rows of one distance" */
};

/* A mark with its unit, part and grid. */
typedef struct mark {
    uint64_t key, at;
    uint32_t unit;
    uint8_t part, grid;
} mark;

/* Two places with the same bytes. */
typedef struct repeat {
    mark one, other;
} repeat;

typedef struct repeats {
    sb_check *check;
    mark *marks;
    size_t mark_count;
    repeat *rows;
    size_t count, room;
    size_t before; /* number of findings before these, about whole tensors */
} repeats;

static const sb_unit *unit_of(const repeats *r, const mark *m)
{
    return &r->check->self.units.rows[m->unit];
}

static const sb_tensor *tensor_of(const repeats *r, const mark *m)
{
    const sb_unit *unit = unit_of(r, m);
    return unit->tensor ? unit->tensor : unit->found.part[m->part];
}

static int is_scale(const repeats *r, const mark *m)
{
    return !unit_of(r, m)->tensor && m->part != SB_PART_weight &&
           m->part != SB_PART_weight_packed && m->part != SB_PART_qweight;
}

static int is_vocabulary(const sb_unit *unit)
{
    return strstr(unit->plain, "embed_tokens") || strstr(unit->plain, "lm_head") ||
           strstr(unit->plain, "shared_head");
}

static int same_tensor(const mark *a, const mark *b)
{
    return a->unit == b->unit && a->part == b->part;
}

/* --- places with equal bytes ------------------------------------------------------------------ */

static int by_key(const void *a, const void *b)
{
    const mark *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->grid != y->grid)
        return x->grid < y->grid ? -1 : 1;
    if (x->unit != y->unit)
        return x->unit < y->unit ? -1 : 1;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static int equal(const repeats *r, const mark *a, const mark *b)
{
    const sb_tensor *s = tensor_of(r, a), *t = tensor_of(r, b);
    uint64_t size = sb_mark_size(s, (sb_grid)a->grid);
    return s->dtype == t->dtype && size == sb_mark_size(t, (sb_grid)b->grid) &&
           memcmp(s->data + a->at, t->data + b->at, (size_t)size) == 0;
}

/* V-13: "say more than" */
static int says_enough(const repeats *r, const mark *m)
{
    const sb_tensor *t = tensor_of(r, m);
    size_t size = (size_t)sb_mark_size(t, (sb_grid)m->grid);
    const unsigned char *p = t->data + m->at;
    uint64_t row = sb_tensor_row(t);
    if (row && row < size && memcmp(p, p + row, size - (size_t)row) == 0)
        return 0;
    return !sb_is_periodic(p, size, 64) &&
           sb_bits_said(p, size) >= (is_scale(r, m) ? SCALE_BITS : BITS);
}

static void add(repeats *r, const mark *a, const mark *b)
{
    repeat *grown = sb_grow(r->rows, r->count, &r->room, sizeof *grown);
    if (!grown) {
        r->check->findings.lost = 1;
        return;
    }
    r->rows = grown;
    r->rows[r->count++] = (repeat){*a, *b};
}

/* Compares each mark with the first one that has its key, and with the one before it. */
static void find(repeats *r)
{
    const mark *m = r->marks;
    for (size_t first = 0, i = 1; i < r->mark_count; i++) {
        if (m[i].key != m[first].key || m[i].grid != m[first].grid) {
            first = i;
            continue;
        }
        const mark *with = equal(r, &m[first], &m[i])   ? &m[first]
                           : equal(r, &m[i - 1], &m[i]) ? &m[i - 1]
                                                        : NULL;
        if (with && says_enough(r, &m[i]))
            add(r, with, &m[i]);
    }
}

/* Collects the marks whose keys occur more than once; a sound checkpoint has few. */
static void gather(repeats *r)
{
    sb_units *u = &r->check->self.units;
    sb_key_set keys;
    size_t room = 0;
    r->check->findings.lost |= !sb_repeated_keys(u, &keys);
    for (size_t i = 0; i < u->count; i++) {
        sb_mark_list *list = &u->rows[i].marks;
        for (size_t k = 0; k < list->count && keys.count; k++) {
            const sb_mark *m = &list->rows[k];
            if (!sb_key_set_has(&keys, sb_mark_kind(m)))
                continue;
            mark *grown = sb_grow(r->marks, r->mark_count, &room, sizeof *grown);
            r->check->findings.lost |= !grown;
            if (!grown)
                break;
            r->marks = grown;
            r->marks[r->mark_count++] = (mark){.key = m->key,
                                               .at = sb_mark_at(m),
                                               .unit = (uint32_t)i,
                                               .part = (uint8_t)sb_mark_part(m),
                                               .grid = (uint8_t)sb_mark_grid(m)};
        }
        free(list->rows);
        *list = (sb_mark_list){0};
    }
    sb_key_set_free(&keys);
    if (r->mark_count)
        qsort(r->marks, r->mark_count, sizeof *r->marks, by_key);
}

/* --- what is accepted ------------------------------------------------------------------------- */

/* By tensors, then by grid, then by distance. */
static int by_pair(const void *a, const void *b)
{
    const repeat *x = a, *y = b;
    uint64_t s[] = {x->one.unit,   x->one.part,   x->other.unit,
                    x->other.part, x->other.grid, x->other.at - x->one.at,
                    x->other.at};
    uint64_t t[] = {y->one.unit,   y->one.part,   y->other.unit,
                    y->other.part, y->other.grid, y->other.at - y->one.at,
                    y->other.at};
    for (size_t i = 0; i < sizeof s / sizeof *s; i++)
        if (s[i] != t[i])
            return s[i] < t[i] ? -1 : 1;
    return 0;
}

static int same_pair(const repeat *x, const repeat *y)
{
    return same_tensor(&x->one, &y->one) && same_tensor(&x->other, &y->other);
}

/* 1 if duplicates.c has reported the whole tensors, or a matrix of the stack. */
static int is_told(const repeats *r, const repeat *p)
{
    const sb_unit *one = unit_of(r, &p->one), *other = unit_of(r, &p->other);
    if (!same_tensor(&p->one, &p->other) &&
        strcmp(one->digest[p->one.part].hex, other->digest[p->other.part].hex) == 0)
        return 1;
    const char *stack = strstr(other->name, ".experts");
    size_t n = stack ? (size_t)(stack - other->name) + 8 : strlen(other->name);
    for (size_t i = 0; i < r->before; i++) {
        const sb_finding *f = &r->check->findings.rows[i];
        if (f->check == 13 && strncmp(f->tensor, other->name, n) == 0)
            return 1;
    }
    return 0;
}

/* V-13: "eight rows of one distance": p to end are repeats of one pair of tensors, sorted by
 * distance. */
static const repeat *moved_tokens(const repeat *p, const repeat *end)
{
    const repeat *first = p;
    for (; p < end && p->other.grid == SB_GRID_row; p++) {
        if (p->other.at - p->one.at != first->other.at - first->one.at)
            first = p;
        if (p - first + 1 >= TOKENS)
            return first;
    }
    return NULL;
}

static const sb_tensor *plain_master(const repeats *r, const mark *m)
{
    const sb_unit *master = sb_master_unit(r->check, unit_of(r, m));
    if (!master)
        return NULL;
    return master->tensor ? master->tensor : master->found.part[SB_PART_weight];
}

/* V-13: "if the original has them, too" */
static int in_master(const repeats *r, const repeat *p)
{
    const sb_tensor *s = plain_master(r, &p->one), *t = plain_master(r, &p->other);
    const sb_tensor *own = tensor_of(r, &p->one), *its = tensor_of(r, &p->other);
    if (!s || !t || s->dtype != t->dtype)
        return 0;
    uint64_t size = sb_mark_size(own, (sb_grid)p->one.grid), a = p->one.at, b = p->other.at;
    if (p->one.grid == SB_GRID_row) {
        uint64_t row = sb_tensor_row(s);
        if (!row || row != sb_tensor_row(t) || s->bytes / row != own->bytes / size ||
            t->bytes / row != its->bytes / size)
            return 0;
        a = a / size * row;
        b = b / size * row;
        size = row;
    } else if (s->bytes != own->bytes || t->bytes != its->bytes) {
        return 0;
    }
    return memcmp(s->data + a, t->data + b, (size_t)size) == 0;
}

/* V-13: "scales of channels that are stored for each group": 1 if more than half of the tensors of
 * this part repeat rows of their own. */
static int is_usual(const repeats *r, const repeat *p)
{
    const sb_units *u = &r->check->self.units;
    size_t tensors = 0, with = 0;
    uint32_t last = UINT32_MAX;
    for (size_t i = 0; i < u->count; i++)
        tensors += u->rows[i].found.part[p->one.part] != NULL && !u->rows[i].tensor;
    for (size_t i = 0; i < r->count; i++) {
        const repeat *x = &r->rows[i];
        if (x->one.part == p->one.part && same_tensor(&x->one, &x->other) && x->one.unit != last) {
            with++;
            last = x->one.unit;
        }
    }
    return 2 * with > tensors;
}

/* --- findings --------------------------------------------------------------------------------- */

static void tell(const repeats *r, const repeat *p, size_t count)
{
    static const char *const names[] = {"row", "page", "sector"};
    const sb_checkpoint *c = r->check->self.checkpoint;
    const sb_tensor *s = tensor_of(r, &p->one), *t = tensor_of(r, &p->other);
    uint64_t size = sb_mark_size(t, (sb_grid)p->one.grid), row = sb_tensor_row(t),
             row_of_one = sb_tensor_row(s);
    sb_check_find(r->check, 13, SB_LEVEL_error, t->name,
                  "the %" PRIu64 " bytes from byte %" PRIu64 " of %s (row %" PRIu64
                  ") are equal to those from byte %" PRIu64 " of %s (row %" PRIu64
                  " of %s), %zu such %s%s, expected no repeated bytes",
                  size, sb_checkpoint_offset(c, t) + p->other.at,
                  SB_SHOW(sb_checkpoint_shard_name(c, t->shard)), row ? p->other.at / row : 0,
                  sb_checkpoint_offset(c, s) + p->one.at,
                  SB_SHOW(sb_checkpoint_shard_name(c, s->shard)),
                  row_of_one ? p->one.at / row_of_one : 0, s == t ? "the same" : SB_SHOW(s->name),
                  count, names[p->one.grid], count == 1 ? "" : "s");
}

/* Judges all repeats of one pair of tensors. */
static void judge_repeats(const repeats *r, const repeat *p, const repeat *end)
{
    const sb_unit *one = unit_of(r, &p->one), *other = unit_of(r, &p->other);
    int inside = same_tensor(&p->one, &p->other);
    if (is_told(r, p))
        return;
    if (is_vocabulary(one) && is_vocabulary(other)) {
        p = inside ? moved_tokens(p, end) : NULL;
        if (!p)
            return;
    }
    if (inside && (sb_ends(one->plain, ".mlp.gate") || strstr(one->plain, "patch_embed")))
        return; /* check 21 reports routers; frames of a still picture are equal */
    if (in_master(r, p) || (inside && is_scale(r, &p->one) && is_usual(r, p)))
        return;
    size_t count = 0;
    while (p + count < end && p[count].one.grid == p->one.grid)
        count++;
    tell(r, p, count);
}

void sb_check_repeats(sb_check *check)
{
    repeats r = {.check = check, .before = check->findings.count};
    if (!sb_check_wanted(check, 13))
        return;
    gather(&r);
    find(&r);
    if (r.count)
        qsort(r.rows, r.count, sizeof *r.rows, by_pair);
    for (size_t i = 0, end; i < r.count; i = end) {
        for (end = i + 1; end < r.count && same_pair(&r.rows[i], &r.rows[end]);)
            end++;
        judge_repeats(&r, &r.rows[i], &r.rows[end]);
    }
    free(r.marks);
    free(r.rows);
}
