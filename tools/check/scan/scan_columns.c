#include "tools/check/scan/scan_columns.h"

#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"

/* 1 if a scale is a number above zero. */
static int is_usual(sb_format format, const unsigned char *p)
{
    switch (format) {
    case SB_FORMAT_e4m3:
        return *p > 0 && *p < 0x7f;
    case SB_FORMAT_e8m0:
        return *p < 0xff;
    case SB_FORMAT_bf16:
        return sb_load_u16(p) > 0 && sb_load_u16(p) < 0x7f80;
    case SB_FORMAT_f32:
        return sb_load_u32(p) > 0 && sb_load_u32(p) < 0x7f800000u;
    default:
        return 0;
    }
}

/* 1 if each weight of the row is zero exactly where its code is. */
static int codes_will_do(const sb_matrix *m, uint32_t row)
{
    const sb_quant *q = &m->quant;
    if (!sb_matrix_quantized(m))
        return m->format == SB_FORMAT_bf16;
    if (q->packing != SB_PACKING_rows || q->group_index || !q->scales ||
        (m->format != SB_FORMAT_e2m1 && m->format != SB_FORMAT_e4m3))
        return 0;
    uint64_t line = sb_matrix_stored_row(m, row) / q->block_rows * q->scale_row;
    unsigned bytes = sb_format_bits(q->scale_format) / 8;
    for (uint32_t g = 0; g < q->groups; g++)
        if (!is_usual(q->scale_format, q->scales + (line + g * q->scale_col) * bytes))
            return 0;
    return 1;
}

/* These functions set `of` in the columns of a row that are zero and `other` in the rest. They
 * return whether any column was marked. */
static unsigned char mark_bf16(const unsigned char *p, uint32_t cols, unsigned char of,
                               unsigned char other, unsigned char *live)
{
    unsigned char any = 0;
#pragma omp simd reduction(| : any)
    for (uint32_t k = 0; k < cols; k++) {
        unsigned char is = (p[2 * (size_t)k] | (p[2 * (size_t)k + 1] & 0x7f)) == 0 ? of : other;
        live[k] |= is;
        any |= is;
    }
    return any;
}

static unsigned char mark_bytes(const unsigned char *p, uint32_t cols, unsigned char of,
                                unsigned char other, unsigned char *live)
{
    unsigned char any = 0;
#pragma omp simd reduction(| : any)
    for (uint32_t k = 0; k < cols; k++) {
        unsigned char is = (p[k] & 0x7f) == 0 ? of : other;
        live[k] |= is;
        any |= is;
    }
    return any;
}

static unsigned char mark_nibbles(const unsigned char *p, uint32_t cols, unsigned char of,
                                  unsigned char other, unsigned char *live)
{
    unsigned char any = 0;
#pragma omp simd reduction(| : any)
    for (uint32_t k = 0; k < cols / 2; k++) {
        unsigned char low = (p[k] & 0x07) == 0 ? of : other, high = (p[k] & 0x70) == 0 ? of : other;
        live[2 * (size_t)k] |= low;
        live[2 * (size_t)k + 1] |= high;
        any |= low | high;
    }
    return any;
}

static int mark_codes(const sb_matrix *m, uint32_t row, int zero, unsigned char mark,
                      unsigned char *live)
{
    const unsigned char *p = sb_matrix_dense(m, row), of = zero ? mark : 0, other = zero ? 0 : mark;
    unsigned char any = m->format == SB_FORMAT_bf16   ? mark_bf16(p, m->cols, of, other, live)
                        : m->format == SB_FORMAT_e4m3 ? mark_bytes(p, m->cols, of, other, live)
                                                      : mark_nibbles(p, m->cols, of, other, live);
    return any != 0;
}

/* The same, based on values. */
static int mark_values(const sb_matrix *m, uint32_t row, int zero, unsigned char mark,
                       double *values, unsigned char *live)
{
    int any = 0;
    sb_matrix_wide(m, row, values);
    for (uint32_t k = 0; k < m->cols; k++)
        if ((values[k] == 0) == zero) {
            live[k] |= mark;
            any = 1;
        }
    return any;
}

/* Bits of a column. */
enum { ALIVE = 1, DEAD_IN_MASTER = 2 };

static int mark_row(const sb_matrix *m, uint32_t row, int zero, unsigned char mark, double *values,
                    unsigned char *live)
{
    return codes_will_do(m, row) ? mark_codes(m, row, zero, mark, live)
                                 : mark_values(m, row, zero, mark, values, live);
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
        row -= panel->first;
        seen->column_votes += (unsigned)mark_row(m, row, 0, ALIVE, panel->scratch, live);
        if (panel->master) /* zeros that the original has, too, are correct */
            mark_row(panel->master, row, 1, DEAD_IN_MASTER, panel->scratch, live);
    }
    if (panel->last && seen->column_votes >= SB_COLUMN_VOTES)
        longest(seen, live, m->cols);
}
