/* extremes.c - matrices whose numbers were cut off at one magnitude, or have random exponents.
 * Scales do not matter here: a number of an FP8 matrix is its code. */
#include "tools/check/scan/extremes.h"

#include <inttypes.h>

#include "ref/container/show.h"
#include "ref/formats/format.h"
#include "ref/formats/plain_row.h"
#include "ref/formats/wide.h"
#include "tools/check/scan/across.h"

enum {
    FEW = 1024,    /* least size of a matrix */
    SAMPLES = 128, /* per panel */
    SHARE = 8,     /* V-42: "at least an eighth of all" */
    SHARE_FP4 = 3, /* ... "a third of those that are not zero" */
    CHUNK = 256    /* columns that are decoded at once */
};

/* The magnitude of a number; 0 for NaN and infinity, which check 12 reports. */
static double magnitude(float x)
{
    double m = x < 0 ? -(double)x : (double)x;
    return m < 0x1p128 ? m : 0;
}

/* V-42: "there are three bands" - where each of the first two ends, beside the largest magnitude.
 */
static double band_end(sb_format format)
{
    return format == SB_FORMAT_e4m3 ? 0x1p-5 : 0x1p-40;
}

enum { BANDS = 3 };

static unsigned band_of(double x, double largest, double end)
{
    return x >= largest * end ? 0 : x >= largest * end * end ? 1 : 2;
}

/* V-42: "each has at least a fifth of the numbers other than" zero */
static int is_random(const uint64_t bands[BANDS])
{
    const uint64_t all = bands[0] + bands[1] + bands[2];
    return all && 5 * bands[0] >= all && 5 * bands[1] >= all && 5 * bands[2] >= all;
}

typedef struct extremes {
    double largest;
    uint64_t cut; /* numbers with this magnitude */
    uint64_t bands[BANDS];
} extremes;

static extremes of_numbers(const double *x, unsigned count, double end)
{
    extremes e = {.largest = 0};
    for (unsigned i = 0; i < count; i++) {
        e.cut = x[i] > e.largest ? 0 : e.cut;
        e.largest = x[i] > e.largest ? x[i] : e.largest;
        e.cut += x[i] == e.largest;
    }
    for (unsigned i = 0; i < count; i++)
        if (x[i] > 0)
            e.bands[band_of(x[i], e.largest, end)]++;
    return e;
}

static extremes of_samples(const sb_matrix *m)
{
    double x[SAMPLES];
    const uint64_t all = (uint64_t)m->rows * m->cols;
    const uint64_t step = all / SAMPLES - (all / SAMPLES % 2 == 0); /* odd: every column's turn */
    for (uint64_t i = 0; i < SAMPLES; i++) {
        float one;
        uint64_t at = i * step;
        const unsigned char *row = sb_matrix_row_bytes(m, (uint32_t)(at / m->cols));
        sb_decode(m->format, row + at % m->cols * sb_format_bits(m->format) / 8, 1, &one);
        x[i] = magnitude(one);
    }
    return of_numbers(x, SAMPLES, band_end(m->format));
}

/* Calls `each` for the magnitudes of a row, CHUNK at a time. */
typedef void each_fn(void *ctx, const double *x, unsigned count);

static void each_chunk(const sb_matrix *m, uint32_t row, each_fn *each, void *ctx)
{
    const unsigned char *p = sb_matrix_row_bytes(m, row);
    float values[CHUNK];
    double x[CHUNK];
    for (uint32_t col = 0; col < m->cols; col += CHUNK) {
        unsigned count = m->cols - col < CHUNK ? m->cols - col : CHUNK;
        sb_decode(m->format, p + (size_t)col * sb_format_bits(m->format) / 8, count, values);
        for (unsigned i = 0; i < count; i++)
            x[i] = magnitude(values[i]);
        each(ctx, x, count);
    }
}

/* Sizes of the numbers of a panel: by bands, and for E4M3 by the exponent of the code. */
typedef struct sums {
    double row_largest, largest, end;
    uint64_t cut, bands[BANDS], exponents[16];
} sums;

static void find_largest(void *ctx, const double *x, unsigned count)
{
    sums *s = ctx;
    for (unsigned i = 0; i < count; i++)
        s->row_largest = x[i] > s->row_largest ? x[i] : s->row_largest;
}

static void count_extremes(void *ctx, const double *x, unsigned count)
{
    sums *s = ctx;
    for (unsigned i = 0; i < count; i++) {
        s->cut += x[i] == s->largest;
        if (x[i] > 0)
            s->bands[band_of(x[i], s->row_largest, s->end)]++;
    }
}

static void count_exponents(const sb_matrix *m, uint32_t row, uint64_t exponents[16])
{
    const unsigned char *p = sb_matrix_row_bytes(m, row);
    for (uint32_t k = 0; k < m->cols; k++)
        exponents[p[k] >> 3 & 15]++;
}

/* V-42: "each of the exponents 1 to 14" */
static int is_flat(const uint64_t exponents[16])
{
    uint64_t all = 0, least = UINT64_MAX, most = 0;
    for (unsigned i = 0; i < 16; i++)
        all += exponents[i];
    for (unsigned i = 1; i < 15; i++) {
        least = exponents[i] < least ? exponents[i] : least;
        most = exponents[i] > most ? exponents[i] : most;
    }
    return 25 * least >= all && 10 * most <= all;
}

void sb_see_extremes(const sb_matrix *m, sb_seen *seen)
{
    const int e4m3 = m->format == SB_FORMAT_e4m3;
    if (m->format != SB_FORMAT_bf16 && m->format != SB_FORMAT_f16 && m->format != SB_FORMAT_f32 &&
        !e4m3)
        return;
    if ((uint64_t)m->rows * m->cols < FEW)
        return;
    const extremes e = of_samples(m);
    const int cut = e.largest > 0 && SHARE * e.cut >= SAMPLES;
    if (!cut && !is_random(e.bands))
        return;
    sums s = {.largest = cut ? e.largest : -1, .end = band_end(m->format)};
    for (uint32_t row = 0; row < m->rows; row++) {
        s.row_largest = 0;
        each_chunk(m, row, find_largest, &s);
        each_chunk(m, row, count_extremes, &s);
        if (e4m3)
            count_exponents(m, row, s.exponents);
    }
    seen->cut += s.cut;
    if (e4m3 ? is_flat(s.exponents) : is_random(s.bands))
        seen->strayed += s.bands[0] + s.bands[1] + s.bands[2];
}

/* --- the judgement ---------------------------------------------------------------------------- */

/* Numbers with the largest magnitude, and all that were counted. */
typedef struct share {
    uint64_t part, all;
} share;

static int is_fp4(const sb_unit *unit)
{
    if (unit->tensor || unit->status)
        return 0;
    return unit->found.container == SB_CONTAINER_nvfp4_ct ||
           unit->found.container == SB_CONTAINER_nvfp4_modelopt ||
           unit->found.container == SB_CONTAINER_mxfp4;
}

/* FP4: of the codes that are not zero, in the rows where each magnitude was counted. */
static share cut_of(const sb_unit *unit, const sb_seen *s)
{
    share cut = {s->cut, s->moments.count};
    if (is_fp4(unit)) {
        cut = (share){s->fp4.magnitude[7], 0};
        for (unsigned m = 1; m < 8; m++)
            cut.all += s->fp4.magnitude[m];
    }
    return cut;
}

static int is_cut(const sb_unit *unit, const sb_seen *s)
{
    const share cut = cut_of(unit, s);
    return s->done && s->rows > 1 && cut.all >= FEW &&
           (is_fp4(unit) ? SHARE_FP4 : SHARE) * cut.part >= cut.all;
}

static int is_strayed(const sb_seen *s)
{
    return s->done && s->rows > 1 && s->strayed &&
           2 * s->strayed >= s->moments.count - s->moments.zeros;
}

/* V-42: "If most matrices of floats and FP4 are like that" */
static int cuts_are_usual(const sb_check *check)
{
    uint64_t cut = 0, all = 0;
    for (size_t i = 0; i < check->self.units.count; i++) {
        const sb_unit *unit = &check->self.units.rows[i];
        for (size_t k = 0; k < unit->seen_count && (sb_unit_is_plain(unit) || is_fp4(unit)); k++) {
            const sb_seen *s = &unit->seen[k];
            all += s->done && s->rows > 1 && cut_of(unit, s).all >= FEW;
            cut += (uint64_t)is_cut(unit, s);
        }
    }
    return 2 * cut > all;
}

static void judge_extremes(sb_check *check, const sb_unit *unit, int cuts)
{
    const sb_seen *first = NULL;
    uint64_t pieces = 0;
    for (size_t i = 0; i < unit->seen_count && !unit->status; i++) {
        const sb_seen *s = &unit->seen[i];
        if ((!(cuts && is_cut(unit, s)) && !is_strayed(s)) || sb_values_known(unit, s))
            continue;
        first = first ? first : s;
        pieces++;
    }
    if (!first)
        return;
    const char *name = unit->tensor ? unit->name : sb_unit_tensor(unit, SB_PART_COUNT);
    const share cut = cut_of(unit, first);
    if (cuts && is_cut(unit, first))
        sb_check_find(
            check, 42, SB_LEVEL_error, name,
            "%" PRIu64 " of %" PRIu64 " numbers have the same, largest magnitude (%" PRIu64
            " of %zu matrices), expected less than %s: larger ones were cut off",
            cut.part, cut.all, pieces, unit->seen_count, is_fp4(unit) ? "a third" : "an eighth");
    else
        sb_check_find(check, 42, SB_LEVEL_error, name,
                      "%" PRIu64 " of %" PRIu64
                      " numbers have sizes that are spread evenly (%" PRIu64
                      " of %zu matrices), expected numbers of similar size: exponents are random",
                      first->strayed, first->moments.count, pieces, unit->seen_count);
}

void sb_check_extremes(sb_check *check)
{
    const int usual = cuts_are_usual(check);
    for (size_t i = 0; i < check->self.units.count; i++) {
        const sb_unit *unit = &check->self.units.rows[i];
        judge_extremes(check, unit, !usual || !(sb_unit_is_plain(unit) || is_fp4(unit)));
    }
}
