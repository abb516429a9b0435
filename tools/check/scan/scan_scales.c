#include "tools/check/scan/scan_scales.h"

#include <inttypes.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/text.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"
#include "tools/check/scan/fp4.h"

enum {
    ZERO = 0,         /* bin of scales that are zero; for E8M0, of 2^-127 */
    BINS = 512,       /* one per binary exponent, from -255 on */
    MIDDLE = 256,     /* bin of 2^0 */
    APART = 7,        /* exponents between a lone scale and its neighbours: a factor above 64 */
    LINES = 8,        /* block rows that the median of a column needs */
    GROUPS = 3,       /* scales that the median of a row needs */
    CANDIDATES = 256, /* scales of a panel that are examined */
    MOST_CODES = 128, /* codes of a block that are examined */
    ZERO_RUN = 16,    /* consecutive blocks with scale zero */
    GAP = 8           /* exponents between the least E4M3 number and the least scale */
};

/* The scales of a panel as a table of `lines` by `groups`. */
typedef struct grid {
    const sb_panel *panel;
    const sb_matrix *m;
    unsigned bytes; /* per scale */
    uint32_t lines, groups;
    uint32_t bins[BINS];
} grid;

typedef struct scale_place {
    uint32_t line, group;
} scale_place;

static int is_mx(const sb_matrix *m)
{
    return m->quant.scale_format == SB_FORMAT_e8m0;
}

static const unsigned char *scale_at(const grid *g, scale_place at)
{
    const sb_quant *q = &g->m->quant;
    uint64_t row = sb_matrix_stored_row(g->m, at.line * q->block_rows) / q->block_rows;
    return q->scales + (row * q->scale_row + at.group * q->scale_col) * g->bytes;
}

static float value_at(const grid *g, scale_place at)
{
    const unsigned char *p = scale_at(g, at);
    uint32_t code = 0;
    for (unsigned i = g->bytes; i-- > 0;)
        code = code << 8 | p[i];
    return sb_code_to_f32(g->m->quant.scale_format, code);
}

/* The bin of the exponent; NaN and infinity count as zero, because other checks report them. */
static unsigned bin_of_value(float value)
{
    uint32_t bits = sb_bits_f32(value) & 0x7fffffffu;
    return !bits || bits >= 0x7f800000u ? ZERO : MIDDLE - 127 + (bits >> 23);
}

static unsigned bin_at(const grid *g, scale_place at)
{
    if (is_mx(g->m))
        return *scale_at(g, at) ? MIDDLE - 127u + *scale_at(g, at) : ZERO;
    return bin_of_value(value_at(g, at));
}

/* For scales of one byte, which most are: the bin of each of the 256 bytes. */
static unsigned bin_of_byte(const grid *g, unsigned byte)
{
    if (is_mx(g->m))
        return byte ? MIDDLE - 127u + byte : ZERO;
    return bin_of_value(sb_code_to_f32(g->m->quant.scale_format, byte));
}

/* The least and the largest byte, without signs, outside of bin ZERO, and the number of bytes in
 * bin ZERO. The bytes of E4M3 and E8M0 are ordered like their values. */
typedef struct range {
    unsigned char least, most;
    uint64_t zeros;
} range;

static void look_at_line(const unsigned char *p, uint64_t count, int mx, range *r)
{
    const unsigned char mask = mx ? 0xff : 0x7f, nan = mx ? 0 : 0x7f;
    unsigned char least = r->least, most = r->most, any = 0;
#pragma omp simd reduction(min : least) reduction(max : most) reduction(| : any)
    for (uint64_t k = 0; k < count; k++) {
        unsigned char byte = p[k] & mask, none = byte == 0 || byte == nan ? 0xff : 0;
        unsigned char low = byte | none, high = (unsigned char)(byte & ~none);
        any |= none;
        least = low < least ? low : least;
        most = high > most ? high : most;
    }
    r->least = least;
    r->most = most;
    for (uint64_t k = 0; k < count && any; k++)
        r->zeros += (p[k] & mask) == 0 || (p[k] & mask) == nan;
}

/* 1 if there is nothing to judge: few different exponents, and few zeros. */
static int is_even(const grid *g)
{
    range r = {.least = 0xff};
    const sb_quant *q = &g->m->quant;
    /* contiguous lines are scanned as one */
    int dense = q->scale_row == g->groups && !g->m->row_map;
    uint64_t lines = dense ? 1 : g->lines,
             each = dense ? (uint64_t)g->lines * g->groups : g->groups;
    if (g->bytes != 1 || q->scale_col != 1)
        return 0;
    for (uint32_t line = 0; line < lines; line++)
        look_at_line(scale_at(g, (scale_place){line, 0}), each, is_mx(g->m), &r);
    return r.zeros < ZERO_RUN &&
           (r.least > r.most || bin_of_byte(g, r.most) - bin_of_byte(g, r.least) < APART - 1);
}

/* Counts the bytes in four tables, so that increments of the same byte do not depend on each
 * other. */
static void count_bytes(grid *g)
{
    uint32_t bytes[4][256] = {{0}};
    uint64_t step = g->m->quant.scale_col;
    for (uint32_t line = 0; line < g->lines; line++) {
        const unsigned char *p = scale_at(g, (scale_place){line, 0});
        for (uint32_t k = 0; k < g->groups; k++)
            bytes[k & 3][p[k * step]]++;
    }
    for (unsigned b = 0; b < 256; b++)
        g->bins[bin_of_byte(g, b)] += bytes[0][b] + bytes[1][b] + bytes[2][b] + bytes[3][b];
}

static void count_scales(grid *g)
{
    memset(g->bins, 0, sizeof g->bins);
    if (g->bytes == 1) {
        count_bytes(g);
        return;
    }
    for (uint32_t line = 0; line < g->lines; line++)
        for (uint32_t k = 0; k < g->groups; k++)
            g->bins[bin_at(g, (scale_place){line, k})]++;
}

/* The median bin of the scales that are not zero; ZERO if all are zero. */
static unsigned middle_of(const uint32_t *bins)
{
    uint64_t all = 0, below = 0;
    for (unsigned i = ZERO + 1; i < BINS; i++)
        all += bins[i];
    for (unsigned i = ZERO + 1; i < BINS && all; i++) {
        below += bins[i];
        if (below * 2 > all)
            return i;
    }
    return ZERO;
}

/* V-154: "half of its codes are not zero, of three magnitudes" - blocks of small weights are not
 * like this. */
static int is_dense(const grid *g, scale_place at)
{
    const sb_quant *q = &g->m->quant;
    float codes[MOST_CODES], seen[2] = {0};
    uint32_t first = at.group * q->block_cols, live = 0, kinds = 0;
    uint32_t count = g->m->cols - first < q->block_cols ? g->m->cols - first : q->block_cols;
    count = count < MOST_CODES ? count : MOST_CODES;
    sb_matrix_codes(g->m, at.line * q->block_rows, first, count, codes);
    for (uint32_t k = 0; k < count; k++) {
        float size = codes[k] < 0 ? -codes[k] : codes[k];
        live += size != 0;
        if (size == 0 || kinds == 3 || (kinds && size == seen[0]) || (kinds > 1 && size == seen[1]))
            continue;
        if (kinds < 2)
            seen[kinds] = size;
        kinds++;
    }
    return live * 2 >= count && kinds == 3;
}

/* --- one scale and its neighbours ------------------------------------------------------------- */

static unsigned middle_of_line(const grid *g, scale_place at)
{
    uint32_t bins[BINS] = {0};
    for (uint32_t k = 0; k < g->groups; k++)
        bins[k == at.group ? ZERO : bin_at(g, (scale_place){at.line, k})]++;
    return middle_of(bins);
}

static unsigned middle_of_column(const grid *g, scale_place at)
{
    uint32_t bins[BINS] = {0};
    for (uint32_t line = 0; line < g->lines; line++)
        bins[line == at.line ? ZERO : bin_at(g, (scale_place){line, at.group})]++;
    return middle_of(bins);
}

/* The number of exponents by which a scale is off both medians; 0 if it is not lone. */
static int alone(const grid *g, scale_place at)
{
    int own = (int)bin_at(g, at), column = (int)middle_of_column(g, at), line = column;
    if (g->groups >= GROUPS)
        line = (int)middle_of_line(g, at);
    if (!own || !column || !line)
        return 0;
    int most = column > line ? column : line, least = column < line ? column : line;
    if (own - most >= APART)
        return own - most;
    return least - own >= APART && g->groups >= GROUPS ? own - least : 0;
}

/* Keeps a lone scale (V-154). lone_scales.c reports it, because it knows how many matrices have
 * lone scales. */
static void note_alone(const grid *g, scale_place at, int apart)
{
    sb_seen *seen = g->panel->seen;
    if (!seen->lone.count)
        seen->lone_apart = apart;
    sb_note_place(&seen->lone, g->panel->first + at.line, at.group * g->m->quant.block_cols);
}

static void judge_alone(const grid *g, unsigned middle)
{
    unsigned looked = 0;
    for (uint32_t line = 0; line < g->lines; line++)
        for (uint32_t k = 0; k < g->groups && looked < CANDIDATES; k++) {
            scale_place at = {line, k};
            int far = (int)bin_at(g, at) - (int)middle, own;
            if (bin_at(g, at) == ZERO || (far < APART - 1 && far > 1 - APART))
                continue;
            looked++;
            own = alone(g, at);
            if (own && is_dense(g, at))
                note_alone(g, at, own);
        }
}

/* --- zeros ------------------------------------------------------------------------------------ */

/* 1 for the embedding and lm_head: their rows of unused tokens are neighbours and small. */
static int is_vocabulary(const sb_unit *unit)
{
    return strcmp(unit->kind, "lm_head") == 0 || strcmp(unit->kind, "embed_tokens") == 0;
}

/* The bin of the least number that scales of this format can hold. */
static unsigned least_bin(const sb_matrix *m)
{
    return is_mx(m) ? MIDDLE - 126 : MIDDLE - 9;
}

static int has_gap(const grid *g)
{
    unsigned i = ZERO + 1;
    while (i < BINS && !g->bins[i])
        i++;
    return i == BINS || i >= least_bin(g->m) + GAP;
}

/* V-154: "zeros in succession" */
static void judge_zeros(const grid *g)
{
    const sb_panel *p = g->panel;
    char piece[288];
    uint64_t run = 0, longest = 0;
    scale_place last = {0};
    for (uint32_t line = 0; line < g->lines; line++)
        for (uint32_t k = 0; k < g->groups; k++) {
            scale_place at = {line, k};
            run = bin_at(g, at) == ZERO && *scale_at(g, at) == 0 && is_dense(g, at) ? run + 1 : 0;
            if (run <= longest)
                continue;
            longest = run;
            last = at;
        }
    if (longest >= ZERO_RUN)
        sb_find(p->findings, 54, SB_LEVEL_error, sb_scale_name(p->unit),
                "%s%" PRIu64 " scales in succession are zero bytes, the last at row %" PRIu64
                ", column %" PRIu32
                ", expected scales. Their codes are those of usual weights, and no other scale is "
                "nearly as small: the scales were not written",
                sb_fp4_piece(p, piece, sizeof piece), longest, (uint64_t)p->first + last.line,
                last.group * g->m->quant.block_cols);
}

void sb_scan_scales(const sb_panel *panel)
{
    const sb_matrix *m = &panel->matrix;
    const sb_quant *q = &m->quant;
    grid g = {.panel = panel, .m = m};
    if (!q->scales || q->group_index || !q->block_cols || q->block_rows != 1)
        return;
    g.bytes = sb_format_bits(q->scale_format) / 8;
    g.lines = m->rows;
    g.groups = q->groups;
    if (!g.bytes || !g.groups || g.lines < LINES || q->block_cols >= m->cols)
        return;
    if (is_even(&g))
        return;
    count_scales(&g);
    unsigned middle = middle_of(g.bins);
    uint32_t outside = 0;
    for (unsigned i = ZERO + 1; i < BINS; i++)
        outside +=
            (int)i - (int)middle >= APART - 1 || (int)middle - (int)i >= APART - 1 ? g.bins[i] : 0;
    if (outside && middle)
        judge_alone(&g, middle);
    if (g.bytes == 1 && g.bins[ZERO] >= ZERO_RUN && has_gap(&g) && !is_vocabulary(panel->unit))
        judge_zeros(&g);
}
