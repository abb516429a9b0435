/* FP8 and MXFP8: one pass over codes and scales. What is found is kept in sb_seen_fp8 and judged by
 * fp8_groups.c, which sees all matrices and so knows what is usual in this checkpoint. */
#include <math.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/wide.h"
#include "tools/check/fp8.h"
#include "tools/check/rows.h"

typedef struct pass {
    const sb_panel *panel;
    sb_fp8_table table;
    sb_fp8_look_fn *look;
    unsigned char *tops; /* (groups): the largest codes of the units that are not yet over */
} pass;

/* Columns of a row that share a scale. */
typedef struct run {
    const unsigned char *codes;
    const float *master; /* NULL: none */
    uint32_t count;
    double scale; /* -1: it has none that can be used */
} run;

typedef struct sums {
    double sum, sum2, sum4, error2, master2;
    uint32_t zeros, nans, far, clipped;
    unsigned char top; /* the largest code without its sign, NaN left out */
} sums;

/* By halves, as far as vectors of two go. The sums of a row are a function of the row alone. */
static inline double fold(const float lanes[SB_FP8_LANES])
{
    double half[4];
    for (unsigned i = 0; i < 4; i++)
        half[i] = (double)lanes[i] + (double)lanes[i + 4];
    return (half[0] + half[2]) + (half[1] + half[3]);
}

static uint32_t far_among(const sb_fp8_table *t, const run *r, uint32_t first, uint32_t count)
{
    double scale = r->scale;
    uint32_t far = 0;
    for (uint32_t i = first; i < first + count; i++) {
        unsigned code = r->codes[i];
        double w = r->master[i], slack = fabs(w);
        far += (unsigned)(256 * w + slack < t->low[code] * scale) |
               (unsigned)(256 * w - slack > t->high[code] * scale);
    }
    return far;
}

/* V-31: "beyond 1.1 times 448 S" */
static inline int is_clipped(double weight, double scale)
{
    return fabs(weight) > 1.1 * 448 * scale;
}

static uint32_t clipped_among(const run *r, uint32_t first, uint32_t count)
{
    uint32_t clipped = 0;
    for (uint32_t i = first; i < first + count; i++)
        clipped += (unsigned)is_clipped(r->master[i], r->scale);
    return clipped;
}

/* --- the slow way: NaN codes, and weights or scales that binary32 cannot square ----------------
 */

/* NaN codes have been taken for zeros, and for the largest code. */
static void leave_nans_out(const run *r, sums *s)
{
    s->top = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        unsigned char magnitude = r->codes[i] & 0x7fu;
        s->nans += magnitude == 0x7f;
        if (magnitude != 0x7f && magnitude > s->top)
            s->top = magnitude;
    }
}

static void codes_alone(const sb_fp8_table *t, const run *r, sums *s)
{
    *s = (sums){.top = 0};
    for (uint32_t i = 0; i < r->count; i++) {
        unsigned code = r->codes[i], magnitude = code & 0x7fu;
        double v = t->value[code], square = v * v;
        s->zeros += magnitude == 0;
        s->top = magnitude > s->top ? (unsigned char)magnitude : s->top;
        s->sum += v;
        s->sum2 += square;
        s->sum4 += square * square;
    }
    if (s->top == 0x7f)
        leave_nans_out(r, s);
}

static void against_master(const sb_fp8_table *t, const run *r, sums *s)
{
    for (uint32_t i = 0; i < r->count; i++) {
        double w = r->master[i], error = t->value[r->codes[i]] * r->scale - w;
        s->error2 += error * error;
        s->master2 += w * w;
    }
    s->far = far_among(t, r, 0, r->count);
    s->clipped = clipped_among(r, 0, r->count);
}

/* --- the fast way ------------------------------------------------------------------------------
 */

static void add_piece(const sb_fp8_lanes *l, int with, sums *s)
{
    s->sum += fold(l->sum);
    s->sum2 += fold(l->sum2);
    s->sum4 += fold(l->sum4);
    s->zeros += l->zeros;
    s->top = l->top > s->top ? l->top : s->top;
    if (!with)
        return;
    s->error2 += fold(l->error2);
    s->master2 += fold(l->master2);
}

/* What is left of a run, behind whole groups: zeros fill it up. */
static void look_at_rest(const pass *p, const run *r, uint32_t first, float inverse,
                         sb_fp8_lanes *out)
{
    unsigned char codes[SB_FP8_GROUP] = {0};
    float weights[SB_FP8_GROUP] = {0};
    uint32_t count = r->count - first;
    memcpy(codes, r->codes + first, count);
    if (r->master)
        memcpy(weights, r->master + first, count * sizeof *weights);
    p->look(codes, r->master ? weights : NULL, 1, inverse, out);
    out->zeros -= SB_FP8_GROUP - count;
}

/* V-31: "a fast test in binary32 cannot prove" goes to the definition, 32 codes at a time. */
static void far_in_doubt(const sb_fp8_table *t, const run *r, uint32_t first, uint32_t doubts,
                         sums *s)
{
    for (uint32_t at = first; doubts; doubts >>= 1, at += SB_FP8_GROUP)
        if (doubts & 1) {
            uint32_t count = r->count - at < SB_FP8_GROUP ? r->count - at : SB_FP8_GROUP;
            s->far += far_among(t, r, at, count);
            s->clipped += clipped_among(r, at, count);
        }
}

/* 0: only the slow way will do. `nearest`: whether V-31 is asked. */
static int look_fast(const pass *p, const run *r, int nearest, sums *s)
{
    sb_fp8_lanes l;
    double unit = 256 * r->scale;
    *s = (sums){.top = 0};
    if (r->master && !(r->scale >= 0x1p-100 && r->scale <= 0x1p100))
        return 0;
    float inverse = r->master ? (float)(1 / unit) : 0;
    for (uint32_t at = 0, n; at < r->count; at += n) {
        unsigned groups = (r->count - at) / SB_FP8_GROUP;
        groups = groups < SB_FP8_PIECE / SB_FP8_GROUP ? groups : SB_FP8_PIECE / SB_FP8_GROUP;
        n = groups ? groups * SB_FP8_GROUP : r->count - at;
        if (groups)
            p->look(r->codes + at, r->master ? r->master + at : NULL, groups, inverse, &l);
        else
            look_at_rest(p, r, at, inverse, &l);
        add_piece(&l, r->master != NULL, s);
        if (nearest && l.doubts)
            far_in_doubt(&p->table, r, at, l.doubts, s);
    }
    s->sum *= 256;
    s->sum2 *= 0x1p16;
    s->sum4 *= 0x1p32;
    /* NaN and infinite weights are here, too, and those whose squares vanish */
    if (s->top == 0x7f || (r->master && !(s->master2 >= 0x1p-90 && s->master2 <= 0x1p120)))
        return 0;
    s->error2 *= unit * unit;
    s->master2 *= unit * unit;
    return 1;
}

static void look(const pass *p, const run *r, sums *s)
{
    int nearest = p->panel->seen->fp8.compared && r->scale != 0;
    if (look_fast(p, r, nearest, s))
        return;
    codes_alone(&p->table, r, s);
    if (r->master)
        against_master(&p->table, r, s);
    if (!nearest)
        s->far = s->clipped = 0;
}

/* The rare places, which the loops above only count. */
static void keep_places(const run *r, const sums *s, uint32_t row, uint32_t col, sb_seen_fp8 *seen)
{
    if (!s->nans && !s->far && !s->clipped)
        return;
    for (uint32_t i = 0; i < r->count; i++) {
        if ((r->codes[i] & 0x7fu) == 0x7fu)
            sb_note_place(&seen->nan, row, col + i);
        else if (s->far && r->scale > 0 && !sb_fp8_nearest(r->codes[i], r->master[i], r->scale))
            sb_note_place(&seen->far, row, col + i);
        if (s->clipped && r->scale > 0 && is_clipped(r->master[i], r->scale))
            sb_note_place(&seen->clipped, row, col + i);
    }
}

/* Values that are 0: under a scale of 0 all numbers are. */
static uint32_t zeros_of(const run *r, const sums *s)
{
    return r->scale < 0 ? 0 : r->scale == 0 ? r->count - s->nans : s->zeros;
}

static void add_moments(const pass *p, const run *r, const sums *s)
{
    sb_seen *seen = p->panel->seen;
    sb_moments *m = &seen->moments;
    double scale = r->scale, square = scale * scale, largest;
    if (scale < 0)
        return;
    m->count += r->count - s->nans;
    m->zeros += zeros_of(r, s);
    m->sum += s->sum * scale;
    m->sum2 += s->sum2 * square;
    m->sum4 += s->sum4 * square * square;
    largest = p->table.value[s->top] * scale;
    m->largest = largest > m->largest ? largest : m->largest;
    if (r->master && !s->nans) {
        seen->has_distance = 1;
        seen->distance.count += r->count;
        seen->distance.error2 += s->error2;
        seen->distance.master2 += s->master2;
    }
}

/* --- units ------------------------------------------------------------------------------------ */

static float stored_scale(const sb_matrix *m, uint64_t stored_row, uint32_t group)
{
    const sb_quant *q = &m->quant;
    uint64_t at = stored_row / q->block_rows * q->scale_row + group * q->scale_col;
    float scale;
    sb_decode(q->scale_format, q->scales + at * sb_format_bytes(q->scale_format), 1, &scale);
    return scale;
}

/* Finite and without a sign bit, of a zero, too. */
static int has_value(float scale)
{
    return sb_bits_f32(scale) < 0x7f800000u;
}

/* V-30: "0x7e, or 0x76 at least if the scale is a power of two" */
static void note_live(sb_seen_fp8 *seen, float scale, unsigned char top, int whole, uint32_t row,
                      uint32_t col)
{
    uint32_t bits = sb_bits_f32(scale);
    int power = (bits & 0x7fffffu) == 0;
    seen->least = seen->live == 0 || scale < seen->least ? scale : seen->least;
    seen->most = scale > seen->most ? scale : seen->most;
    seen->live++;
    seen->live_powers += (unsigned)power;
    seen->full += top == 0x7e;
    seen->full_powers += power && top == 0x7e;
    seen->exponents += (int)(bits >> 23) - 127;
    /* V-30: "a scale below 2^-126 is no longer in proportion to the largest weight" */
    if (whole && scale >= 0x1p-126f && top < (power ? 0x76 : 0x7e))
        sb_note_place(&seen->low, row, col);
    if (scale > (float)(1e3 / 448)) /* V-29: "448 S is above 1e3" */
        sb_note_place(&seen->high_scale, row, col);
}

/* V-29: "Zero codes under a live scale" */
static void note_dead(sb_seen_fp8 *seen, float scale, uint32_t row, uint32_t col)
{
    if ((sb_bits_f32(scale) & 0x7fffffu) == 0 || scale < 0x1p-20f)
        return; /* 1, 2^-7, the least of a clamp: what tools write over zeros */
    if (seen->dead.count == 0 || scale < seen->dead_least)
        seen->dead_least = scale;
    sb_note_place(&seen->dead, row, col);
}

static void end_unit(sb_seen_fp8 *seen, float scale, unsigned char top, int whole, uint32_t row,
                     uint32_t col)
{
    seen->units++;
    seen->top = top > seen->top ? top : seen->top;
    if (!has_value(scale)) {
        sb_note_place(&seen->bad_scale, row, col);
        return;
    }
    if (scale == 0) {
        if (top)
            sb_note_place(&seen->lost, row, col);
        return;
    }
    seen->powers += (sb_bits_f32(scale) & 0x7fffffu) == 0;
    if (top)
        note_live(seen, scale, top, whole, row, col);
    else if (whole)
        note_dead(seen, scale, row, col);
}

/* --- a panel ---------------------------------------------------------------------------------- */

static void scan_row(pass *p, uint32_t row)
{
    const sb_panel *panel = p->panel;
    const sb_matrix *m = &panel->matrix;
    sb_seen *seen = panel->seen;
    uint64_t stored = (uint64_t)m->first_row + row;
    const unsigned char *codes = m->data + stored * m->cols;
    const float *master = sb_master_row(panel, row);
    uint32_t zeros = 0;
    for (uint32_t k = 0, group = 0; k < m->cols; k += m->quant.block_cols, group++) {
        uint32_t count = m->cols - k < m->quant.block_cols ? m->cols - k : m->quant.block_cols;
        float scale = stored_scale(m, stored, group);
        int usable = has_value(scale);
        run r = {codes + k, master && usable ? master + k : NULL, count, usable ? scale : -1};
        sums s;
        look(p, &r, &s);
        zeros += zeros_of(&r, &s);
        p->tops[group] = s.top > p->tops[group] ? s.top : p->tops[group];
        keep_places(&r, &s, panel->first + row, k, &seen->fp8);
        add_moments(p, &r, &s);
    }
    sb_seen_zero(seen, zeros == m->cols);
}

/* V-30: "in blocks that a piece of a stack of experts shares with another" - its largest code may
 * be there. A piece that begins inside a block has its panels begin there, too. */
static int is_whole(const sb_panel *panel, uint64_t end)
{
    uint32_t rows = panel->matrix.quant.block_rows;
    if (!panel->unit->found.experts || panel->unit->found.container == SB_CONTAINER_fp8_tensor)
        return 1;
    return panel->matrix.first_row == 0 && end % rows == 0;
}

static void end_units(pass *p, uint32_t row)
{
    const sb_panel *panel = p->panel;
    const sb_matrix *m = &panel->matrix;
    uint64_t stored = (uint64_t)m->first_row + row, block = stored / m->quant.block_rows;
    uint64_t first = block * m->quant.block_rows;
    uint32_t top_row = first > m->first_row ? (uint32_t)(first - m->first_row) : 0;
    int whole = is_whole(panel, stored + 1);
    for (uint32_t k = 0, group = 0; k < m->cols; k += m->quant.block_cols, group++)
        end_unit(&panel->seen->fp8, stored_scale(m, stored, group), p->tops[group], whole,
                 panel->first + top_row, k);
    memset(p->tops, 0, m->quant.groups);
}

void sb_scan_fp8(const sb_panel *panel)
{
    const sb_matrix *m = &panel->matrix;
    sb_seen_fp8 *seen = &panel->seen->fp8;
    pass p = {.panel = panel, .look = sb_fp8_look()};
    p.tops = (unsigned char *)(panel->scratch + m->cols);
    sb_fp8_fill(&p.table);
    memset(p.tops, 0, m->quant.groups);
    p.tops[0] = seen->carried;
    seen->compared = panel->master && !sb_matrix_quantized(panel->master);
    for (uint32_t row = 0; row < m->rows; row++) {
        scan_row(&p, row);
        if ((m->first_row + (uint64_t)row + 1) % m->quant.block_rows == 0 ||
            (panel->last && row + 1 == m->rows))
            end_units(&p, row);
    }
    seen->carried = p.tops[0]; /* not 0 only where one unit has the rows of several panels */
}
