/* scan_fit.c - check 55: samples the groups of a matrix, and ranks them by scale, zero point and
 * codes. */
#include "tools/check/scan/scan_fit.h"

#include "ref/base/bytes.h"
#include "ref/formats/wide.h"
#include "tools/check/scan/kendall.h"
#include "tools/check/scan/nibble_spreads.h"

enum {
    GROUPS = 2048,          /* V-155: "At most 2048 groups of a matrix" */
    CODES = 256,            /* ... "the first 256 codes of each" */
    WINDOW = SB_FIT_WINDOW, /* ... "64 at a time, every pair" */
    LEAST = 16              /* least number of groups for the last window of a panel */
};

typedef struct sample {
    const sb_matrix *m;
    sb_fit *fit;
    int zeros; /* the matrix has zero points */
    sb_kendall_fn *kendall;
    int nibble; /* E2M1 codes in groups of 16 under E4M3 scales */
    double own_zeros[GROUPS];
    double scale[WINDOW], zero[WINDOW];  /* for each group: columns of a row that share a scale */
    double mean[WINDOW], spread[WINDOW]; /* mean and variance of the group's codes */
    sb_spreads_fn *spreads;
    uint64_t codes[WINDOW]; /* of nibble groups, instead of the numbers above */
    sb_fit_keys scale_key, spread_key;
    unsigned count;
} sample;

/* --- Kendall's statistic ---------------------------------------------------------------------- */

/* Sets the rank of each number: how many numbers are smaller. */
static void rank(const double *x, unsigned n, sb_fit_keys key)
{
    for (unsigned i = 0; i < n; i++) {
        int64_t less = 0;
#if !defined(__clang__) /* clang would unroll the loop and then not vectorize it */
#pragma omp simd reduction(+ : less)
#endif
        for (unsigned j = 0; j < n; j++)
            less += x[j] < x[i];
        key[i] = (int16_t)less;
    }
}

static void end_window(sample *s)
{
    sb_fit *f = s->fit;
    uint64_t n = s->count;
    if (s->nibble) {
        s->spreads(s->codes, s->count, s->spread_key);
    } else {
        rank(s->scale, s->count, s->scale_key);
        rank(s->spread, s->count, s->spread_key);
    }
    f->agree[SB_FIT_SCALES] -=
        s->kendall(s->scale_key, s->spread_key, s->count, &f->ranked[SB_FIT_SCALES]);
    if (s->zeros) {
        sb_fit_keys zero, mean;
        rank(s->zero, s->count, zero);
        rank(s->mean, s->count, mean);
        f->agree[SB_FIT_ZEROS] += s->kendall(zero, mean, s->count, &f->ranked[SB_FIT_ZEROS]);
    }
    f->pairs += n * (n - 1) / 2;
    f->variance += n * (n - 1) * (2 * n + 5); /* as Kendall defines it */
    s->count = 0;
}

/* --- the sample ------------------------------------------------------------------------------- */

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
    scale = scale < 0 ? -scale : scale; /* scales of AutoRound have a sign */
    /* a dead group may have any scale; other checks report NaN */
    if (!(squares > 0) || !(scale >= 0))
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

/* As take_group, for NVFP4. The bytes of E4M3 scales are ordered like their values. */
static void take_nibbles(sample *s, uint32_t row, uint32_t index)
{
    const sb_quant *q = &s->m->quant;
    uint64_t stored = sb_matrix_stored_row(s->m, row);
    uint64_t codes = sb_load_u64(s->m->data + stored * (s->m->cols / 2) + 8 * (size_t)index);
    unsigned scale = q->scales[stored * q->scale_row + index * q->scale_col];
    if (!(codes & 0x7777777777777777u) || scale >= 0x7f) /* dead group; NaN or negative scale */
        return;
    s->scale_key[s->count] = (int16_t)scale;
    s->codes[s->count] = codes;
    if (++s->count == WINDOW)
        end_window(s);
}

void sb_scan_fit(const sb_panel *panel)
{
    const sb_matrix *m = &panel->matrix;
    const sb_quant *q = &m->quant;
    if (!q->scales || q->group_index || !q->block_cols || q->block_rows != 1 || !q->groups)
        return;
    uint64_t all = (uint64_t)panel->rows * q->groups, step = all / GROUPS + 1;
    step += step % 2 == 0; /* an odd step, so that all groups of a row get their turn */
    sample s = {.m = m, .fit = &panel->seen->fit, .kendall = sb_kendall(), .spreads = sb_spreads()};
    s.zeros = sb_matrix_has_zeros(m) && q->groups <= GROUPS;
    s.nibble = !s.zeros && m->format == SB_FORMAT_e2m1 && q->scale_format == SB_FORMAT_e4m3 &&
               q->packing == SB_PACKING_rows && q->block_cols == 16 && m->cols % 16 == 0;
    uint64_t begin = (uint64_t)panel->first * q->groups,
             end = begin + (uint64_t)m->rows * q->groups;
    uint32_t known = UINT32_MAX;
    uint64_t first = (begin + step - 1) / step * step - begin, left = end - begin;
    uint32_t row = (uint32_t)(first / q->groups), index = (uint32_t)(first % q->groups);
    const uint32_t rows = (uint32_t)(step / q->groups), more = (uint32_t)(step % q->groups);
    for (uint64_t at = first; at < left; at += step, row += rows, index += more) {
        if (index >= q->groups)
            row++, index -= q->groups;
        if (s.zeros && row != known)
            sb_matrix_zeros(m, known = row, s.own_zeros);
        if (s.nibble)
            take_nibbles(&s, row, index);
        else
            take_group(&s, row, index);
    }
    if (s.count >= LEAST)
        end_window(&s);
}
