#include "ref/fast/dot/row.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"
#include "ref/fast/dot/batch.h"
#include "ref/fast/dot/kernels.h"
#include "ref/fast/dot/small_gemm.h"
#include "ref/fast/dot/strips.h"
#include "ref/fast/dot/tile.h"

/* The number of inputs per sum of magnitudes. */
enum { NEIGHBOURS = 16 };

int sb_row_reads(const sb_matrix *w)
{
    const sb_quant *q = &w->quant;
    if (!sb_dot_kernels_now()->row[w->format])
        return 0;
    if (sb_format_is_plain(w->format))
        return !sb_matrix_quantized(w);
    return !sb_matrix_quantized(w) ||
           (q->packing == SB_PACKING_rows && !q->group_index &&
            (q->block_cols % NEIGHBOURS == 0 || q->block_cols >= w->cols));
}

int sb_row_scales_lie_well(const sb_matrix *w)
{
    const sb_quant *q = &w->quant;
    return sb_dot_kernels_now()->reads_scales && w->format == SB_FORMAT_e2m1 &&
           sb_matrix_quantized(w) && q->scale_format == SB_FORMAT_e4m3 && q->scale_col == 1 &&
           q->block_rows == 1 && q->block_cols == NEIGHBOURS;
}

size_t sb_row_workspace(const sb_matrix *w)
{
    return 2 * (size_t)sb_matrix_groups(w);
}

/* "A block scale of an FP4 or FP8 format with its sign bit set has no value" - rows with such
 * scales, or with scales of another format than E4M3, are read one scale at a time. */
static void open_scales(const sb_matrix *w, uint32_t row, double *scales)
{
    const sb_quant *q = &w->quant;
    uint64_t first = sb_matrix_stored_row(w, row) / q->block_rows * q->scale_row;
    int quick =
        sb_dot_kernels_now()->scales && q->scale_format == SB_FORMAT_e4m3 && q->scale_col == 1;
    if (!quick || !sb_dot_kernels_now()->scales(q->scales + first, sb_matrix_groups(w), scales))
        sb_matrix_scales(w, row, scales);
}

sb_row_codes sb_row_open(const sb_matrix *w, uint32_t row, double *room)
{
    sb_row_codes codes = {
        .codes = sb_matrix_dense(w, row), .group = w->cols ? w->cols : 1, .n = w->cols};
    if (!sb_matrix_quantized(w))
        return codes;
    codes.group = w->quant.block_cols;
    codes.scales = room;
    open_scales(w, row, room);
    if (sb_matrix_has_zeros(w)) {
        double *zeros = room + sb_matrix_groups(w);
        sb_matrix_zeros(w, row, zeros);
        codes.zeros = zeros;
    }
    return codes;
}

/* The columns, rounded up to pairs of blocks. */
static size_t padded(const sb_matrix *w)
{
    const size_t blocks = (size_t)2 * SB_ROW_BLOCK;
    return (w->cols + blocks - 1) / blocks * blocks;
}

/* The room has space for alignment, then x, lanes and the sums x16. */
size_t sb_row_input_workspace(const sb_matrix *w)
{
    return 2 * padded(w) + padded(w) / NEIGHBOURS + SB_LINE / sizeof(double);
}

/* Adds the two halves repeatedly, so that additions are independent. */
static double magnitude_of(const double x[NEIGHBOURS])
{
    double sum[NEIGHBOURS];
    for (size_t k = 0; k < NEIGHBOURS; k++)
        sum[k] = sb_absolute(x[k]);
    for (size_t half = NEIGHBOURS / 2; half > 0; half /= 2)
        for (size_t k = 0; k < half; k++)
            sum[k] += sum[k + half];
    return sum[0];
}

sb_row_input sb_row_prepare(const sb_matrix *w, const double *x, double *room)
{
    const size_t n = padded(w);
    double *copy = sb_at_line(room), *lanes = copy + n, *x16 = lanes + n;
    void (*arrange)(const double *, size_t, double *) = sb_dot_kernels_now()->arrange[w->format];
    double (*squares)(const double *, size_t) = sb_dot_kernels_now()->squares[w->format];
    memcpy(copy, x, w->cols * sizeof *x);
    memset(copy + w->cols, 0, (n - w->cols) * sizeof *x);
    double size = 0;
    if (sb_dot_kernels_now()->magnitudes)
        sb_dot_kernels_now()->magnitudes(copy, n / NEIGHBOURS, x16);
    else
        for (size_t i = 0; i < n / NEIGHBOURS; i++)
            x16[i] = magnitude_of(copy + i * NEIGHBOURS);
    for (size_t i = 0; i < n / NEIGHBOURS; i++)
        size += x16[i];
    if (arrange)
        arrange(copy, w->cols, lanes);
    return (sb_row_input){copy, x16, arrange ? lanes : NULL, size, squares ? squares(copy, n) : 0};
}

int sb_row_certain(sb_partial partial, size_t n, const sb_scalar *factor, float *rounded)
{
    double mul = (double)factor->mul[0] * (double)factor->mul[1];
    double div = (double)factor->div[0] * (double)factor->div[1];
    partial.sum = partial.sum * mul / div;
    partial.magnitude = partial.magnitude * sb_absolute(mul) / sb_absolute(div);
    return n < (size_t)1 << 28 && sb_round_within(partial, sb_row_roundings_scaled(n), rounded);
}

int sb_row_round(uint32_t n, const sb_scalar *factor, const double *sums, const double *magnitudes,
                 size_t rows, float *out, unsigned char *open)
{
    const sb_tile_kernels *tile = sb_dot_kernels_now()->tile;
    const sb_tile_factor product = {(double)factor->mul[0] * (double)factor->mul[1],
                                    (double)factor->div[0] * (double)factor->div[1]};
    const double error = sb_row_error(n, sb_absolute(product.mul / product.div));
    return (tile ? tile : &sb_tile_scalar)
        ->round(sums, magnitudes, error, product, rows, out, open);
}

float sb_row_settle(const sb_matrix *w, uint32_t row, const double *x, const sb_scalar *factor,
                    double *wide)
{
    sb_matrix_wide(w, row, wide);
    return sb_dot_wide_slowly(wide, x, w->cols, factor);
}

/* The sum of squares that a tile decoder returns is finite only if all values are. */
void sb_row_widen(const sb_matrix *w, uint32_t row, const sb_row_codes *codes, double *wide)
{
    const sb_tile_kernels *tile = sb_dot_kernels_now()->tile;
    sb_tile_widen *kernel = tile ? tile->widen[w->format] : NULL;
    double squares = kernel ? kernel(codes, 0, w->cols, wide) : sb_f64_from_bits((uint64_t)-1);
    if (!(squares < 0x1p1000))
        sb_matrix_wide(w, row, wide);
}

void sb_row_wide(const sb_matrix *w, uint32_t row, double *room, double *wide)
{
    const sb_row_codes codes = sb_row_open(w, row, room);
    sb_row_widen(w, row, &codes, wide);
}

/* Rows per turn of a thread: their outputs fill two cache lines. */
enum { AT_ONCE = 32 };

/* The data that the rows of a call share. */
typedef struct job {
    const sb_matrix *w;
    const double *x;
    const sb_scalar *factor;
    float *out;
    const sb_dot_kernels *set;
    int in_place;       /* 1: the kernel can read scales in place if reads_scales() accepts them */
    sb_row_input input; /* the only input, if kernels read the matrix; else input.x is NULL */
    double *room;       /* scratch of each thread: twice sb_row_workspace, and a row */
    size_t each;
} job;

static const unsigned char *scales_at(const sb_matrix *w, uint32_t row)
{
    return w->quant.scales + sb_matrix_stored_row(w, row) * w->quant.scale_row;
}

/* True if the codes of all these rows are one array, and one of these holds: the scales are one
 * array that the kernel can read, all rows share their scales, or there are no scales. */
static int all_fit(const job *j, uint32_t first, uint32_t rows)
{
    const sb_quant *q = &j->w->quant;
    if (j->w->row_map || !sb_matrix_quantized(j->w))
        return !j->w->row_map;
    if (j->in_place)
        return q->scale_row == q->groups &&
               j->set->reads_scales(scales_at(j->w, first), (size_t)rows * q->groups);
    return !sb_matrix_has_zeros(j->w) &&
           sb_matrix_stored_row(j->w, first) / q->block_rows ==
               sb_matrix_stored_row(j->w, first + rows - 1) / q->block_rows;
}

/* Computes a row whose rounding its kernel could not decide. Begins with *effort, the method that
 * decided the last such row. */
static void settle_row(const job *j, uint32_t row, double *room, sb_effort *effort)
{
    double *wide = room + 2 * sb_row_workspace(j->w);
    sb_row_wide(j->w, row, room, wide);
    j->out[row] = sb_dot_wide_from(wide, j->x, j->w->cols, j->factor, effort);
}

/* Opens a row for a kernel. fit: reads_scales() has already accepted its scales. `before`, if not
 * NULL, is the row before; the two may share their scales. `room` has space for the scales of
 * both. */
static void open_row(const job *j, uint32_t row, int fit, const sb_row_codes *before, double *room,
                     sb_row_codes *codes)
{
    const uint32_t height = j->w->quant.block_rows;
    if (j->in_place && (fit || j->set->reads_scales(scales_at(j->w, row), j->w->quant.groups))) {
        *codes = (sb_row_codes){.codes = sb_matrix_dense(j->w, row),
                                .scale_codes = scales_at(j->w, row),
                                .group = NEIGHBOURS,
                                .n = j->w->cols};
        return;
    }
    if (before && before->scales && !before->zeros &&
        sb_matrix_stored_row(j->w, row) / height == sb_matrix_stored_row(j->w, row - 1) / height) {
        *codes = *before;
        codes->codes = sb_matrix_dense(j->w, row);
        return;
    }
    const int taken = before && before->scales == room;
    *codes = sb_row_open(j->w, row, taken ? room + sb_row_workspace(j->w) : room);
}

/* Computes pairs of rows that all_fit() has accepted. All neighbouring rows are as far apart as the
 * first two. */
static void fit_pairs(const job *j, uint32_t first, uint32_t rows, double *room,
                      sb_partial partials[AT_ONCE])
{
    sb_row_codes w[2];
    for (uint32_t i = 0; i < 2; i++)
        open_row(j, first + i, 1, i ? &w[0] : NULL, room, &w[i]);
    const size_t codes = (size_t)(w[1].codes - w[0].codes);
    const size_t scales = j->in_place ? (size_t)(w[1].scale_codes - w[0].scale_codes) : 0;
    for (uint32_t r = 0; r < rows; r += 2) {
        for (uint32_t i = 0; i < 2 && r > 0; i++) {
            w[i].codes += 2 * codes;
            if (j->in_place)
                w[i].scale_codes += 2 * scales;
        }
        j->set->pair[j->w->format](w, &j->input, partials + r);
    }
}

/* Computes two rows at a time if the set has a kernel for pairs and both have scales of the same
 * kind. */
static void partials_of(const job *j, uint32_t first, uint32_t rows, double *room,
                        sb_partial partials[AT_ONCE])
{
    const sb_format format = j->w->format;
    const int fit = all_fit(j, first, rows);
    const sb_row_codes *before = NULL;
    sb_row_codes w[2];
    if (fit && j->set->pair[format] && rows % 2 == 0) {
        fit_pairs(j, first, rows, room, partials);
        return;
    }
    for (uint32_t r = 0, count; r < rows; r += count) {
        count = j->set->pair[format] && r + 1 < rows ? 2 : 1;
        for (uint32_t i = 0; i < count; before = &w[i++])
            open_row(j, first + r + i, fit, before, room, &w[i]);
        if (count == 2 && !w[0].scale_codes == !w[1].scale_codes)
            j->set->pair[format](w, &j->input, partials + r);
        else
            for (uint32_t i = 0; i < count; i++)
                partials[r + i] = j->set->row[format](&w[i], &j->input);
    }
}

static void read_rows(const job *j, uint32_t first, uint32_t rows, double *room)
{
    sb_partial partials[AT_ONCE];
    double sums[AT_ONCE], magnitudes[AT_ONCE];
    unsigned char open[AT_ONCE];
    sb_effort effort = SB_EFFORT_compensated;
    partials_of(j, first, rows, room, partials);
    for (uint32_t r = 0; r < rows; r++) {
        sums[r] = partials[r].sum;
        magnitudes[r] = partials[r].magnitude;
    }
    if (sb_row_round(j->w->cols, j->factor, sums, magnitudes, rows, j->out + first, open))
        for (uint32_t r = 0; r < rows; r++)
            if (open[r])
                settle_row(j, first + r, room, &effort);
}

static void some_rows(void *ctx, size_t i, size_t worker)
{
    const job *j = ctx;
    const size_t cols = j->w->cols;
    const uint32_t first = (uint32_t)(i * AT_ONCE), left = j->w->rows - first;
    const uint32_t rows = left < AT_ONCE ? left : AT_ONCE;
    double *room = j->room + worker * j->each, *wide = room + 2 * sb_row_workspace(j->w);
    if (j->input.x) {
        read_rows(j, first, rows, room);
        return;
    }
    for (uint32_t row = first; row < first + rows; row++) {
        sb_matrix_wide(j->w, row, wide);
        j->out[row] = sb_dot_wide(wide, j->x, cols, j->factor);
    }
}

static sb_status one_input(const sb_matrix *w, const double *x, const sb_scalar *factor, float *out)
{
    job j = {.w = w, .x = x, .factor = factor, .out = out, .set = sb_dot_kernels_now()};
    size_t threads = sb_threads_here();
    j.each = 2 * sb_row_workspace(w) + padded(w);
    /* not zeroed: everything is written before it is read */
    j.room = sb_realloc(NULL, threads * j.each + sb_row_input_workspace(w), sizeof *j.room);
    if (!j.room)
        return SB_ERR_MEMORY;
    j.in_place = sb_row_scales_lie_well(w);
    if (sb_row_reads(w))
        j.input = sb_row_prepare(w, x, j.room + threads * j.each);
    sb_parallel_for(((size_t)w->rows + AT_ONCE - 1) / AT_ONCE,
                    sb_worth_threads((double)w->rows * w->cols), some_rows, &j);
    free(j.room);
    return SB_OK;
}

/* The least number of inputs for which a tile is faster. With fewer inputs, the rows are read again
 * for each input. For narrow floats this takes no longer than storing the decoded values. */
static size_t many_inputs(const sb_matrix *w)
{
    const size_t inputs = sb_dot_kernels_now()->tile_inputs[w->format];
    if (sb_strips_read(w))
        return SB_STRIP_INPUTS;
    if (!sb_row_reads(w))
        return 1;
    return inputs ? inputs : 2;
}

sb_status sb_dot_matrix(const sb_matrix *w, const double *x, size_t count, const sb_scalar *factor,
                        float *out)
{
    if (count > 1 && sb_small_gemm_reads(w))
        return sb_small_gemm(w, x, count, factor, out);
    if (sb_dot_kernels_now()->tile && count >= many_inputs(w))
        return sb_dot_batch(w, x, count, factor, out);
    sb_status status = SB_OK;
    for (size_t t = 0; t < count && !status; t++)
        status = (sb_strips_read(w) ? sb_dot_strips : one_input)(w, x + t * w->cols, factor,
                                                                 out + t * w->rows);
    return status;
}
