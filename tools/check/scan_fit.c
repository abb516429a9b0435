/* scan_fit.c - a sample of the groups of a matrix, ranked by scale, zero point and codes. */
#include "tools/check/scan_fit.h"

#include "ref/formats/wide.h"

enum {
    GROUPS = 2048, /* V-155: "At most 2048 groups of a matrix" */
    CODES = 256,   /* ... "the first 256 codes of each" */
    WINDOW = 64,   /* ... "64 at a time, every pair" */
    LEAST = 16     /* groups at the end of a panel that are a window, too */
};

/* A group: the columns of a row that share a scale. */
typedef struct group {
    double scale, zero;
    double mean, spread; /* of the codes: their mean and variance */
} group;

typedef struct sample {
    const sb_matrix *m;
    sb_fit *fit;
    int zeros; /* there are zero points */
    double own_zeros[GROUPS];
    group groups[WINDOW];
    unsigned count;
} sample;

static int order_of(double a, double b)
{
    return (a > b) - (a < b);
}

static void end_window(sample *s)
{
    sb_fit *f = s->fit;
    uint64_t n = s->count;
    for (unsigned i = 1; i < s->count; i++)
        for (unsigned j = 0; j < i; j++) {
            const group *a = &s->groups[i], *b = &s->groups[j];
            int scales = order_of(a->scale, b->scale), zeros = order_of(a->zero, b->zero);
            f->ranked[SB_FIT_SCALES] += scales != 0;
            f->ranked[SB_FIT_ZEROS] += zeros != 0;
            f->agree[SB_FIT_SCALES] -= scales * order_of(a->spread, b->spread);
            f->agree[SB_FIT_ZEROS] += zeros * order_of(a->mean, b->mean);
        }
    f->pairs += n * (n - 1) / 2;
    f->variance += n * (n - 1) * (2 * n + 5); /* Kendall's */
    s->count = 0;
}

static void take_group(sample *s, uint32_t row, uint32_t index)
{
    const sb_quant *q = &s->m->quant;
    float codes[CODES];
    uint32_t first = index * q->block_cols;
    uint32_t count = s->m->cols - first < q->block_cols ? s->m->cols - first : q->block_cols;
    double sum = 0, squares = 0;
    count = count < CODES ? count : CODES;
    sb_matrix_codes(s->m, row, first, count, codes);
    for (uint32_t k = 0; k < count; k++) {
        sum += (double)codes[k];
        squares += (double)codes[k] * (double)codes[k];
    }
    if (!(squares > 0)) /* a dead group has any scale; NaN is told of elsewhere */
        return;
    group *g = &s->groups[s->count++];
    g->scale = (double)sb_matrix_scale(s->m, row, first);
    g->scale = g->scale < 0 ? -g->scale : g->scale; /* AutoRound's have a sign */
    g->zero = s->zeros && index < GROUPS ? s->own_zeros[index] : 0;
    g->mean = sum / count + g->zero;
    g->spread = squares / count - sum / count * (sum / count);
    if (s->zeros) {
        s->fit->steps += (int64_t)sum;
        s->fit->codes += count;
    }
    if (s->count == WINDOW)
        end_window(s);
}

void sb_scan_fit(const sb_panel *panel)
{
    const sb_matrix *m = &panel->matrix;
    const sb_quant *q = &m->quant;
    if (!q->scales || q->group_index || !q->block_cols || q->block_rows != 1 || !q->groups)
        return;
    uint64_t all = (uint64_t)panel->rows * q->groups, step = all / GROUPS + 1;
    step += step % 2 == 0; /* every group of a row comes in turn */
    sample s = {.m = m, .fit = &panel->seen->fit};
    s.zeros = sb_matrix_has_zeros(m) && q->groups <= GROUPS;
    uint64_t begin = (uint64_t)panel->first * q->groups,
             end = begin + (uint64_t)m->rows * q->groups;
    uint32_t known = UINT32_MAX;
    for (uint64_t at = (begin + step - 1) / step * step; at < end; at += step) {
        uint32_t row = (uint32_t)((at - begin) / q->groups);
        if (s.zeros && row != known)
            sb_matrix_zeros(m, known = row, s.own_zeros);
        take_group(&s, row, (uint32_t)((at - begin) % q->groups));
    }
    if (s.count >= LEAST)
        end_window(&s);
}
