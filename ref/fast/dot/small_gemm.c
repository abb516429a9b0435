#include "ref/fast/dot/small_gemm.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/formats/wide.h"
#include "ref/fast/dot/kernels.h"
#include "ref/fast/dot/row.h"
#include "ref/fast/dot/tile.h"

/* Rows per turn of a thread: their outputs fill a cache line. */
enum { AT_ONCE = 16 };

/* The data that the rows of a call share. */
typedef struct job {
    const sb_matrix *w;
    const double *x; /* (count, cols) */
    size_t count;    /* at most SB_SMALL_GEMM_INPUTS */
    const sb_scalar *factor;
    float *out; /* (count, rows) */
    const sb_dot_kernels *set;
    sb_row_input *inputs; /* (count) */
    double *room;         /* scratch: `each` for each thread, then input_room for each input */
    size_t each, input_room, threads;
} job;

/* The outputs of AT_ONCE rows. */
typedef struct piece {
    double sums[SB_SMALL_GEMM_INPUTS][AT_ONCE], magnitudes[SB_SMALL_GEMM_INPUTS][AT_ONCE];
    unsigned char open[SB_SMALL_GEMM_INPUTS][AT_ONCE];
} piece;

static const unsigned char *scales_of(const sb_matrix *w, uint32_t row)
{
    return w->quant.scales + sb_matrix_stored_row(w, row) * w->quant.scale_row;
}

int sb_small_gemm_reads(const sb_matrix *w)
{
    return w->cols > 0 && sb_dot_kernels_now()->many[w->format] && sb_row_reads(w) &&
           sb_row_scales_lie_well(w);
}

/* Opens rows for the kernel; returns 0 if their scales are unsuitable. */
static int open_rows(const job *j, uint32_t first, sb_row_codes w[SB_SMALL_GEMM_ROWS])
{
    for (uint32_t r = 0; r < SB_SMALL_GEMM_ROWS; r++) {
        w[r] = (sb_row_codes){.codes = sb_matrix_dense(j->w, first + r),
                              .scale_codes = scales_of(j->w, first + r),
                              .group = j->w->quant.block_cols,
                              .n = j->w->cols};
        if (!j->set->reads_scales(w[r].scale_codes, j->w->quant.groups))
            return 0;
    }
    return 1;
}

static void one_row(const job *j, uint32_t row, double *room, double *sums, double *magnitudes)
{
    const sb_row_codes w = sb_row_open(j->w, row, room);
    for (size_t t = 0; t < j->count; t++) {
        const sb_partial partial = j->set->row[j->w->format](&w, &j->inputs[t]);
        sums[t * AT_ONCE] = partial.sum;
        magnitudes[t * AT_ONCE] = partial.magnitude;
    }
}

static void add_rows(const job *j, uint32_t first, uint32_t rows, double *room, piece *p)
{
    sb_row_codes w[SB_SMALL_GEMM_ROWS];
    for (uint32_t r = 0, now; r < rows; r += now) {
        double *sums = &p->sums[0][r], *magnitudes = &p->magnitudes[0][r];
        now = rows - r >= SB_SMALL_GEMM_ROWS && open_rows(j, first + r, w) ? SB_SMALL_GEMM_ROWS : 1;
        if (now == 1)
            one_row(j, first + r, room, sums, magnitudes);
        else
            j->set->many[j->w->format](w, j->inputs, j->count, sums, magnitudes, AT_ONCE);
    }
}

/* Computes those outputs of a row that are still open after the rounding test. */
static void settle_row(const job *j, const piece *p, uint32_t first, uint32_t r, double *room)
{
    double *wide = room + sb_row_workspace(j->w);
    sb_effort effort = SB_EFFORT_compensated;
    int known = 0;
    for (size_t t = 0; t < j->count; t++) {
        if (!p->open[t][r])
            continue;
        if (!known)
            sb_row_wide(j->w, first + r, room, wide);
        known = 1;
        j->out[t * j->w->rows + first + r] =
            sb_dot_wide_from(wide, j->x + t * j->w->cols, j->w->cols, j->factor, &effort);
    }
}

static void one_piece(void *ctx, size_t i, size_t worker)
{
    const job *j = ctx;
    double *room = j->room + worker * j->each;
    const uint32_t first = (uint32_t)(i * AT_ONCE);
    const uint32_t left = j->w->rows - first, rows = left < AT_ONCE ? left : AT_ONCE;
    piece p;
    int any = 0;
    add_rows(j, first, rows, room, &p);
    for (size_t t = 0; t < j->count; t++)
        any |= sb_row_round(j->w->cols, j->factor, p.sums[t], p.magnitudes[t], rows,
                            j->out + t * j->w->rows + first, p.open[t]);
    for (uint32_t r = 0; any && r < rows; r++)
        settle_row(j, &p, first, r, room);
}

static void one_input(void *ctx, size_t t, size_t worker)
{
    const job *j = ctx;
    double *for_inputs = j->room + j->threads * j->each;
    (void)worker;
    j->inputs[t] = sb_row_prepare(j->w, j->x + t * j->w->cols, for_inputs + t * j->input_room);
}

/* Computes all rows with at most SB_SMALL_GEMM_INPUTS inputs. */
static void some_inputs(job *j)
{
    const int many = sb_worth_threads((double)j->count * j->w->rows * j->w->cols);
    sb_parallel_for(j->count, many, one_input, j);
    sb_parallel_for(((size_t)j->w->rows + AT_ONCE - 1) / AT_ONCE, many, one_piece, j);
}

sb_status sb_small_gemm(const sb_matrix *w, const double *x, size_t count, const sb_scalar *factor,
                        float *out)
{
    const size_t turns = (count + SB_SMALL_GEMM_INPUTS - 1) / SB_SMALL_GEMM_INPUTS;
    const size_t most = turns ? (count + turns - 1) / turns : 0;
    sb_row_input inputs[SB_SMALL_GEMM_INPUTS];
    job j = {.w = w, .factor = factor, .set = sb_dot_kernels_now(), .inputs = inputs};
    j.input_room = sb_row_input_workspace(w);
    j.each = sb_row_workspace(w) + sb_tile_padded(w->cols);
    /* not zeroed: everything is written before it is read */
    j.threads = sb_threads_here();
    j.room = sb_realloc(NULL, j.threads * j.each + most * j.input_room, sizeof *j.room);
    if (!j.room)
        return SB_ERR_MEMORY;
    for (size_t t = 0; t < count; t += j.count) {
        j.x = x + t * w->cols;
        j.out = out + t * w->rows;
        j.count = count - t < most ? count - t : most;
        some_inputs(&j);
    }
    free(j.room);
    return SB_OK;
}
