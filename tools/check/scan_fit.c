/* scan_fit.c - a sample of the groups of a matrix, ranked by scale, zero point and codes. */
#include "tools/check/scan_fit.h"

#include "ref/formats/wide.h"

enum {
    GROUPS = 2048, /* V-155: "At most 2048 groups of a matrix" */
    CODES = 256,   /* ... "the first 256 codes of each" */
    WINDOW = 64,   /* ... "64 at a time, every pair" */
    LEAST = 16     /* groups at the end of a panel that are a window, too */
};

typedef struct sample {
    const sb_matrix *m;
    sb_fit *fit;
    int zeros; /* there are zero points */
    double own_zeros[GROUPS];
    double scale[WINDOW], zero[WINDOW];  /* of groups: columns of a row that share a scale */
    double mean[WINDOW], spread[WINDOW]; /* of their codes: mean and variance */
    unsigned count;
} sample;

/* --- Kendall's statistic ------------------------------------------------------------------------
 */

static void sort(const double *key, unsigned n, unsigned char *order)
{
    for (unsigned i = 0; i < n; i++) {
        unsigned at = i;
        for (; at > 0 && key[order[at - 1]] > key[i]; at--)
            order[at] = order[at - 1];
        order[at] = (unsigned char)i;
    }
}

/* The end of a stretch of equal keys that begins at `first`. */
static unsigned end_of_ties(const double *key, const unsigned char *order, unsigned n,
                            unsigned first)
{
    unsigned end = first + 1;
    while (end < n && key[order[end]] == key[order[first]])
        end++;
    return end;
}

static uint64_t below(unsigned bit)
{
    return bit < 64 ? (UINT64_C(1) << bit) - 1 : UINT64_MAX;
}

/* Of the pairs of n things, those that x and y order alike less those that they do not; *ranked
 * grows by those that x orders. Things come by rising x. `seen` has a bit for each of smaller x, at
 * its place by rising y: below its own place the pairs agree, above it they do not. */
static int64_t kendall(const double *x, const double *y, unsigned n, uint64_t *ranked)
{
    unsigned char by_x[WINDOW], by_y[WINDOW];
    uint64_t less[WINDOW], more[WINDOW], place[WINDOW], seen = 0;
    int64_t agree = 0;
    sort(x, n, by_x);
    sort(y, n, by_y);
    for (unsigned first = 0, end; first < n; first = end) {
        end = end_of_ties(y, by_y, n, first);
        for (unsigned i = first; i < end; i++) {
            less[by_y[i]] = below(first);
            more[by_y[i]] = ~below(end);
            place[by_y[i]] = UINT64_C(1) << i;
        }
    }
    for (unsigned first = 0, end; first < n; first = end) {
        end = end_of_ties(x, by_x, n, first);
        *ranked += (uint64_t)first * (end - first);
        for (unsigned i = first; i < end; i++)
            agree += __builtin_popcountll(seen & less[by_x[i]]) -
                     __builtin_popcountll(seen & more[by_x[i]]);
        for (unsigned i = first; i < end; i++)
            seen |= place[by_x[i]];
    }
    return agree;
}

static void end_window(sample *s)
{
    sb_fit *f = s->fit;
    uint64_t n = s->count;
    f->agree[SB_FIT_SCALES] -= kendall(s->scale, s->spread, s->count, &f->ranked[SB_FIT_SCALES]);
    if (s->zeros)
        f->agree[SB_FIT_ZEROS] += kendall(s->zero, s->mean, s->count, &f->ranked[SB_FIT_ZEROS]);
    f->pairs += n * (n - 1) / 2;
    f->variance += n * (n - 1) * (2 * n + 5); /* Kendall's */
    s->count = 0;
}

/* --- the sample ---------------------------------------------------------------------------------
 */

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
    double scale = (double)sb_matrix_scale(s->m, row, first);
    scale = scale < 0 ? -scale : scale;  /* AutoRound's have a sign */
    if (!(squares > 0) || !(scale >= 0)) /* a dead group has any scale; NaN is told of elsewhere */
        return;
    const unsigned at = s->count++;
    s->scale[at] = scale;
    s->zero[at] = s->zeros && index < GROUPS ? s->own_zeros[index] : 0;
    s->mean[at] = sum / count + s->zero[at];
    s->spread[at] = squares / count - sum / count * (sum / count);
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
