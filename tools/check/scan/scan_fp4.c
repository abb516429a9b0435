/* scan_fp4.c - NVFP4 and MXFP4: a panel, row by row. */
#include <float.h>
#include <string.h>

#include "ref/formats/plain_row.h"
#include "ref/formats/small_float.h"
#include "ref/formats/wide.h"
#include "ref/fast/dot/dot.h"
#include "tools/check/scan/fp4.h"
#include "tools/check/scan/recipe.h"

enum { CHUNK = 16 };

/* V-23: "producers that declare to round otherwise" */
static int rounds_to_nearest(const sb_panel *p)
{
    sb_error err;
    sb_declaration d;
    const sb_declared *declared = p->check->self.declared;
    if (p->unit->found.part[SB_PART_pre_quant_scale])
        return 0;
    if (sb_recipe_of(p->check) & (SB_RECIPE_smoothed | SB_RECIPE_rotated))
        return 0; /* they round other weights than the original's */
    if (!declared)
        return 1;
    if (sb_declared_dialect(declared) == SB_DIALECT_auto_round ||
        sb_declared_dialect(declared) == SB_DIALECT_gptq ||
        sb_declared_dialect(declared) == SB_DIALECT_awq)
        return 0;
    return sb_declared_for(declared, p->unit->name, &d, &err) != SB_OK || !d.pre_scaled;
}

static void prepare_values(sb_fp4 *f)
{
    for (unsigned i = 0; i < 256; i++) {
        int number = f->mx ? i != 0xff : i > 0 && i < 0x7f;
        float v = f->mx ? sb_e8m0_to_f32((uint8_t)i) : sb_e4m3_to_f32((uint8_t)i);
        double inverse = 1 / ((double)v * f->multiplier);
        /* beyond these limits squares would not fit binary32; then the fast test leaves a doubt,
         * and the slow one decides */
        int fast = number && inverse < 0x1p100 && inverse > 0x1p-100 && v < 0x1p50f && v > 0x1p-50f;
        f->scale[i] = number ? (double)v : 0;
        f->scale2[i] = f->scale[i] * f->scale[i];
        f->inverse[i] = fast ? (float)inverse : 0;
        f->square[i] = fast ? v * v : 0;
    }
}

sb_fp4_loops sb_fp4_loops_with(const char *kernels)
{
    return strncmp(kernels, "avx512", 6) == 0 ? SB_FP4_AVX512
           : strcmp(kernels, "avx2") == 0     ? SB_FP4_AVX2
                                              : SB_FP4_PLAIN;
}

static void prepare(const sb_panel *p, sb_fp4 *f)
{
    const sb_matrix *m = &p->matrix;
    const sb_factor *factor = &m->quant.factor;
    f->panel = p;
    f->seen = &p->seen->fp4;
    f->loops = sb_fp4_loops_with(sb_dot_selected());
    f->mx = m->quant.scale_format == SB_FORMAT_e8m0;
    f->chunks = f->mx ? 2 : 1;
    f->blocks = m->cols / (f->chunks * CHUNK);
    f->multiplier = 1;
    f->usable = 1;
    f->nearest = 0;
    if (factor->kind != SB_NO_FACTOR && !f->mx) {
        double v = (double)factor->value;
        f->usable = v > (double)FLT_MIN && v <= (double)FLT_MAX;
        f->multiplier = !f->usable ? 1 : factor->kind == SB_DIVISOR ? 1 / v : v;
    }
    prepare_values(f);
    f->shape = sb_asks_shape(p->unit);
    sb_fp4_prepare_sums(f);
    if (!p->master || !f->usable)
        return;
    if (p->first == 0)
        f->seen->nearest = !sb_matrix_quantized(p->master) && rounds_to_nearest(p);
    f->nearest = f->seen->nearest;
    f->seen->has_master = 1;
    p->seen->has_distance = 1;
    sb_fp4_prepare_scales(f);
    sb_fp4_prepare_ranges(&f->ranges);
}

/* A row of the original: a BF16 row is used as stored, because most originals are BF16; any other
 * is converted to binary32. */
static void master_row(const sb_panel *p, uint32_t i, float *values, sb_fp4_line *line)
{
    const sb_matrix *m = p->master;
    double *wide = p->scratch + m->cols;
    if (m->format == SB_FORMAT_bf16 && !sb_matrix_quantized(m)) {
        line->bf16 = sb_matrix_row_bytes(m, i);
        return;
    }
    float factor = m->quant.factor.kind == SB_NO_FACTOR ? 1 : sb_factor_multiplier(m->quant.factor);
    sb_matrix_wide(m, i, wide);
    for (uint32_t k = 0; k < m->cols; k++)
        values[k] = (float)(wide[k] * (double)factor);
}

/* Rows i and following, as many as are processed together. Only row i if a row map selects the
 * rows. */
static sb_fp4_rows rows_from(const sb_panel *panel, uint32_t i)
{
    const sb_matrix *m = &panel->matrix;
    const uint64_t stored = sb_matrix_stored_row(m, i);
    const uint32_t most = m->row_map ? 1 : SB_FP4_ROWS;
    const size_t codes = m->cols / 2, scales = m->quant.scale_row;
    return (sb_fp4_rows){.codes = m->data + stored * codes,
                         .scales = m->quant.scales + stored * scales,
                         .codes_step = codes,
                         .scales_step = scales,
                         .first = panel->first + i,
                         .count = m->rows - i < most ? m->rows - i : most};
}

void sb_scan_fp4(const sb_panel *panel)
{
    sb_fp4 f;
    sb_fp4_recent recent[SB_FP4_RECENT] = {{0}};
    sb_fp4_tally tally = {.codes = 0};
    const sb_matrix *m = &panel->matrix;
    /* both arrays fit into the first of the two rows of doubles */
    float *weights = (float *)panel->scratch;
    sb_fp4_line line = {.weights = weights, .largest = (uint32_t *)(weights + m->cols)};
    f.recent = recent;
    prepare(panel, &f);
    for (uint32_t i = 0, next; i < m->rows; i = next) {
        sb_fp4_rows rows = rows_from(panel, i);
        next = i + rows.count;
        tally.few = f.seen->few;
        uint32_t dead = sb_fp4_add_rows(&f, &rows, &tally);
        if (i == 0 && !f.seen->few) {
            sb_fp4_add_tally(panel->seen, &tally);
            f.seen->few = (uint8_t)sb_fp4_few_will_do(&f);
        }
        for (uint32_t k = 0; k < rows.count && panel->master && f.usable; k++) {
            line.codes = rows.codes + k * rows.codes_step;
            line.scales = rows.scales + k * rows.scales_step;
            line.row = rows.first + k;
            master_row(panel, i + k, weights, &line);
            if (sb_fp4_against(&f, &line) && dead >> k & 1)
                sb_fp4_place(&f.seen->died, line.row, 0);
        }
    }
    sb_fp4_add_tally(panel->seen, &tally);
    if (panel->last)
        sb_fp4_judge(&f);
}
