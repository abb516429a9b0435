/* scan_fp8.c - FP8 and MXFP8: one pass over codes and scales. Results go to sb_seen_fp8.
 * fp8_groups.c judges them, because it sees all matrices and so knows what is usual in the
 * checkpoint. */
#include <math.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/plain_row.h"
#include "ref/formats/small_float.h"
#include "ref/formats/wide.h"
#include "tools/check/scan/fp8.h"
#include "tools/check/scan/rows.h"

typedef struct pass {
    const sb_panel *panel;
    sb_fp8_table table; /* filled when needed */
    int filled;
    sb_fp8_look_fn *look;
    /* (groups) each, of the line of scales that was decoded last; `scaled`: the number of that
     * line; `fast`: 1 if the fast scan can handle its rows */
    float *scales, *inverses;
    uint64_t scaled;
    int fast;
    unsigned char *doubts; /* for one row, as in sb_fp8_line */
    /* for units that continue in the next row: the largest code plus 1; `parts` values per unit,
     * because the fast scan keeps it by column */
    unsigned char *tops;
    uint32_t parts;
} pass;

/* The columns of a row that share a scale. */
typedef struct run {
    const unsigned char *codes;
    sb_fp8_weights master; /* the original's weights, or none */
    uint32_t count;
    double scale; /* -1: no usable scale */
} run;

typedef struct sums {
    double sum, sum2, sum4, error2, master2;
    uint32_t zeros, nans, far, clipped;
    unsigned char top; /* the largest magnitude code, NaN excluded */
} sums;

static inline int has_master(const run *r)
{
    return r->master.bf16 || r->master.values;
}

static inline double weight_of(const run *r, uint32_t i)
{
    return (
        double)(r->master.bf16
                    ? sb_f32_from_bits((uint32_t)sb_load_u16(r->master.bf16 + 2 * (size_t)i) << 16)
                    : r->master.values[i]);
}

/* The original's weights from column i of the run on. */
static inline sb_fp8_weights weights_from(const run *r, uint32_t i)
{
    return (sb_fp8_weights){r->master.bf16 ? r->master.bf16 + 2 * (size_t)i : NULL,
                            r->master.values ? r->master.values + i : NULL};
}

static uint32_t far_among(const sb_fp8_table *t, const run *r, uint32_t first, uint32_t count)
{
    double scale = r->scale;
    uint32_t far = 0;
    for (uint32_t i = first; i < first + count; i++) {
        unsigned code = r->codes[i];
        double w = weight_of(r, i), slack = fabs(w);
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
        clipped += (unsigned)is_clipped(weight_of(r, i), r->scale);
    return clipped;
}

/* --- the slow scan: NaN codes, scales of 0, weights whose squares do not fit binary32 --------- */

/* Corrects the sums, in which NaN codes count as zeros and as the largest code. */
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

static void codes_alone(const pass *p, const run *r, sums *s)
{
    int shape = sb_asks_shape(p->panel->unit);
    *s = (sums){.top = 0};
    for (uint32_t i = 0; i < r->count; i++) {
        unsigned code = r->codes[i], magnitude = code & 0x7fu;
        double v = p->table.value[code], square = v * v;
        s->zeros += magnitude == 0;
        s->top = magnitude > s->top ? (unsigned char)magnitude : s->top;
        s->sum2 += square;
        s->sum += shape ? v : 0;
        s->sum4 += shape ? square * square : 0;
    }
    if (s->top == 0x7f)
        leave_nans_out(r, s);
}

static void against_master(const sb_fp8_table *t, const run *r, sums *s)
{
    for (uint32_t i = 0; i < r->count; i++) {
        double w = weight_of(r, i), error = t->value[r->codes[i]] * r->scale - w;
        s->error2 += error * error;
        s->master2 += w * w;
    }
    s->far = far_among(t, r, 0, r->count);
    s->clipped = clipped_among(r, 0, r->count);
}

static void look_slowly(const pass *p, const run *r, sums *s)
{
    int nearest = p->panel->seen->fp8.compared && r->scale != 0;
    codes_alone(p, r, s);
    if (has_master(r))
        against_master(&p->table, r, s);
    if (!nearest)
        s->far = s->clipped = 0;
}

/* Finds the rare places, which the loops above only count. */
static void keep_places(const run *r, const sums *s, uint32_t row, uint32_t col, sb_seen_fp8 *seen)
{
    if (!s->nans && !s->far && !s->clipped)
        return;
    for (uint32_t i = 0; i < r->count; i++) {
        if ((r->codes[i] & 0x7fu) == 0x7fu)
            sb_note_place(&seen->nan, row, col + i);
        else if (s->far && r->scale > 0 && !sb_fp8_nearest(r->codes[i], weight_of(r, i), r->scale))
            sb_note_place(&seen->far, row, col + i);
        if (s->clipped && r->scale > 0 && is_clipped(weight_of(r, i), r->scale))
            sb_note_place(&seen->clipped, row, col + i);
    }
}

/* The number of values that are 0; under a scale of 0, every code means 0. */
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
    if (has_master(r) && !s->nans) {
        seen->has_distance = 1;
        seen->distance.count += r->count;
        seen->distance.error2 += s->error2;
        seen->distance.master2 += s->master2;
    }
}

/* --- units ------------------------------------------------------------------------------------ */

/* 1 if the scale is finite and has no sign bit; even -0 has no value. */
static int has_value(float scale)
{
    return sb_bits_f32(scale) < 0x7f800000u;
}

/* V-30: "0x7e, or at least 0x76 if the scale is a power of two" */
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
    /* V-30: "A scale may be below 2^-126, and is then no longer in proportion to the largest
     * weight" */
    if (whole && scale >= 0x1p-126f && top < (power ? 0x76 : 0x7e))
        sb_note_place(&seen->low, row, col);
    if (scale > (float)(1e3 / 448)) /* V-29: "A scale with 448 S above 1e3" */
        sb_note_place(&seen->high_scale, row, col);
}

/* V-29: "Zero codes under a live scale" */
static void note_dead(sb_seen_fp8 *seen, float scale, uint32_t row, uint32_t col)
{
    if ((sb_bits_f32(scale) & 0x7fffffu) == 0 || scale < 0x1p-20f)
        return; /* 1, 2^-7 and the least value of a clamp: tools write these over zeros */
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

/* --- rows ------------------------------------------------------------------------------------- */

/* Decodes the scales of a row, unless it shares them with the row before. */
static void take_scales(pass *p, uint64_t stored_row)
{
    const sb_panel *panel = p->panel;
    const sb_quant *q = &panel->matrix.quant;
    uint64_t line = stored_row / q->block_rows;
    size_t size = sb_format_bytes(q->scale_format);
    if (p->scaled == line)
        return;
    p->scaled = line;
    p->fast = p->parts > 1;
    for (uint32_t g = 0; g < q->groups; g++) {
        float *scale = &p->scales[g];
        sb_decode(q->scale_format, q->scales + (line * q->scale_row + g * q->scale_col) * size, 1,
                  scale);
        p->fast &= has_value(*scale) && *scale > 0;
        if (!panel->master)
            continue;
        p->fast &= *scale >= 0x1p-100f && *scale <= 0x1p100f;
        p->inverses[g] = (float)(1 / (256 * (double)*scale));
    }
}

/* A row of the original, or none; a BF16 row is used as stored, because most originals are BF16. */
static sb_fp8_weights master_of(const sb_panel *panel, uint32_t row)
{
    const sb_matrix *m = panel->master;
    if (m && m->format == SB_FORMAT_bf16 && !sb_matrix_quantized(m))
        return (sb_fp8_weights){.bf16 = sb_matrix_row_bytes(m, row)};
    return (sb_fp8_weights){.values = sb_master_row(panel, row)};
}

/* Run g of a row. */
static run run_at(const pass *p, const run *row, uint32_t g)
{
    uint32_t first = g * p->panel->matrix.quant.block_cols, left = row->count - first;
    int usable = has_value(p->scales[g]);
    return (run){.codes = row->codes + first,
                 .master = usable ? weights_from(row, first) : (sb_fp8_weights){0},
                 .count = left < p->panel->matrix.quant.block_cols
                              ? left
                              : p->panel->matrix.quant.block_cols,
                 .scale = usable ? (double)p->scales[g] : -1};
}

static void fill_table(pass *p)
{
    if (!p->filled)
        sb_fp8_fill(&p->table);
    p->filled = 1;
}

/* Returns the number of values that are 0. */
static uint32_t scan_slowly(pass *p, const run *row, uint32_t number)
{
    const sb_quant *q = &p->panel->matrix.quant;
    uint32_t zeros = 0;
    fill_table(p);
    for (uint32_t g = 0; g < q->groups; g++) {
        run r = run_at(p, row, g);
        unsigned char *top = &p->tops[(size_t)g * p->parts];
        sums s;
        look_slowly(p, &r, &s);
        zeros += zeros_of(&r, &s);
        *top = s.top >= *top ? (unsigned char)(s.top + 1) : *top;
        keep_places(&r, &s, number, g * q->block_cols, &p->panel->seen->fp8);
        add_moments(p, &r, &s);
    }
    return zeros;
}

/* V-31: "a fast test in binary32 cannot prove" goes to the definition, a group at a time. */
static void settle_doubts(pass *p, const run *row, uint32_t number)
{
    const unsigned char *doubt = p->doubts;
    fill_table(p);
    for (uint32_t g = 0; g < p->panel->matrix.quant.groups; g++) {
        run r = run_at(p, row, g);
        sums s = {.far = 0};
        for (uint32_t at = 0, n; at < r.count; at += n) {
            n = r.count - at < SB_FP8_GROUP ? r.count - at : SB_FP8_GROUP;
            if (!*doubt++)
                continue;
            s.far += far_among(&p->table, &r, at, n);
            s.clipped += clipped_among(&r, at, n);
        }
        keep_places(&r, &s, number, g * p->panel->matrix.quant.block_cols, &p->panel->seen->fp8);
    }
}

/* Returns 0 if the fast scan cannot handle the row. */
static int scan_fast(pass *p, const run *row, uint32_t number, uint32_t *zeros)
{
    const sb_panel *panel = p->panel;
    sb_seen *seen = panel->seen;
    sb_moments *m = &seen->moments;
    const sb_fp8_line line = {.codes = row->codes,
                              .weights = row->master,
                              .cols = row->count,
                              .run = panel->matrix.quant.block_cols,
                              .scales = p->scales,
                              .inverses = p->inverses,
                              .shape = sb_asks_shape(panel->unit),
                              .tops = p->tops,
                              .doubts = p->doubts};
    sb_fp8_sums s;
    p->look(&line, &s);
    if (s.nan || s.odd)
        return 0;
    *zeros = s.zeros;
    m->count += row->count;
    m->zeros += s.zeros;
    m->sum += s.sum * 256;
    m->sum2 += s.sum2 * 0x1p16;
    m->sum4 += s.sum4 * 0x1p32;
    if (!has_master(row))
        return 1;
    seen->has_distance = 1;
    seen->distance.count += row->count;
    seen->distance.error2 += s.error2 * 0x1p16;
    seen->distance.master2 += s.master2 * 0x1p16;
    if (s.doubts && seen->fp8.compared)
        settle_doubts(p, row, number);
    return 1;
}

static void scan_row(pass *p, uint32_t row)
{
    const sb_panel *panel = p->panel;
    const sb_matrix *m = &panel->matrix;
    uint64_t stored = (uint64_t)m->first_row + row;
    const run whole = {
        .codes = m->data + stored * m->cols, .master = master_of(panel, row), .count = m->cols};
    uint32_t zeros = 0;
    take_scales(p, stored);
    if (!p->fast || !scan_fast(p, &whole, panel->first + row, &zeros))
        zeros = scan_slowly(p, &whole, panel->first + row);
    sb_seen_zero(panel->seen, zeros == m->cols);
}

/* --- a panel ---------------------------------------------------------------------------------- */

/* V-30: "A block may be shared by two pieces of a stack of experts" - the largest code may
 * be in the other piece. If a piece begins inside a block, its panels also do. */
static int is_whole(const sb_panel *panel, uint64_t end)
{
    uint32_t rows = panel->matrix.quant.block_rows;
    if (!panel->unit->found.experts || panel->unit->found.container == SB_CONTAINER_fp8_tensor)
        return 1;
    return panel->matrix.first_row == 0 && end % rows == 0;
}

/* Returns the largest code of a unit, and resets it. */
static unsigned char take_top(const pass *p, uint32_t group)
{
    unsigned char top = 0, *parts = p->tops + (size_t)group * p->parts;
    for (uint32_t i = 0; i < p->parts; i++) {
        top = parts[i] > top ? parts[i] : top;
        parts[i] = 0;
    }
    return top ? (unsigned char)(top - 1) : 0;
}

static void end_units(pass *p, uint32_t row)
{
    const sb_panel *panel = p->panel;
    const sb_matrix *m = &panel->matrix;
    uint64_t stored = (uint64_t)m->first_row + row, block = stored / m->quant.block_rows;
    uint64_t first = block * m->quant.block_rows;
    uint32_t top_row = first > m->first_row ? (uint32_t)(first - m->first_row) : 0;
    int whole = is_whole(panel, stored + 1);
    for (uint32_t g = 0; g < m->quant.groups; g++) {
        unsigned char top = take_top(p, g);
        double largest =
            has_value(p->scales[g]) ? (double)sb_e4m3_to_f32(top) * (double)p->scales[g] : 0;
        if (largest > panel->seen->moments.largest)
            panel->seen->moments.largest = largest;
        end_unit(&panel->seen->fp8, p->scales[g], top, whole, panel->first + top_row,
                 g * m->quant.block_cols);
    }
}

/* The arrays lie behind the row of the original, where there are 8 bytes per column. */
static void take_room(pass *p)
{
    const sb_matrix *m = &p->panel->matrix;
    const size_t groups = m->quant.groups;
    p->scales = (float *)(void *)(p->panel->scratch + m->cols);
    p->inverses = p->scales + groups;
    p->tops = (unsigned char *)(p->inverses + groups);
    p->parts =
        m->quant.block_cols >= SB_FP8_GROUP && m->cols >= 2 * SB_FP8_GROUP ? SB_FP8_GROUP : 1;
    p->doubts = p->tops + groups * p->parts;
    memset(p->tops, 0, groups * p->parts);
}

void sb_scan_fp8(const sb_panel *panel)
{
    const sb_matrix *m = &panel->matrix;
    sb_seen_fp8 *seen = &panel->seen->fp8;
    pass p = {.panel = panel, .look = sb_fp8_look(), .scaled = UINT64_MAX};
    take_room(&p);
    p.tops[0] = seen->carried;
    seen->compared = panel->master && !sb_matrix_quantized(panel->master);
    for (uint32_t row = 0; row < m->rows; row++) {
        scan_row(&p, row);
        if ((m->first_row + (uint64_t)row + 1) % m->quant.block_rows == 0 ||
            (panel->last && row + 1 == m->rows))
            end_units(&p, row);
    }
    /* other than 0 only if one unit spans several panels */
    unsigned char top = take_top(&p, 0);
    seen->carried = top ? (unsigned char)(top + 1) : 0;
}
