#include "tools/check/scan_columns.h"

#include <string.h>

#include "ref/formats/wide.h"

/* Marks columns of a row that are not zero; 1 if there are any. */
static int mark(const sb_matrix *m, uint32_t row, double *values, unsigned char *live)
{
    int any = 0;
    sb_matrix_wide(m, row, values);
    for (uint32_t k = 0; k < m->cols; k++) {
        unsigned char alive = values[k] != 0;
        any |= alive;
        live[k] |= alive;
    }
    return any;
}

/* Columns that are zero in the original, too, are as they should be. */
static void mark_dead(const sb_matrix *m, uint32_t row, double *values, unsigned char *live)
{
    sb_matrix_wide(m, row, values);
    for (uint32_t k = 0; k < m->cols; k++)
        live[k] |= values[k] == 0 ? 2 : 0;
}

static void longest(sb_seen *seen, const unsigned char *live, uint32_t cols)
{
    for (uint32_t k = 0, run = 0; k < cols; k++) {
        run = live[k] ? 0 : run + 1;
        if (run > seen->zero_cols) {
            seen->zero_cols = run;
            seen->zero_cols_first = k + 1 - run;
        }
    }
}

void sb_scan_columns(const sb_panel *panel, unsigned char *live)
{
    const sb_matrix *m = &panel->matrix;
    sb_seen *seen = panel->seen;
    if (panel->first == 0)
        memset(live, 0, m->cols);
    for (unsigned i = 0; i < SB_COLUMN_ROWS && panel->rows >= SB_COLUMN_VOTES; i++) {
        uint32_t row = (uint32_t)((uint64_t)panel->rows * i / SB_COLUMN_ROWS);
        uint32_t next = (uint32_t)((uint64_t)panel->rows * (i + 1) / SB_COLUMN_ROWS);
        if (row == next || row < panel->first || row >= panel->first + m->rows)
            continue;
        seen->column_votes += (unsigned)mark(m, row - panel->first, panel->scratch, live);
        if (panel->master)
            mark_dead(panel->master, row - panel->first, panel->scratch, live);
    }
    if (panel->last && seen->column_votes >= SB_COLUMN_VOTES)
        longest(seen, live, m->cols);
}
