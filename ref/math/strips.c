#include "ref/math/strips.h"

#include <omp.h>
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/formats/wide.h"
#include "ref/math/kernels.h"
#include "ref/math/row.h"
#include "ref/math/tile.h"

/* What the strips of one call share. */
typedef struct job {
    const sb_matrix *w;
    const double *x;
    const sb_scalar *factor;
    float *out;
    const sb_dot_kernels *set;
    sb_strip_input input;
    double *wide;    /* of each thread: a row */
    uint32_t height; /* rows of a strip */
} job;

/* Rows of one page for each thread, or as many as go in turn. */
static uint32_t height_of(const sb_matrix *w)
{
    enum { STEP = 64 };
    const size_t each = w->rows / sb_threads_here() / STEP * STEP;
    return each < STEP ? STEP : each < SB_STRIP_ROWS ? (uint32_t)each : SB_STRIP_ROWS;
}

/* Sums of digits times codes of a group stay below 2^31, as 2^20 * 15 * 128 does. */
int sb_strips_read(const sb_matrix *w)
{
    const sb_quant *q = &w->quant;
    const int packed = q->packing == SB_PACKING_gptq || q->packing == SB_PACKING_awq;
    const int zeros = q->zeros != SB_ZEROS_rows && q->zero >= 0 && q->zero <= 15;
    return sb_dot_kernels_now()->strip && w->format == SB_FORMAT_uint4 && packed && zeros &&
           !q->group_index && !w->row_map && w->first_row % 8 == 0 && q->stored_rows % 8 == 0 &&
           q->block_rows == 1 && q->scale_row == 1 && w->cols > 0 && w->cols <= 1u << 20 &&
           w->cols % 8 == 0 && (q->block_cols % SB_STRIP_BLOCK == 0 || q->block_cols >= w->cols);
}

static sb_strip strip_at(const job *j, uint32_t first)
{
    const uint32_t left = j->w->rows - first;
    return (sb_strip){j->w, first, left < j->height ? left : j->height};
}

static void one_strip(const job *j, uint32_t first)
{
    const sb_tile_kernels *tile = j->set->tile ? j->set->tile : &sb_tile_scalar;
    const sb_tile_factor product = {(double)j->factor->mul[0] * (double)j->factor->mul[1],
                                    (double)j->factor->div[0] * (double)j->factor->div[1]};
    const double error = sb_row_error(j->w->cols, sb_absolute(product.mul / product.div));
    const sb_strip strip = strip_at(j, first);
    double *wide = j->wide + (size_t)omp_get_thread_num() * j->w->cols;
    double sums[SB_STRIP_ROWS], magnitudes[SB_STRIP_ROWS];
    unsigned char open[SB_STRIP_ROWS];
    sb_effort effort = SB_EFFORT_kept;
    j->set->strip->add(&strip, &j->input, sums, magnitudes);
    if (!tile->round(sums, magnitudes, error, product, strip.rows, j->out + first, open))
        return;
    for (uint32_t r = 0; r < strip.rows; r++)
        if (open[r]) {
            sb_matrix_wide(j->w, first + r, wide);
            j->out[first + r] = sb_dot_wide_from(wide, j->x, j->w->cols, j->factor, &effort);
        }
}

static sb_status begin(job *j)
{
    const size_t blocks = (j->w->cols + SB_STRIP_BLOCK - 1) / SB_STRIP_BLOCK;
    j->set = sb_dot_kernels_now();
    j->height = height_of(j->w);
    j->input.blocks = sb_realloc(NULL, blocks, sizeof *j->input.blocks);
    j->input.groups = sb_realloc(NULL, sb_matrix_groups(j->w), sizeof *j->input.groups);
    j->wide = sb_realloc(NULL, sb_threads_here() * j->w->cols, sizeof *j->wide);
    if (!j->input.blocks || !j->input.groups || !j->wide)
        return SB_ERR_MEMORY;
    j->set->strip->arrange(j->w, j->x, &j->input);
    return SB_OK;
}

static sb_status end(job *j, sb_status status)
{
    free(j->input.blocks);
    free(j->input.groups);
    free(j->wide);
    return status;
}

sb_status sb_dot_strips(const sb_matrix *w, const double *x, const sb_scalar *factor, float *out)
{
    job j = {.w = w, .x = x, .factor = factor, .out = out};
    const sb_status status = begin(&j);
    if (status)
        return end(&j, status);
#pragma omp parallel for schedule(static) if (sb_worth_threads((double)w->rows * w->cols))
    for (int64_t i = 0; i < (int64_t)w->rows; i += j.height)
        one_strip(&j, (uint32_t)i);
    return end(&j, SB_OK);
}

sb_status sb_strips_partials(const sb_matrix *w, const double *x, sb_partial *partials)
{
    job j = {.w = w, .x = x};
    const sb_status status = begin(&j);
    for (uint32_t i = 0; i < w->rows && !status; i += j.height) {
        const sb_strip strip = strip_at(&j, i);
        double sums[SB_STRIP_ROWS], magnitudes[SB_STRIP_ROWS];
        j.set->strip->add(&strip, &j.input, sums, magnitudes);
        for (uint32_t r = 0; r < strip.rows; r++)
            partials[i + r] = (sb_partial){sums[r], magnitudes[r]};
    }
    return end(&j, status);
}
