#include "ref/fast/dot/strips.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/formats/repack.h"
#include "ref/formats/wide.h"
#include "ref/fast/dot/kernels.h"
#include "ref/fast/dot/row.h"
#include "ref/fast/dot/tile.h"

/* The data that the strips of a call share. */
typedef struct job {
    const sb_matrix *w;
    const double *x;
    const sb_scalar *factor;
    float *out;
    const sb_dot_kernels *set;
    sb_strip_input input;
    uint32_t height; /* rows of a strip */
    double *room; /* scratch of each thread: one row, its scales, and the codes of TOGETHER rows */
    size_t each;
} job;

/* The number of rows that share words. They are repacked together if one of them is still open. */
enum { TOGETHER = 8 };

/* The number of rows of a strip: as many as possible, so that a thread reads long pieces of each
 * column, but few enough that every thread gets a strip. */
static uint32_t height_of(const sb_matrix *w)
{
    enum { STEP = 64 };
    const size_t each = w->rows / sb_threads_here() / STEP * STEP;
    return each < STEP ? STEP : each < SB_STRIP_ROWS ? (uint32_t)each : SB_STRIP_ROWS;
}

/* Sums of digits times codes stay below 2^31, because 2^20 * 15 * 128 is below 2^31. */
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

/* Computes the outputs of rows from `row` on whose rounding the sums could not decide. */
static void settle_rows(const job *j, uint32_t row, uint32_t rows, const unsigned char *open,
                        double *wide, sb_effort *effort)
{
    double *scales = wide + sb_tile_padded(j->w->cols);
    unsigned char *together = (unsigned char *)(scales + sb_row_workspace(j->w));
    const size_t each = sb_matrix_repack_each(j->w);
    int brought = 0;
    for (uint32_t r = 0; r < rows; r++) {
        if (!open[r])
            continue;
        if (!brought)
            sb_matrix_repack(j->w, row, rows, together, each);
        brought = 1;
        sb_row_codes codes = sb_row_open(j->w, row + r, scales);
        codes.codes = together + r * each;
        sb_row_widen(j->w, row + r, &codes, wide);
        j->out[row + r] = sb_dot_wide_from(wide, j->x, j->w->cols, j->factor, effort);
    }
}

static void one_strip(void *ctx, size_t i, size_t worker)
{
    const job *j = ctx;
    const uint32_t first = (uint32_t)(i * j->height);
    double *wide = j->room + worker * j->each;
    const sb_strip strip = strip_at(j, first);
    double sums[SB_STRIP_ROWS], magnitudes[SB_STRIP_ROWS];
    unsigned char open[SB_STRIP_ROWS];
    sb_effort effort = SB_EFFORT_compensated;
    j->set->strip->add(&strip, &j->input, sums, magnitudes);
    if (!sb_row_round(j->w->cols, j->factor, sums, magnitudes, strip.rows, j->out + first, open))
        return;
    for (uint32_t r = 0; r < strip.rows; r += TOGETHER)
        settle_rows(j, first + r, strip.rows - r < TOGETHER ? strip.rows - r : TOGETHER, open + r,
                    wide, &effort);
}

static sb_status begin(job *j)
{
    const size_t blocks = (j->w->cols + SB_STRIP_BLOCK - 1) / SB_STRIP_BLOCK;
    j->set = sb_dot_kernels_now();
    j->height = height_of(j->w);
    j->input.blocks = sb_realloc(NULL, blocks, sizeof *j->input.blocks);
    j->input.groups = sb_realloc(NULL, sb_matrix_groups(j->w), sizeof *j->input.groups);
    j->each = sb_tile_padded(j->w->cols) + sb_row_workspace(j->w) +
              TOGETHER * sb_matrix_repack_each(j->w) / sizeof *j->room + 1;
    j->room = sb_realloc(NULL, sb_threads_here() * j->each, sizeof *j->room);
    if (!j->input.blocks || !j->input.groups || !j->room)
        return SB_ERR_MEMORY;
    j->set->strip->arrange(j->w, j->x, &j->input);
    return SB_OK;
}

static sb_status end(job *j, sb_status status)
{
    free(j->input.blocks);
    free(j->input.groups);
    free(j->room);
    return status;
}

sb_status sb_dot_strips(const sb_matrix *w, const double *x, const sb_scalar *factor, float *out)
{
    job j = {.w = w, .x = x, .factor = factor, .out = out};
    const sb_status status = begin(&j);
    if (status)
        return end(&j, status);
    sb_parallel_for(((size_t)w->rows + j.height - 1) / j.height,
                    sb_worth_threads((double)w->rows * w->cols), one_strip, &j);
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
