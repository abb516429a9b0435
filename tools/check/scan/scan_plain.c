#include "tools/check/scan/scan.h"

#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/plain_row.h"
#include "ref/formats/wide.h"
#include "tools/check/read/bf16.h"
#include "tools/check/scan/rows.h"
#include "tools/check/scan/scan_double.h"

/* PIECE values are decoded at once. Sums are kept in separate lanes, so that every compiler adds in
 * the same order. */
enum { PIECE = SB_BF16_PIECE, LANES = 4 };

typedef struct lanes {
    double sum[LANES], sum2[LANES], sum4[LANES];
    float largest[LANES];
    uint32_t zeros[LANES];
} lanes;

static void add_lanes(lanes *to, const float *x, size_t n)
{
    lanes l = *to; /* a copy in registers */
    for (size_t i = 0; i < n; i += LANES) {
#pragma omp simd
        for (size_t j = 0; j < LANES; j++) {
            float value = x[i + j], magnitude = value < 0 ? -value : value;
            double wide = value, square = wide * wide;
            l.sum[j] += wide;
            l.sum2[j] += square;
            l.sum4[j] += square * square;
            l.largest[j] = magnitude > l.largest[j] ? magnitude : l.largest[j];
            l.zeros[j] += value == 0;
        }
    }
    *to = l;
}

static uint32_t bits_at(const sb_matrix *m, uint32_t row, uint32_t col)
{
    size_t size = sb_format_bytes(m->format);
    const unsigned char *at = sb_matrix_row_bytes(m, row) + col * size;
    return size == 2 ? sb_load_u16(at) : sb_load_u32(at);
}

static float value_at(const sb_matrix *m, uint32_t row, uint32_t col)
{
    return sb_code_to_f32(m->format, bits_at(m, row, col));
}

/* The slow path for rows with NaN, infinity or the largest F16. */
static void look_closely(const sb_panel *panel, uint32_t row)
{
    const sb_matrix *m = &panel->matrix;
    sb_seen_plain *seen = &panel->seen->plain;
    for (uint32_t k = 0; k < m->cols; k++) {
        float x = value_at(m, row, k), magnitude = x < 0 ? -x : x;
        int finite = sb_is_finite_f32(x);
        if (finite && !(m->format == SB_FORMAT_f16 && magnitude == 65504.0f))
            continue;
        uint64_t worse = seen->nans + seen->infinities;
        if (!seen->has_bad || (!finite && worse == 0))
            seen->bad = (sb_spot){panel->first + row, k, bits_at(m, row, k)};
        seen->has_bad = 1;
        seen->nans += x != x;
        seen->infinities += x == x && !finite;
        seen->saturated += finite != 0;
    }
}

/* Returns the number of padding zeros that were counted. */
static uint32_t add_decoded(sb_format format, const unsigned char *bytes, uint32_t n, lanes *l)
{
    float x[PIECE];
    uint32_t padded = (n + LANES - 1) / LANES * LANES;
    sb_plain_decode(format, bytes, n, x);
    memset(x + n, 0, (padded - n) * sizeof *x);
    add_lanes(l, x, padded);
    return padded - n;
}

/* Adds the sums of a piece to the moments; its largest magnitude is exact. */
static void add_bf16(const sb_bf16_sums *l, sb_moments *sums)
{
    double largest = (double)sb_f32_from_bits((uint32_t)l->top << 16);
    sums->sum += l->sum;
    sums->sum2 += l->sum2;
    sums->sum4 += l->sum4;
    sums->zeros += l->zeros;
    sums->largest = largest > sums->largest ? largest : sums->largest;
}

/* Returns 0 if binary32 was not wide enough for the sums. */
static int look_at_bf16(const unsigned char *bytes, uint32_t n, int shape, sb_moments *sums)
{
    unsigned char rest[2 * SB_BF16_STEP] = {0};
    sb_bf16_look_fn *look = sb_bf16_look();
    sb_bf16_sums l;
    uint32_t steps = n / SB_BF16_STEP, left = n % SB_BF16_STEP;
    sb_moments both = *sums;
    if (steps) {
        look(bytes, steps, shape, &l);
        if (!sb_bf16_fits(&l))
            return 0;
        add_bf16(&l, &both);
    }
    if (left) {
        memcpy(rest, bytes + 2 * (size_t)(n - left), 2 * (size_t)left);
        look(rest, 1, shape, &l);
        if (!sb_bf16_fits(&l))
            return 0;
        l.zeros -= SB_BF16_STEP - left;
        add_bf16(&l, &both);
    }
    *sums = both;
    return 1;
}

/* V-12: "Every value of a float tensor (BF16, F16 or F32) is examined" */
static sb_moments sums_of(const sb_matrix *m, uint32_t row, int shape)
{
    const unsigned char *bytes = sb_matrix_row_bytes(m, row);
    size_t size = sb_format_bytes(m->format);
    lanes l = {{0}, {0}, {0}, {0}, {0}};
    sb_moments sums = {.count = m->cols};
    for (uint32_t k = 0, n; k < m->cols; k += n) {
        n = m->cols - k < PIECE ? m->cols - k : PIECE;
        if (m->format != SB_FORMAT_bf16 || !look_at_bf16(bytes + k * size, n, shape, &sums))
            sums.zeros -= add_decoded(m->format, bytes + k * size, n, &l);
    }
    for (unsigned j = 0; j < LANES; j++) {
        sums.sum += shape ? l.sum[j] : 0;
        sums.sum2 += l.sum2[j];
        sums.sum4 += shape ? l.sum4[j] : 0;
        sums.zeros += l.zeros[j];
        sums.largest = l.largest[j] > sums.largest ? (double)l.largest[j] : sums.largest;
    }
    return sums;
}

static void add_row(const sb_panel *panel, uint32_t row)
{
    const sb_matrix *m = &panel->matrix;
    sb_moments sums = sums_of(m, row, sb_asks_shape(panel->unit));
    int finite = sums.sum2 <= 1e300;
    if (!finite || (m->format == SB_FORMAT_f16 && sums.largest == 65504))
        look_closely(panel, row);
    if (!finite) { /* compute the sums again, without NaN and infinity */
        sb_matrix_wide(m, row, panel->scratch);
        sb_seen_row(panel->seen, panel->scratch, m->cols);
        return;
    }
    sb_moments *to = &panel->seen->moments;
    to->count += sums.count;
    to->zeros += sums.zeros;
    to->sum += sums.sum;
    to->sum2 += sums.sum2;
    to->sum4 += sums.sum4;
    to->largest = sums.largest > to->largest ? sums.largest : to->largest;
    sb_seen_zero(panel->seen, sums.zeros == m->cols);
}

/* V-14: "bit for bit, or value for value where the dtypes differ" */
static void compare_values(const sb_panel *panel, uint32_t row)
{
    const sb_matrix *own = &panel->matrix, *master = panel->master;
    sb_seen_plain *seen = &panel->seen->plain;
    sb_distance *distance = &panel->seen->distance;
    int same_format = own->format == master->format;
    for (uint32_t k = 0; k < own->cols; k++) {
        uint32_t bits = bits_at(own, row, k), other = bits_at(master, row, k);
        float x = sb_code_to_f32(own->format, bits), y = sb_code_to_f32(master->format, other);
        double error = (double)x - (double)y, square = (double)y * (double)y;
        if (sb_is_finite_f32(x) && sb_is_finite_f32(y)) {
            distance->count++;
            distance->error2 += error * error;
            distance->master2 += square;
        }
        if (same_format ? bits == other : sb_bits_f32(x) == sb_bits_f32(y))
            continue;
        if (!seen->differing) {
            seen->first = (sb_spot){panel->first + row, k, bits};
            seen->first_master = other;
        }
        seen->differing++;
        seen->unrounded += same_format || sb_f32_to_code(own->format, y) != bits;
        seen->far += same_format || !(error * error <= square * 0x1p-16 + 0x1p-50);
    }
}

static void compare_row(const sb_panel *panel, uint32_t row, double row2)
{
    const sb_matrix *own = &panel->matrix, *master = panel->master;
    panel->seen->plain.compared += own->cols;
    if (own->format == master->format &&
        memcmp(sb_matrix_row_bytes(own, row), sb_matrix_row_bytes(master, row),
               own->cols * sb_format_bytes(own->format)) == 0) {
        panel->seen->distance.count += own->cols;
        panel->seen->distance.master2 += row2;
        return;
    }
    compare_values(panel, row);
}

void sb_scan_plain(const sb_panel *panel)
{
    const sb_matrix *m = &panel->matrix;
    int compare = panel->master && !sb_matrix_quantized(panel->master) &&
                  sb_format_is_plain(panel->master->format);
    panel->seen->has_distance = compare;
    for (uint32_t row = 0; row < m->rows; row++) {
        double before = panel->seen->moments.sum2;
        add_row(panel, row);
        if (compare)
            compare_row(panel, row, panel->seen->moments.sum2 - before);
    }
    if (!panel->unit->tensor && sb_check_wanted(panel->check, 40))
        sb_scan_double(panel);
}
