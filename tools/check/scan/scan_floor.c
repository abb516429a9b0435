#include "tools/check/scan/scan_floor.h"

#include <inttypes.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/wide.h"
#include "tools/check/scan/fp4.h"
#include "tools/check/scan/ints.h"

enum {
    ROWS = 16,    /* sampled rows of a panel */
    VOTES = 8,    /* of these, the number that a run of columns needs */
    AT_LEAST = 2, /* least number of consecutive sampled rows */
    COLUMNS = 32, /* least number of consecutive columns */
    PART = 8      /* ... and least part of all columns: 1 / PART */
};

/* Codes and marks of a panel, in its scratch: 4 bytes and 1 byte per column. */
typedef struct marks {
    float *codes;
    unsigned char *floor; /* columns whose bits were zero in every row that counts */
} marks;

static uint32_t group_of(const sb_quant *q, uint32_t column)
{
    return q->group_index ? sb_load_u32(q->group_index + 4 * (uint64_t)column)
                          : column / q->block_cols;
}

/* Marks the codes of a row that have no bit set, but a nonzero weight because of their zero point.
 * Returns their number. */
static uint32_t mark(const sb_matrix *m, uint32_t row, double *zeros, marks *at, unsigned char *own)
{
    double *scales = zeros + m->quant.groups;
    uint32_t count = 0;
    sb_matrix_codes(m, row, 0, m->cols, at->codes);
    sb_matrix_zeros(m, row, zeros);
    sb_matrix_scales(m, row, scales);
    for (uint32_t k = 0; k < m->cols; k++) {
        uint32_t group = group_of(&m->quant, k);
        double zero = group < m->quant.groups && !sb_int_at_floor(scales[group]) ? zeros[group] : 0;
        own[k] = zero > 0 && (double)at->codes[k] == -zero;
        count += own[k];
    }
    return count;
}

static void tell_rows(const sb_panel *p, uint32_t first, uint32_t last, uint32_t count)
{
    char piece[288];
    sb_find(p->findings, 21, SB_LEVEL_error, sb_unit_tensor(p->unit, SB_PART_COUNT),
            "%sall bits of the codes of rows %" PRIu32 " to %" PRIu32 " are 0 in %" PRIu32
            " sampled rows in succession, expected codes of weights: every weight is the most "
            "negative one, so these words were not written",
            sb_fp4_piece(p, piece, sizeof piece), p->first + first, p->first + last, count);
}

static void tell_columns(const sb_panel *p, const unsigned char *floor, uint32_t votes)
{
    uint32_t longest = 0, end = 0, cols = p->matrix.cols;
    char piece[288];
    for (uint32_t k = 0, run = 0; k < cols; k++) {
        run = floor[k] ? run + 1 : 0;
        if (run > longest) {
            longest = run;
            end = k;
        }
    }
    if (longest >= COLUMNS && (uint64_t)longest * PART >= cols)
        sb_find(p->findings, 21, SB_LEVEL_error, sb_unit_tensor(p->unit, SB_PART_COUNT),
                "%sall bits of the codes of columns %" PRIu32 " to %" PRIu32 " of %" PRIu32
                " are 0 in %" PRIu32 " sampled rows, expected codes of weights: every weight is "
                "the most negative one, so these words were not written",
                sb_fp4_piece(p, piece, sizeof piece), end + 1 - longest, end, cols, votes);
}

void sb_scan_floor(const sb_panel *panel)
{
    const sb_matrix *m = &panel->matrix;
    unsigned char *own = (unsigned char *)panel->scratch + 4 * (size_t)m->cols;
    marks at = {.codes = (float *)(void *)panel->scratch, .floor = own + m->cols};
    double *zeros = panel->scratch + m->cols; /* the other half */
    uint32_t votes = 0, run = 0, longest = 0, last = 0, begin = 0;
    if (!sb_matrix_has_zeros(m) || m->rows < ROWS || 2 * m->quant.groups > m->cols)
        return;
    memset(at.floor, 1, m->cols);
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t row = (uint32_t)((uint64_t)m->rows * i / ROWS);
        uint32_t count = mark(m, row, zeros, &at, own);
        run = count == m->cols ? run + 1 : 0;
        if (run > longest) {
            longest = run;
            last = row;
            begin = (uint32_t)((uint64_t)m->rows * (i + 1 - run) / ROWS);
        }
        votes += count < m->cols;
        for (uint32_t k = 0; k < m->cols && count < m->cols; k++)
            at.floor[k] &= own[k];
    }
    if (longest >= AT_LEAST)
        tell_rows(panel, begin, last, longest);
    if (votes >= VOTES)
        tell_columns(panel, at.floor, votes);
}
