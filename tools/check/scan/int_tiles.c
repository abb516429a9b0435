/* int_tiles.c - the fast scan of integers: tiles of 64 rows by 128 columns, so that a word with
 * codes of several rows, or with distant codes of one row, is read only once. The result equals
 * that of sb_scan_int_rows. */
#include <math.h>

#include "ref/formats/format.h"
#include "tools/check/scan/int_pass.h"
#include "tools/check/scan/rows.h"

enum { ROWS = 64, COLS = 128 };

typedef struct tile {
    const sb_panel *panel;
    sb_int_range range;
    int wide, bytes, has_master; /* wide: more than 4 bits per code; bytes: one code per byte */
    uint32_t row, rows;          /* first row of the tile in the panel, number of rows */
    int16_t codes[ROWS][COLS];
    sb_int_group groups[ROWS];
    sb_int_row sums[ROWS];
} tile;

/* Sums over a piece of a row, in steps. */
typedef struct run {
    int64_t sum, sum2, sum4;
    int least, most; /* codes */
    uint32_t zeros;
} run;

/* Adds 4-bit codes, from the number of times that each code occurs. */
static run add_nibbles(const tile *t, const int16_t *codes, uint32_t count, int zero,
                       uint32_t *steps)
{
    uint32_t often[2][16] = {{0}};
    int from = t->range.least;
    run r = {.least = t->range.most, .most = t->range.least};
    for (uint32_t i = 0; i + 1 < count; i += 2) {
        often[0][codes[i] - from]++;
        often[1][codes[i + 1] - from]++;
    }
    if (count % 2)
        often[0][codes[count - 1] - from]++;
    for (int c = 0; c < 16; c++) {
        int64_t n = often[0][c] + often[1][c], step = c + from - zero;
        if (n == 0)
            continue;
        r.sum += n * step;
        r.sum2 += n * step * step;
        r.sum4 += n * step * step * step * step;
        r.zeros += step == 0 ? (uint32_t)n : 0;
        r.least = c + from < r.least ? c + from : r.least;
        r.most = c + from;
        if (steps)
            steps[sb_int_bin((int)step, 0)] += (uint32_t)n;
    }
    return r;
}

static run add_bytes(const int16_t *codes, uint32_t count, int zero, int wide, uint32_t *steps)
{
    run r = {.least = codes[0], .most = codes[0]};
    for (uint32_t i = 0; i < count; i++) {
        int step = codes[i] - zero, square = step * step;
        r.sum += step;
        r.sum2 += square;
        r.sum4 += (int64_t)square * square;
        r.zeros += step == 0;
        r.least = codes[i] < r.least ? codes[i] : r.least;
        r.most = codes[i] > r.most ? codes[i] : r.most;
    }
    for (uint32_t i = 0; i < count && steps; i++)
        steps[sb_int_bin(codes[i] - zero, wide)]++;
    return r;
}

static void add_moments(sb_moments *m, const run *r, uint32_t count, const sb_int_group *g)
{
    double scale = g->scale, square = scale * scale;
    double most = (r->most - g->zero) * scale, least = (r->least - g->zero) * scale;
    m->count += count;
    m->zeros += r->zeros;
    m->sum += (double)r->sum * scale;
    m->sum2 += (double)r->sum2 * square;
    m->sum4 += (double)r->sum4 * square * square;
    most = most < 0 ? -most : most;
    least = least < 0 ? -least : least;
    most = most < least ? least : most;
    m->largest = most > m->largest ? most : m->largest;
}

/* Finds the places of the rare codes that the loop below has counted. */
static void keep_places(const tile *t, uint32_t r, uint32_t first, uint32_t count,
                        const float *master)
{
    sb_seen_int *s = &t->panel->seen->ints;
    const sb_int_group *g = &t->groups[r];
    for (uint32_t i = 0; i < count; i++) {
        unsigned stands = sb_int_stands(t->codes[r][i], g->zero, t->range, master[i], g->scale);
        if (stands & SB_INT_FAR)
            sb_note_place(&s->far, t->panel->first + t->row + r, first + i);
        if (stands & SB_INT_BEYOND)
            sb_note_place(&s->beyond, t->panel->first + t->row + r, first + i);
    }
}

static void against_master(tile *t, uint32_t r, uint32_t first, uint32_t count)
{
    const sb_matrix *m = t->panel->master;
    sb_int_group *g = &t->groups[r];
    float master[COLS];
    double error2 = 0, master2 = 0, scale = g->scale, step = scale < 0 ? -scale : scale;
    uint32_t off_half = 0;
    sb_plain_values(m, t->row + r, first, count, master);
    for (uint32_t i = 0; i < count; i++) {
        double w = master[i], error = w - (t->codes[r][i] - g->zero) * scale;
        double off = 256 * fabs(error), slack = fabs(w);
        /* includes every code that can be far or beyond a step */
        off_half += off > 128 * step + slack / 2;
        error2 += error * error;
        master2 += w * w;
    }
    t->sums[r].error2 += error2;
    t->sums[r].master2 += master2;
    g->flags |= master2 != 0 ? SB_GROUP_WEIGHTS : 0;
    if (off_half && scale != 0)
        keep_places(t, r, first, count, master);
}

static void one_piece(tile *t, uint32_t first, uint32_t count)
{
    const sb_matrix *m = &t->panel->matrix;
    sb_seen *seen = t->panel->seen;
    sb_int_unpack(m, sb_matrix_stored_row(m, t->row), t->rows, first, count, t->codes[0], COLS);
    for (uint32_t r = 0; r < t->rows; r++) {
        sb_int_group *g = &t->groups[r];
        uint32_t *steps = sb_int_at_floor(g->scale) ? NULL : seen->ints.steps;
        run sums = t->bytes ? add_bytes(t->codes[r], count, g->zero, t->wide, steps)
                            : add_nibbles(t, t->codes[r], count, g->zero, steps);
        g->flags |= (unsigned char)(sb_int_flags(sums.least, g->zero, t->range) |
                                    sb_int_flags(sums.most, g->zero, t->range));
        sums.zeros = g->scale == 0 ? count : sums.zeros;
        t->sums[r].is_zero &= sums.zeros == count && sb_int_finite(g->scale);
        if (!sb_int_finite(g->scale))
            continue;
        add_moments(&seen->moments, &sums, count, g);
        if (t->has_master)
            against_master(t, r, first, count);
    }
}

static void one_tile(tile *t)
{
    const sb_matrix *m = &t->panel->matrix;
    for (uint32_t r = 0; r < t->rows; r++)
        t->sums[r] = (sb_int_row){.is_zero = 1};
    for (uint32_t k = 0; k < m->cols; k += m->quant.block_cols) {
        uint32_t end = m->cols - k < m->quant.block_cols ? m->cols : k + m->quant.block_cols;
        for (uint32_t r = 0; r < t->rows; r++)
            t->groups[r] = sb_int_begin_group(m, t->row + r, k);
        for (uint32_t at = k; at < end; at += COLS)
            one_piece(t, at, end - at < COLS ? end - at : COLS);
        for (uint32_t r = 0; r < t->rows; r++)
            sb_int_end_group(t->panel, &t->groups[r], t->row + r, k);
    }
    for (uint32_t r = 0; r < t->rows; r++)
        sb_int_end_row(t->panel, &t->sums[r], t->row + r);
}

int sb_scan_int_can_tile(const sb_panel *panel)
{
    const sb_matrix *m = &panel->matrix;
    return !m->quant.group_index && m->quant.block_cols % 8 == 0 && !m->row_map &&
           (!panel->master || (!sb_matrix_quantized(panel->master) && !panel->master->row_map));
}

void sb_scan_int_tiles(const sb_panel *panel)
{
    tile t = {.panel = panel,
              .range = sb_int_range_in(&panel->matrix),
              .wide = sb_int_is_wide(&panel->matrix),
              .bytes = sb_format_bits(panel->matrix.format) == 8,
              .has_master = panel->master != NULL};
    for (t.row = 0; t.row < panel->matrix.rows; t.row += ROWS) {
        t.rows = panel->matrix.rows - t.row < ROWS ? panel->matrix.rows - t.row : ROWS;
        one_tile(&t);
    }
}
