/* experts.c - the twin of the expert ops. Rows that chose the same expert are gathered and
 * multiplied by its weights together. Threads share all matrices of a call in one loop.
 *
 * Each output of `linear` depends on one row of weights and one row of the input, so any
 * grouping gives the same bits as one op for each row and slot. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/fast/fast.h"

/* The pairs of row and slot, grouped by expert. Group g is order[first[g]] to order[first[g + 1] -
 * 1]. */
typedef struct grouped {
    size_t *order, *first;
    size_t groups;
} grouped;

/* Row counts of one matrix for one thread are multiples of LINE, so that no two threads write to
 * the same cache line. */
enum { LINE = 16, LEAST = 64 };

static void free_grouped(grouped *g)
{
    free(g->order);
    free(g->first);
}

/* Counting sort, which keeps the order of pairs of the same expert. */
static sb_status group(const sb_expert_linear_args *a, grouped *g)
{
    size_t pairs = a->rows * a->kept, at = 0;
    size_t *next = sb_alloc(a->experts, sizeof *next);
    *g = (grouped){.order = sb_alloc(pairs, sizeof *g->order),
                   .first = sb_alloc(pairs + 1, sizeof *g->first)};
    sb_status status = next && g->order && g->first ? SB_OK : SB_ERR_MEMORY;
    for (size_t i = 0; i < pairs && !status; i++)
        next[a->ids[i]]++;
    for (size_t e = 0; e < a->experts && !status; e++) {
        size_t count = next[e];
        next[e] = at;
        if (count)
            g->first[g->groups++] = at;
        at += count;
    }
    for (size_t i = 0; i < pairs && !status; i++)
        g->order[next[a->ids[i]]++] = i;
    if (!status)
        g->first[g->groups] = pairs;
    free(next);
    return status;
}

/* Rows first .. first + rows - 1 of the expert matrix of group g. */
typedef struct piece {
    const sb_expert_linear_args *all;
    const size_t *pairs;
    size_t count;
    uint32_t first, rows;
} piece;

static sb_matrix rows_of(const sb_matrix *w, uint32_t first, uint32_t rows)
{
    sb_matrix part = *w;
    part.rows = rows;
    if (w->row_map)
        part.row_map = w->row_map + first;
    else
        part.first_row += first;
    return part;
}

static sb_status run_gathered(const sb_knobs *knobs, const piece *p, const sb_matrix *part,
                              size_t n)
{
    const sb_expert_linear_args *a = p->all;
    size_t k = part->cols;
    float *in = sb_alloc(p->count, k * sizeof *in),
          *out = sb_alloc(p->count, p->rows * sizeof *out);
    sb_status status = in && out ? SB_OK : SB_ERR_MEMORY;
    for (size_t i = 0; i < p->count && !status; i++)
        memcpy(in + i * k, a->in + p->pairs[i] / a->each * k, k * sizeof *in);
    const sb_linear_args args = {
        .weight = part, .kind = a->kind, .in = in, .rows = p->count, .out = out};
    if (!status)
        status = sb_linear_fast(knobs, &args);
    for (size_t i = 0; i < p->count && !status; i++)
        memcpy(a->out + p->pairs[i] * n + p->first, out + i * p->rows, p->rows * sizeof *out);
    free(in);
    free(out);
    return status;
}

static sb_status run_piece(const sb_knobs *knobs, const piece *p)
{
    const sb_expert_linear_args *a = p->all;
    const sb_matrix *w = sb_expert_weight(a, a->ids[p->pairs[0]]);
    const sb_matrix part = rows_of(w, p->first, p->rows);
    if (p->count > 1)
        return run_gathered(knobs, p, &part, w->rows);
    return sb_linear_fast(
        knobs, &(const sb_linear_args){.weight = &part,
                                       .kind = a->kind,
                                       .in = a->in + p->pairs[0] / a->each * w->cols,
                                       .rows = 1,
                                       .out = a->out + p->pairs[0] * w->rows + p->first});
}

/* The number of rows of a piece. Pieces are so small that there are several for each thread, and a
 * thread that finishes early takes another piece. */
static uint32_t piece_rows(uint32_t rows, size_t matrices)
{
    size_t threads = sb_threads();
    size_t parts = threads < 2 ? 1 : (4 * threads + matrices - 1) / matrices;
    uint32_t each = (uint32_t)((rows + parts - 1) / parts);
    each = (each + LINE - 1) / LINE * LINE;
    return each < LEAST ? LEAST : each;
}

static double products(const sb_expert_linear_args *a, size_t n)
{
    return (double)n * (double)(a->rows * a->kept) * a->weight->rows * a->weight->cols;
}

typedef struct work {
    const sb_knobs *knobs;
    const sb_expert_linear_args *args;
    size_t n, parts; /* matrices per expert, and pieces per matrix */
    uint32_t each;   /* rows per piece */
    grouped g;
    atomic_int worst;
} work;

static void one_piece(void *ctx, size_t i, size_t worker)
{
    work *j = ctx;
    const size_t matrix = i / j->parts, at = matrix / j->n;
    const uint32_t rows = j->args->weight->rows, first = (uint32_t)(i % j->parts) * j->each;
    const piece p = {.all = j->args + matrix % j->n,
                     .pairs = j->g.order + j->g.first[at],
                     .count = j->g.first[at + 1] - j->g.first[at],
                     .first = first,
                     .rows = rows - first < j->each ? rows - first : j->each};
    const int failed = (int)run_piece(j->knobs, &p);
    int worst = atomic_load(&j->worst);
    (void)worker;
    while (failed > worst && !atomic_compare_exchange_weak(&j->worst, &worst, failed))
        ;
}

sb_status sb_experts_fast(const sb_knobs *knobs, const sb_expert_linear_args *args, size_t n)
{
    const uint32_t rows = args->weight->rows;
    work j = {.knobs = knobs, .args = args, .n = n};
    const sb_status status = group(args, &j.g);
    j.each = piece_rows(rows, n * (j.g.groups ? j.g.groups : 1));
    j.parts = (rows + j.each - 1) / j.each;
    atomic_store(&j.worst, (int)status);
    sb_parallel_in_order(status ? 0 : n * j.g.groups * j.parts, sb_worth_threads(products(args, n)),
                         one_piece, &j);
    free_grouped(&j.g);
    return (sb_status)atomic_load(&j.worst);
}
