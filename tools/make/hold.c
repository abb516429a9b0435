/* hold.c - computes whole quantized layers, drawing each weight once. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/formats/format.h"
#include "tools/make/bulk.h"
#include "tools/make/pieces_parts.h"

enum { PARTNERS = 8 };                                  /* most layers that share a factor */
static const uint64_t MOST_WEIGHTS = UINT64_C(1) << 26; /* weights in memory at once */

/* Layers that share a factor, and their weights in BF16. */
typedef struct group {
    size_t first, count;
    sb_bands bands[PARTNERS];
    unsigned char *weights[PARTNERS];
} group;

void sb_pieces_let_go(sb_pieces *p, size_t linear)
{
    sb_held *h = &p->held[linear];
    for (unsigned i = 0; i < 3; i++) {
        if (h->bytes[i])
            p->held_bytes -= h->size[i];
        free(h->bytes[i]);
        h->bytes[i] = NULL;
    }
}

/* Finds the layers that share a factor, and whether there is room for all of them. */
static sb_status find_group(sb_pieces *p, size_t linear, group *g, int *fits, sb_error *err)
{
    const sb_make_plan *plan = p->plan;
    uint64_t bytes = p->held_bytes, weights = 0;
    *g = (group){.first = plan->linears[linear].fused};
    *fits = sb_scheme_at(plan->linears[linear].scheme)->band != 0;
    for (size_t i = g->first; i < plan->linear_count && *fits; i++) {
        const sb_make_linear *l = &plan->linears[i];
        if (l->fused != g->first)
            break;
        p->held[i].tried = 1;
        if (g->count == PARTNERS) {
            *fits = 0;
            break;
        }
        sb_bands *b = &g->bands[g->count++];
        sb_status status = sb_pieces_measure(p, i, b, err);
        if (status)
            return status;
        weights += l->rows * l->cols;
        bytes += (uint64_t)b->all[0] + b->all[1] + b->all[2];
        *fits = weights <= MOST_WEIGHTS && bytes <= p->most;
    }
    return SB_OK;
}

static size_t count_of(const sb_bands *b)
{
    return (size_t)(b->linear->rows * b->linear->cols);
}

typedef struct layer_job {
    const sb_pieces *p;
    const sb_bands *b;
    sb_held *h;
    float factor, *room; /* `each` values per thread */
    size_t each;
    unsigned char *weights;
    _Atomic uint32_t largest; /* bits of a magnitude, which have its order */
} layer_job;

static void draw_rows(void *ctx, size_t i, size_t worker)
{
    layer_job *j = ctx;
    const sb_make_linear *l = j->b->linear;
    const uint64_t r = (uint64_t)i * SB_PIECES_ROWS;
    const uint64_t n = l->rows - r < SB_PIECES_ROWS ? l->rows - r : SB_PIECES_ROWS;
    float *mine = j->room + worker * j->each;
    sb_pieces_draw(j->p, l, r, n, mine);
    sb_bulk_bf16_codes(mine, (size_t)(n * l->cols), j->weights + 2 * r * l->cols);
    sb_pieces_keep_largest(&j->largest, sb_largest(mine, (size_t)(n * l->cols)));
}

/* Draws a layer and finds its largest magnitude. */
static float draw(layer_job *j)
{
    const uint64_t rows = j->b->linear->rows;
    atomic_store(&j->largest, 0);
    sb_parallel_in_order((size_t)((rows + SB_PIECES_ROWS - 1) / SB_PIECES_ROWS),
                         count_of(j->b) > SB_PIECES_ALONE, draw_rows, j);
    return sb_f32_from_bits(atomic_load(&j->largest));
}

static void quantize_band(void *ctx, size_t i, size_t worker)
{
    const layer_job *j = ctx;
    const sb_bands *b = j->b;
    const sb_make_linear *l = b->linear;
    sb_band work = b->prototype;
    const uint64_t first = i * b->rows;
    float *mine = j->room + worker * j->each;
    work.rows = l->rows - first < b->rows ? l->rows - first : b->rows;
    sb_decode(SB_FORMAT_bf16, j->weights + 2 * first * l->cols, (size_t)(work.rows * l->cols),
              mine);
    work.weights = mine;
    work.factor = j->factor;
    work.codes = j->h->bytes[0] + i * b->bytes[0];
    work.scales = j->h->bytes[1] + i * b->bytes[1];
    work.zeros = j->h->bytes[2] + i * b->bytes[2];
    sb_scheme_at(l->scheme)->quantize(&work);
}

static void quantize(layer_job *j)
{
    const sb_bands *b = j->b;
    sb_parallel_in_order((size_t)((b->linear->rows + b->rows - 1) / b->rows),
                         count_of(b) > SB_PIECES_ALONE, quantize_band, j);
}

/* Allocates the results and the weights of all layers, and one band per thread. */
static int make_room(sb_pieces *p, group *g, float **room, size_t *each)
{
    int failed = 0;
    *each = 0;
    for (size_t i = 0; i < g->count; i++) {
        const sb_bands *b = &g->bands[i];
        sb_held *h = &p->held[g->first + i];
        uint64_t rows = b->rows > SB_PIECES_ROWS ? b->rows : SB_PIECES_ROWS;
        *each = rows * b->linear->cols > *each ? (size_t)(rows * b->linear->cols) : *each;
        g->weights[i] = sb_alloc(count_of(b), 2);
        failed |= !g->weights[i];
        for (unsigned k = 0; k < 3; k++) {
            h->size[k] = b->all[k];
            h->bytes[k] = sb_alloc(b->all[k], 1);
            failed |= !h->bytes[k];
            p->held_bytes += h->bytes[k] ? b->all[k] : 0;
            h->left += b->all[k];
        }
    }
    *room = sb_alloc(sb_threads() * *each, sizeof **room);
    return !failed && *room;
}

sb_status sb_pieces_hold(sb_pieces *p, size_t linear, sb_error *err)
{
    const sb_scheme_info *info = sb_scheme_at(p->plan->linears[linear].scheme);
    group g;
    int fits = 0;
    float largest = 0.0f;
    layer_job j = {.p = p};
    sb_status status = p->held[linear].tried ? SB_OK : find_group(p, linear, &g, &fits, err);
    if (status || !fits)
        return status;
    if (make_room(p, &g, &j.room, &j.each)) {
        for (size_t i = 0; i < g.count; i++) {
            j.b = &g.bands[i];
            j.weights = g.weights[i];
            float a = draw(&j);
            p->largest[g.first + i] = a;
            largest = a > largest ? a : largest;
        }
        if (info->factor)
            j.factor = info->factor(largest, p->plan->rule);
        for (size_t i = 0; i < g.count; i++) {
            j.b = &g.bands[i];
            j.h = &p->held[g.first + i];
            j.weights = g.weights[i];
            quantize(&j);
        }
    } else {
        status = sb_fail(err, SB_ERR_MEMORY, "out of memory for rows of %s",
                         p->plan->linears[linear].module);
    }
    for (size_t i = 0; i < g.count; i++)
        free(g.weights[i]);
    free(j.room);
    return status;
}

int sb_pieces_held(sb_pieces *p, size_t linear, unsigned which, uint64_t first,
                   unsigned char *bytes, size_t count)
{
    sb_held *h = &p->held[linear];
    if (!h->bytes[which])
        return 0;
    memcpy(bytes, h->bytes[which] + first, count);
    h->left -= count;
    if (h->left == 0)
        sb_pieces_let_go(p, linear);
    return 1;
}
