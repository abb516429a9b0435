#include "tests/check/scan_case.h"

#include "tests/lib/cmocka.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/plain_row.h"
#include "ref/formats/wide.h"

static void draw_master(scan_case *c, uint64_t seed)
{
    const sb_matrix *m = &c->unit.found.matrix;
    uint64_t key = sb_rng_key(seed, "master");
    double *wide = calloc(m->cols, sizeof *wide);
    c->master_bytes = calloc(m->rows, 2 * (size_t)m->cols);
    assert_true(wide && c->master_bytes);
    for (uint32_t n = 0; n < m->rows; n++) {
        sb_matrix_wide(m, n, wide);
        for (uint32_t k = 0; k < m->cols; k++) {
            uint64_t at = (uint64_t)n * m->cols + k;
            double move = sb_rng_below(key, at, 8) ? 0.2 : 2; /* most codes stay nearest */
            double w = wide[k] + move * sb_matrix_scale(m, n, k) *
                                     ((double)sb_rng_uniform(key, at + (1u << 30)) - 0.5);
            if (!(fabs(w) < 1e30))
                w = 0;
            sb_store_u16(c->master_bytes + 2 * at, sb_f32_to_bf16((float)w));
        }
    }
    free(wide);
    c->master = (sb_matrix){
        .data = c->master_bytes, .format = SB_FORMAT_bf16, .rows = m->rows, .cols = m->cols};
}

scan_case scan_case_draw(const quant_spec *spec, uint64_t seed)
{
    scan_case c = {.layer = quant_layer_draw(spec, seed)};
    sb_error err = {""};
    const char *name = spec->name ? spec->name : QUANT_NAME;
    char test[64]; /* several programs draw cases, perhaps at the same time */
    snprintf(test, sizeof test, "test_scans-%ld", (long)getpid());
    c.checkpoint = quant_open(&c.layer.folder, test);
    if (sb_detect(c.checkpoint, name, spec->experts, 0, 0, &c.unit.found, &err))
        fail_msg("%s: %s", quant_spec_text(spec), err.text);
    c.scratch = calloc(2 * (size_t)c.unit.found.matrix.cols, sizeof *c.scratch);
    assert_non_null(c.scratch);
    draw_master(&c, seed);
    return c;
}

void scan_case_free(scan_case *c)
{
    free(c->master_bytes);
    free(c->scratch);
    sb_checkpoint_close(c->checkpoint);
    quant_layer_free(&c->layer);
}

/* Rows first .. first + rows - 1 of a matrix, as the pass over a checkpoint gives them to scans: if
 * they start at a row of blocks, their bytes and scales start there, too. */
static sb_matrix rows_of(const sb_matrix *m, uint32_t first, uint32_t rows)
{
    sb_matrix part = *m;
    uint32_t block = m->quant.scales ? m->quant.block_rows : 1;
    part.rows = rows;
    part.first_row += first;
    if (first % block != 0 || m->quant.zeros != SB_ZEROS_none || m->quant.packing)
        return part;
    part.first_row = 0;
    part.data += first * (m->cols * (uint64_t)sb_format_bits(m->format) / 8);
    if (m->quant.scales)
        part.quant.scales +=
            first / block * m->quant.scale_row * (uint64_t)sb_format_bytes(m->quant.scale_format);
    return part;
}

static sb_seen run_in(sb_region region, const scan_case *c, void (*scan)(const sb_panel *),
                      uint32_t rows, int with_master)
{
    sb_unit unit = c->unit;
    unit.region = region;
    const sb_matrix *m = &c->unit.found.matrix;
    sb_seen seen = {.rows = m->rows, .cols = m->cols};
    sb_findings findings = {0};
    uint32_t step = rows ? rows : m->rows;
    for (uint32_t first = 0; first < m->rows; first += step) {
        uint32_t count = m->rows - first < step ? m->rows - first : step;
        sb_matrix master = rows_of(&c->master, first, count);
        sb_panel panel = {.unit = &unit,
                          .name = QUANT_NAME,
                          .matrix = rows_of(m, first, count),
                          .first = first,
                          .rows = m->rows,
                          .last = first + count == m->rows,
                          .master = with_master ? &master : NULL,
                          .seen = &seen,
                          .findings = &findings,
                          .scratch = c->scratch};
        scan(&panel);
    }
    seen.done = 1;
    assert_int_equal(findings.count, 0);
    return seen;
}

/* Sums of values and of fourth powers are computed only for the MTP head. Without them all other
 * results must be the same. */
sb_seen scan_case_run(const scan_case *c, void (*scan)(const sb_panel *), uint32_t rows,
                      int with_master)
{
    sb_seen all = run_in(SB_REGION_mtp, c, scan, rows, with_master);
    sb_seen few = run_in(SB_REGION_trunk, c, scan, rows, with_master);
    few.moments.sum = all.moments.sum;
    few.moments.sum4 = all.moments.sum4;
    assert_memory_equal(&few.moments, &all.moments, sizeof all.moments);
    assert_memory_equal(&few.distance, &all.distance, sizeof all.distance);
    assert_int_equal(few.zero_rows, all.zero_rows);
    return all;
}

sb_seen scan_case_defined(const scan_case *c, int with_master)
{
    const sb_matrix *m = &c->unit.found.matrix;
    sb_seen seen = {.rows = m->rows, .cols = m->cols, .has_distance = with_master};
    double *wide = calloc(m->cols, sizeof *wide);
    float *master = calloc(m->cols, sizeof *master);
    assert_true(wide && master);
    for (uint32_t n = 0; n < m->rows; n++) {
        sb_matrix_wide(m, n, wide);
        sb_seen_row(&seen, wide, m->cols);
        sb_matrix_row(&c->master, n, master);
        for (uint32_t k = 0; k < m->cols && with_master; k++) {
            double error = wide[k] - master[k];
            seen.distance.count++;
            seen.distance.error2 += error * error;
            seen.distance.master2 += (double)master[k] * master[k];
        }
    }
    free(wide);
    free(master);
    return seen;
}

static void expect_close(const char *what, const char *which, double a, double b, double size)
{
    if (!(fabs(a - b) <= size))
        fail_msg("%s: %s is %.17g and %.17g", what, which, a, b);
}

void expect_same_seen(const char *what, const sb_seen *a, const sb_seen *b)
{
    expect_near_seen(what, a, b, 1e-9);
}

void expect_near_seen(const char *what, const sb_seen *a, const sb_seen *b, double near)
{
    if (a->zero_rows != b->zero_rows || a->zero_run != b->zero_run ||
        a->zero_run_first != b->zero_run_first || a->moments.count != b->moments.count ||
        a->moments.zeros != b->moments.zeros || a->has_distance != b->has_distance ||
        a->distance.count != b->distance.count)
        fail_msg(
            "%s: counts differ: zero rows %d %d, run %d %d, values %d %d, zeros %d %d, compared %d "
            "%d",
            what, (int)a->zero_rows, (int)b->zero_rows, (int)a->zero_run, (int)b->zero_run,
            (int)a->moments.count, (int)b->moments.count, (int)a->moments.zeros,
            (int)b->moments.zeros, (int)a->distance.count, (int)b->distance.count);
    const sb_moments *m = &a->moments, *n = &b->moments;
    const sb_distance *d = &a->distance, *e = &b->distance;
    expect_close(what, "sum", m->sum, n->sum, near * sqrt(n->sum2 * (double)n->count));
    expect_close(what, "sum2", m->sum2, n->sum2, near * n->sum2);
    expect_close(what, "sum4", m->sum4, n->sum4, near * n->sum4);
    expect_close(what, "largest", m->largest, n->largest, 1e-9 * n->largest);
    expect_close(what, "error2", d->error2, e->error2,
                 near * (e->error2 + 1e-6 * e->master2 + sqrt(e->error2 * e->master2)));
    expect_close(what, "master2", d->master2, e->master2, near * e->master2);
}
