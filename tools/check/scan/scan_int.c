/* scan_int.c - integers of 4 and 8 bits: one pass over codes, scales and zero points, row by row.
 * Results go to sb_seen_int. int_groups.c judges them, because it sees all matrices and so knows
 * what is usual in the checkpoint. int_tiles.c does the same faster, where the columns of a group
 * are neighbours. */
#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"
#include "tools/check/scan/int_pass.h"
#include "tools/check/scan/rows.h"

sb_int_group sb_int_begin_group(const sb_matrix *m, uint32_t row, uint32_t column)
{
    int16_t codes[8];
    float step;
    uint32_t first = column / 8 * 8;
    uint32_t count = m->cols - first < 8 ? m->cols - first : 8;
    sb_int_unpack(m, sb_matrix_stored_row(m, row), 1, first, count, codes, 8);
    sb_matrix_codes(m, row, column, 1, &step);
    return (sb_int_group){.scale = sb_matrix_scale(m, row, column),
                          .zero = (int16_t)(codes[column - first] - (int)step)};
}

/* V-35: "the least code, the one above it, or the greatest" */
unsigned sb_int_flags(int code, int zero, sb_int_range range)
{
    return (code != zero ? SB_GROUP_LIVE : 0u) | (code == range.least ? SB_GROUP_LOWEST : 0u) |
           (code <= range.least + 1 || code >= range.most ? SB_GROUP_REACHES : 0u) |
           (code < range.least || code > range.most ? SB_GROUP_OUTSIDE : 0u);
}

/* V-35: "the scale that a tool gives a group of zeros" */
static int is_scale_of_zeros(float scale)
{
    float s = scale < 0 ? -scale : scale;
    return s == 0x1p-7f || s == 1 || sb_int_at_floor(s) || (s > 0.1332f && s < 0.1335f) ||
           (s > 0.00783f && s < 0.00786f);
}

void sb_int_end_group(const sb_panel *panel, const sb_int_group *group, uint32_t row,
                      uint32_t column)
{
    sb_seen_int *seen = &panel->seen->ints;
    float scale = group->scale, size = scale < 0 ? -scale : scale;
    int live = group->flags & SB_GROUP_LIVE;
    row += panel->first;
    seen->groups++;
    if (group->flags & SB_GROUP_OUTSIDE)
        sb_note_place(&seen->outside, row, column);
    if (scale == 0)
        sb_note_place(&seen->zero_scale, row, column);
    else if (!sb_int_finite(scale))
        sb_note_place(&seen->bad_scale, row, column);
    if (scale < 0) {
        seen->negative++;
        sb_note_place(&seen->below_zero, row, column);
    }
    if (!live) {
        if (sb_int_finite(scale) && !is_scale_of_zeros(scale) &&
            (!panel->master || (group->flags & SB_GROUP_WEIGHTS)))
            sb_note_place(&seen->dead, row, column);
        return;
    }
    seen->live++;
    seen->lowest += (group->flags & SB_GROUP_LOWEST) != 0;
    /* V-35: "unless the scale is an F16 that is subnormal" */
    int coarse = panel->matrix.quant.scale_format == SB_FORMAT_f16 && size < 0x1p-14f;
    if (!(group->flags & SB_GROUP_REACHES) && !coarse)
        sb_note_place(&seen->inner, row, column);
    if (!sb_int_finite(scale) || scale == 0)
        return;
    /* V-34: "it would mean a weight above 1e3. F16 scales of live groups below 1e-5 (a sixteenth of
     * that with 8 bits)"
     */
    float steps = sb_int_is_wide(&panel->matrix) ? 128 : 8;
    if (size * steps > 1e3f)
        sb_note_place(&seen->high_scale, row, column);
    seen->low_scales +=
        panel->matrix.quant.scale_format == SB_FORMAT_f16 && size * steps < 8 * 0.99e-5f;
}

void sb_int_end_row(const sb_panel *panel, const sb_int_row *sums, uint32_t row)
{
    sb_seen *seen = panel->seen;
    uint32_t cols = panel->matrix.cols;
    row += panel->first;
    sb_seen_zero(seen, sums->is_zero);
    if (!panel->master)
        return;
    seen->has_distance = 1;
    seen->distance.count += cols;
    seen->distance.error2 += sums->error2;
    seen->distance.master2 += sums->master2;
    /* V-38: "half the length of the original's row", "shorter than 1e-5 a weight" */
    if (sums->error2 > 0.25 * sums->master2 && sums->master2 > 1e-10 * cols)
        sb_note_place(&seen->ints.rows_off, row, 0);
}

/* --- the definition: one code at a time ------------------------------------------------------- */

typedef struct rows_pass {
    const sb_panel *panel;
    sb_int_range range;
    int wide;
    sb_int_group *groups; /* (quant.groups), for one row */
    const float *master;  /* (cols) or NULL */
    uint32_t row;
    sb_int_row sums;
} rows_pass;

static uint32_t group_of(const sb_matrix *m, uint32_t column)
{
    const unsigned char *index = m->quant.group_index;
    return index ? sb_load_u32(index + 4 * (size_t)column) : column / m->quant.block_cols;
}

static void one_code(rows_pass *p, uint32_t column, int code)
{
    sb_seen *seen = p->panel->seen;
    sb_seen_int *s = &seen->ints;
    sb_int_group *g = &p->groups[group_of(&p->panel->matrix, column)];
    int step = code - g->zero;
    uint32_t row = p->panel->first + p->row;
    if (!sb_int_at_floor(g->scale))
        s->steps[sb_int_bin(step, p->wide)]++;
    g->flags |= (unsigned char)sb_int_flags(code, g->zero, p->range);
    double value = step * (double)g->scale;
    p->sums.is_zero &= value == 0;
    if (!sb_int_finite(g->scale))
        return;
    sb_moments *m = &seen->moments;
    m->count++;
    m->zeros += value == 0;
    m->sum += value;
    m->sum2 += value * value;
    m->sum4 += value * value * value * value;
    if (value > m->largest || -value > m->largest)
        m->largest = value < 0 ? -value : value;
    if (!p->master)
        return;
    double w = p->master[column];
    g->flags |= w != 0 ? SB_GROUP_WEIGHTS : 0;
    p->sums.error2 += (value - w) * (value - w);
    p->sums.master2 += w * w;
    unsigned stands =
        s->compared && g->scale != 0 ? sb_int_stands(code, g->zero, p->range, w, g->scale) : 0;
    if (stands & SB_INT_FAR)
        sb_note_place(&s->far, row, column);
    if (stands & SB_INT_BEYOND)
        sb_note_place(&s->beyond, row, column);
}

static void one_row(rows_pass *p, uint32_t row)
{
    enum { PIECE = 256 };
    const sb_matrix *m = &p->panel->matrix;
    int16_t codes[PIECE];
    p->row = row;
    p->sums = (sb_int_row){.is_zero = 1};
    p->master = sb_master_row(p->panel, row);
    for (uint32_t g = 0; g < m->quant.groups; g++)
        p->groups[g] = (sb_int_group){.flags = SB_GROUP_EMPTY};
    for (uint32_t k = 0; k < m->cols; k++) /* the first column of a group is enough */
        if (!m->quant.group_index ? k % m->quant.block_cols == 0 : 1)
            p->groups[group_of(m, k)] = sb_int_begin_group(m, row, k);
    for (uint32_t k = 0; k < m->cols; k += PIECE) {
        uint32_t count = m->cols - k < PIECE ? m->cols - k : PIECE;
        sb_int_unpack(m, sb_matrix_stored_row(m, row), 1, k, count, codes, PIECE);
        for (uint32_t i = 0; i < count; i++)
            one_code(p, k + i, codes[i]);
    }
    for (uint32_t g = 0; g < m->quant.groups; g++)
        if (!(p->groups[g].flags & SB_GROUP_EMPTY))
            sb_int_end_group(p->panel, &p->groups[g], row, g * m->quant.block_cols);
    sb_int_end_row(p->panel, &p->sums, row);
}

void sb_scan_int_rows(const sb_panel *panel)
{
    const sb_matrix *m = &panel->matrix;
    rows_pass p = {.panel = panel, .range = sb_int_range_in(m), .wide = sb_int_is_wide(m)};
    /* behind the row of the original: 12 bytes per column are free, and a group takes 8 */
    p.groups = (sb_int_group *)(void *)(panel->scratch + (m->cols + 1) / 2);
    for (uint32_t row = 0; row < m->rows; row++)
        one_row(&p, row);
}

/* --- zero points ------------------------------------------------------------------------------ */

/* V-33: "every word is 0x77777777 or every word is 0x88888888" */
static void count_words(const sb_panel *panel)
{
    const sb_quant *q = &panel->matrix.quant;
    sb_seen_int *s = &panel->seen->ints;
    uint32_t bits = (uint32_t)sb_format_bits(panel->matrix.format), per = 32 / bits;
    uint32_t v1 = bits == 4 ? 0x77777777u : 0x7f7f7f7fu, v2 = bits == 4 ? 0x88888888u : 0x80808080u;
    uint32_t across = q->stored_rows / per;
    for (uint32_t g = 0; g < q->groups; g++)
        for (uint32_t c = 0; c < across; c++) {
            uint32_t word = sb_load_u32(q->zero_points + 4 * ((uint64_t)g * across + c));
            s->words++;
            s->words_v1 += word == v1;
            s->words_v2 += word == v2;
            if (word != v1 && word != v2)
                sb_note_place(&s->other_word, c * per, g * q->block_cols);
        }
}

void sb_scan_int(const sb_panel *panel)
{
    sb_seen_int *s = &panel->seen->ints;
    sb_zeros zeros = panel->matrix.quant.zeros;
    s->compared = panel->master && !sb_matrix_quantized(panel->master);
    if (panel->first == 0 &&
        (zeros == SB_ZEROS_gptq_v1 || zeros == SB_ZEROS_gptq_v2 || zeros == SB_ZEROS_awq))
        count_words(panel);
    if (sb_scan_int_can_tile(panel))
        sb_scan_int_tiles(panel);
    else
        sb_scan_int_rows(panel);
}
