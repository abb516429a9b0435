#include "ref/run/pager.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/container/map.h"
#include "ref/formats/format.h"

/* A range is a run of bytes of the mapping. A unit is a set of ranges that are requested and
 * released together: the dense part of a layer, one expert, or the head. */
typedef struct range {
    const unsigned char *from;
    uint64_t bytes;
} range;

typedef struct unit {
    size_t first, count; /* ranges of the unit */
    uint64_t bytes;
} unit;

/* The state of a unit: never requested; stays in memory; is released at the end of its layer. */
enum { ABSENT, STAYS, PASSES };

struct sb_pager {
    uint32_t layers, experts; /* the head counts as layer number `layers` */
    range *ranges;
    size_t range_count, range_room;
    unit *units;         /* (layers + 1, 1 + experts): the dense part, then each expert */
    atomic_uchar *state; /* of each unit */
    uint64_t bytes, margin;
    atomic_ullong limit, kept, asked;
    atomic_int large; /* dense weights are read in large pages */
    sb_pager_fn fn;
    void *ctx;
};

static size_t unit_of(const sb_pager *p, uint32_t layer, uint32_t expert)
{
    return (size_t)layer * (1 + p->experts) + expert;
}

/* --- the bytes of the weights ----------------------------------------------------------------- */

/* Adds a range to a unit. Joins it with an adjacent range, because the tensors of a module mostly
 * follow each other. */
static int add_range(sb_pager *p, unit *u, const unsigned char *from, uint64_t bytes)
{
    if (!from || bytes == 0)
        return 0;
    u->bytes += bytes;
    p->bytes += bytes;
    for (size_t i = u->first; i < u->first + u->count; i++) {
        range *r = &p->ranges[i];
        if (r->from + r->bytes == from) {
            r->bytes += bytes;
            return 0;
        }
    }
    range *grown = sb_grow(p->ranges, p->range_count, &p->range_room, sizeof *grown);
    if (!grown)
        return 1;
    p->ranges = grown;
    p->ranges[p->range_count++] = (range){from, bytes};
    u->count++;
    return 0;
}

/* The span of stored rows that a matrix uses. */
static void rows_of(const sb_matrix *m, uint64_t *first, uint64_t *rows)
{
    uint64_t last = 0;
    *first = m->first_row;
    *rows = m->rows;
    if (!m->row_map || m->rows == 0) /* without rows the map has no entry */
        return;
    *first = sb_matrix_stored_row(m, 0);
    for (uint32_t i = 0; i < m->rows; i++) {
        uint64_t row = sb_matrix_stored_row(m, i);
        *first = row < *first ? row : *first;
        last = row > last ? row : last;
    }
    *rows = last + 1 - *first;
}

static int add_matrix(sb_pager *p, unit *u, const sb_matrix *m)
{
    const sb_quant *q = &m->quant;
    uint64_t first, rows, bits = sb_format_bits(m->format);
    if (!m->data)
        return 0;
    rows_of(m, &first, &rows);
    if (q->packing != SB_PACKING_rows) { /* rows are spread over the whole tensor */
        first = 0;
        rows = q->stored_rows;
    }
    uint64_t row = m->cols * bits / 8;
    int failed = add_range(p, u, m->data + first * row, rows * row);
    if (q->scales && q->scale_col == 1 && q->block_rows) {
        uint64_t each = q->scale_row * sb_format_bytes(q->scale_format);
        uint64_t at = first / q->block_rows,
                 end = (first + rows + q->block_rows - 1) / q->block_rows;
        failed |= add_range(p, u, q->scales + at * each, (end - at) * each);
    }
    return failed;
}

static int add_layer(sb_pager *p, const sb_layer *layer, uint32_t number)
{
    unit *u = &p->units[unit_of(p, number, 0)];
    int failed = 0;
    u->first = p->range_count;
    for (int role = 0; role < SB_ROLE_COUNT; role++)
        failed |= add_matrix(p, u, &layer->w[role]);
    for (uint32_t e = 0; layer->experts && e < p->experts; e++) {
        u = &p->units[unit_of(p, number, 1 + e)];
        u->first = p->range_count;
        failed |= add_matrix(p, u, &layer->experts[e].gate);
        failed |= add_matrix(p, u, &layer->experts[e].up);
        failed |= add_matrix(p, u, &layer->experts[e].down);
    }
    return failed;
}

static uint64_t layer_bytes(const sb_pager *p, uint32_t layer)
{
    uint64_t bytes = 0;
    for (uint32_t e = 0; e <= p->experts; e++)
        bytes += p->units[unit_of(p, layer, e)].bytes;
    return bytes;
}

sb_pager *sb_pager_new(const sb_weights *weights, const sb_config *config)
{
    sb_pager *p = sb_alloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->layers = weights->layer_count;
    p->experts = config->experts;
    size_t units = unit_of(p, p->layers + 1, 0);
    p->units = sb_alloc(units, sizeof *p->units);
    p->state = sb_alloc(units, sizeof *p->state);
    int failed = !p->units || !p->state;
    for (uint32_t i = 0; i < p->layers && !failed; i++)
        failed = add_layer(p, &weights->layers[i], i);
    if (!failed) {
        unit *head = &p->units[unit_of(p, p->layers, 0)];
        head->first = p->range_count;
        failed = add_matrix(p, head, &weights->lm_head);
    }
    if (failed) {
        sb_pager_free(p);
        return NULL;
    }
    for (uint32_t i = 0; i < p->layers; i++) {
        uint64_t both = layer_bytes(p, i) + layer_bytes(p, i + 1);
        p->margin = both > p->margin ? both : p->margin;
    }
    return p;
}

void sb_pager_free(sb_pager *pager)
{
    if (!pager)
        return;
    free(pager->ranges);
    free(pager->units);
    free(pager->state);
    free(pager);
}

uint64_t sb_pager_margin(const sb_pager *pager)
{
    return pager ? pager->margin : 0;
}

uint64_t sb_pager_bytes(const sb_pager *pager)
{
    return pager ? pager->bytes : 0;
}

void sb_pager_watch(sb_pager *pager, sb_pager_fn fn, void *ctx)
{
    if (!pager)
        return;
    pager->fn = fn;
    pager->ctx = ctx;
}

/* --- requesting and releasing ----------------------------------------------------------------- */

static void advise(const sb_pager *p, const unit *u, sb_pages what)
{
    for (size_t i = u->first; i < u->first + u->count; i++)
        sb_map_advise(p->ranges[i].from, p->ranges[i].bytes, what);
}

/* Advises the system how to read the dense weights and the head. */
static void advise_dense(sb_pager *p, sb_pages what)
{
    for (uint32_t i = 0; i <= p->layers; i++)
        advise(p, &p->units[unit_of(p, i, 0)], what);
}

void sb_pager_large(sb_pager *pager)
{
    if (!pager)
        return;
    advise_dense(pager, SB_PAGES_large);
    atomic_store(&pager->large, 1);
}

void sb_pager_limit(sb_pager *pager, uint64_t bytes)
{
    if (!pager)
        return;
    atomic_store(&pager->limit, bytes);
    if (bytes && atomic_exchange(&pager->large, 0))
        advise_dense(pager, SB_PAGES_usual);
}

/* True if a unit of this size may stay under the limit; then its bytes are counted as kept. */
static int takes_room(sb_pager *p, uint64_t bytes)
{
    const uint64_t limit = atomic_load(&p->limit);
    unsigned long long kept = atomic_load(&p->kept);
    do
        if (limit && kept + bytes > limit)
            return 0;
    while (!atomic_compare_exchange_weak(&p->kept, &kept, kept + bytes));
    return 1;
}

/* Asks the system to read a unit while the caller continues. Dense weights in large pages are not
 * requested here, because that would read them in small pages. A unit that stays is requested only
 * once. If the system drops its pages, the system reads them again at the next touch. */
static void want(sb_pager *p, size_t number)
{
    const unit *u = &p->units[number];
    unsigned char was = ABSENT;
    if (u->count == 0 || atomic_load(&p->state[number]) != ABSENT)
        return;
    int room = takes_room(p, u->bytes);
    if (!atomic_compare_exchange_strong(&p->state[number], &was, room ? STAYS : PASSES)) {
        if (room)
            atomic_fetch_sub(&p->kept, u->bytes);
        return;
    }
    atomic_fetch_add(&p->asked, u->bytes);
    if (!atomic_load(&p->large) || number % (1 + p->experts) != 0)
        advise(p, u, SB_PAGES_soon);
}

void sb_pager_enter(sb_pager *pager, uint32_t layer)
{
    if (!pager || layer > pager->layers)
        return;
    want(pager, unit_of(pager, layer, 0));
    if (layer < pager->layers)
        want(pager, unit_of(pager, layer + 1, 0));
}

void sb_pager_experts(sb_pager *pager, uint32_t layer, const uint32_t *ids, size_t n)
{
    if (!pager || layer >= pager->layers)
        return;
    for (size_t i = 0; i < n; i++)
        if (ids[i] < pager->experts)
            want(pager, unit_of(pager, layer, 1 + ids[i]));
}

/* The system also reads pages next to a touched page. These may belong to experts that were not
 * chosen. So all units of the layer that do not stay are released. */
void sb_pager_leave(sb_pager *pager, uint32_t layer)
{
    if (!pager || layer > pager->layers || atomic_load(&pager->limit) == 0 ||
        atomic_load(&pager->limit) >= pager->bytes)
        return;
    for (uint32_t e = 0; e <= pager->experts; e++) {
        size_t number = unit_of(pager, layer, e);
        unsigned char was = PASSES;
        atomic_compare_exchange_strong(&pager->state[number], &was, ABSENT);
        if (was != STAYS)
            advise(pager, &pager->units[number], SB_PAGES_done);
    }
    if (pager->fn)
        pager->fn(pager->ctx, atomic_load(&pager->asked));
}
