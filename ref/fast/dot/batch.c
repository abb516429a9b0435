#include "ref/fast/dot/batch.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/formats/format.h"
#include "ref/formats/repack.h"
#include "ref/formats/wide.h"
#include "ref/fast/dot/kernels.h"
#include "ref/fast/dot/row.h"
#include "ref/fast/dot/tile.h"

enum {
    DEPTH = SB_TILE_DEPTH,
    ROWS_LEAST = 8, /* rows of a tile */
    ROWS_MOST = 32,
    AT_ONCE = 192 /* inputs per pass */
};

/* The data that all rows of a call share. */
typedef struct job {
    const sb_matrix *w;
    const double *x; /* (count, cols) */
    size_t count;
    const sb_scalar *factor;
    sb_tile_factor product; /* products of the factors */
    float *out;             /* (count, rows) */
    const sb_tile_kernels *tile;
    double *packed;     /* the inputs, block by block; each block is (count, columns) */
    double *norms;      /* (count) upper bounds of the norms of the inputs */
    int *grids;         /* (count) */
    size_t height;      /* rows of a tile */
    struct room *rooms; /* of each thread */
} job;

/* The scratch of a thread. */
typedef struct room {
    double *memory;       /* one allocation for the members up to wide */
    double *tile;         /* (height, DEPTH): a block of columns of decoded rows */
    double *sums;         /* (count, height) */
    double *squares;      /* (height): sums of squares of the rows; then their norms */
    double *bounds;       /* (height): error bounds of sums with an input of norm 1 */
    double *scales;       /* (height, sb_row_workspace) */
    double *wide;         /* (cols): one row */
    unsigned char *codes; /* (height, code_room): the repacked codes of rows */
    unsigned char *open;  /* (count, height): 1: the output is still open */
    sb_row_codes *rows;   /* (height) */
} room;

/* The square root of s: an upper bound, apart from at most four roundings. For any y > 0, (y + s/y)
 * / 2 is at least the root. */
static double root_above(double s)
{
    if (!(s > 0 && s < 0x1p1000))
        return s; /* zero, or not finite */
    double y = sb_f64_from_bits((sb_bits_f64(s) >> 1) + ((uint64_t)1023 << 51));
    for (int i = 0; i < 4; i++)
        y = 0.5 * (y + s / y);
    return y;
}

/* Properties of a set of values: the sum of squares, the OR of their bits, and the least nonzero
 * magnitude. It has eight lanes, so that the compiler vectorizes it. */
typedef struct survey {
    double squares[8], least[8];
    uint64_t bits[8];
} survey;

static void survey_lanes(survey *s, const double *values, size_t n)
{
    for (size_t i = 0; i + 8 <= n; i += 8)
        for (size_t l = 0; l < 8; l++) {
            const double size = sb_absolute(values[i + l]), shown = size > 0 ? size : 0x1p1000;
            s->squares[l] += size * size;
            s->bits[l] |= sb_bits_f64(size);
            s->least[l] = shown < s->least[l] ? shown : s->least[l];
        }
}

static void survey_values(survey *s, const double *values, size_t n)
{
    double rest[8] = {0};
    memcpy(rest, values + n / 8 * 8, n % 8 * sizeof *rest);
    survey_lanes(s, values, n);
    survey_lanes(s, rest, 8);
}

static const survey nothing = {
    .least = {0x1p1000, 0x1p1000, 0x1p1000, 0x1p1000, 0x1p1000, 0x1p1000, 0x1p1000, 0x1p1000}};

static double squares_of(const survey *s)
{
    double sum = 0;
    for (size_t l = 0; l < 8; l++)
        sum += s->squares[l];
    return sum;
}

/* An exponent g such that all values are multiples of 2^g. The values must be finite. */
static int grid_of(const survey *s)
{
    uint64_t bits = (uint64_t)1 << 52;
    double least = 0x1p1000;
    for (size_t l = 0; l < 8; l++) {
        bits |= s->bits[l];
        least = s->least[l] < least ? s->least[l] : least;
    }
    int exponent = (int)(sb_bits_f64(least) >> 52) - 1023 - 52;
    for (; !(bits & 1); bits >>= 1)
        exponent++;
    return exponent;
}

/* Copies input t to j->packed, block by block, and sets its norm and grid. */
static void pack_input(const job *j, size_t t)
{
    const size_t cols = j->w->cols;
    const double *x = j->x + t * cols;
    survey s = nothing;
    for (size_t k = 0, n; k < cols; k += n) {
        n = cols - k < DEPTH ? cols - k : DEPTH;
        double *to = j->packed + k * j->count + t * sb_tile_padded(n);
        memcpy(to, x + k, n * sizeof *to);
        memset(to + n, 0, (sb_tile_padded(n) - n) * sizeof *to);
        survey_lanes(&s, to, sb_tile_padded(n));
    }
    j->norms[t] = root_above(squares_of(&s));
    j->grids[t] = grid_of(&s);
}

/* True if a kernel can read the codes, possibly after repacking. */
static int reads(const sb_matrix *w)
{
    const sb_quant *q = &w->quant;
    return !sb_matrix_quantized(w) ||
           (!sb_format_is_plain(w->format) && !q->group_index &&
            (q->block_cols % SB_TILE_STEP == 0 || q->block_cols >= w->cols));
}

/* The bytes for the repacked codes of a row; 0 if no repacking is needed. */
static size_t code_room(const sb_matrix *w)
{
    return w->quant.packing == SB_PACKING_rows ? 0 : sb_matrix_repack_each(w);
}

/* Opens the rows of a tile, from `row` on, so that widen() can decode them. */
static void open_rows(const job *j, const room *m, uint32_t row, size_t rows)
{
    const size_t each = code_room(j->w);
    if (each)
        sb_matrix_repack(j->w, row, rows, m->codes, each);
    for (size_t r = 0; r < rows; r++) {
        m->rows[r] = sb_row_open(j->w, row + (uint32_t)r, m->scales + r * sb_row_workspace(j->w));
        if (each)
            m->rows[r].codes = m->codes + r * each;
    }
}

/* Decodes columns first .. first + n - 1 of `rows` rows from `row` on to m->tile. */
static void decode_block(const job *j, const room *m, uint32_t row, size_t rows, size_t first,
                         size_t n)
{
    const sb_format format = j->w->format;
    const size_t step = sb_tile_padded(n);
    memset(m->tile + rows * step, 0, (j->height - rows) * step * sizeof *m->tile);
    for (size_t r = 0; r < rows; r++) {
        double *to = m->tile + r * step;
        if (!reads(j->w)) {
            sb_matrix_wide_part(j->w, row + (uint32_t)r, (uint32_t)first, (uint32_t)n, to);
            memset(to + n, 0, (step - n) * sizeof *to);
            survey s = nothing;
            survey_lanes(&s, to, step);
            m->squares[r] += squares_of(&s);
            continue;
        }
        m->squares[r] += j->tile->widen[format] ? j->tile->widen[format](&m->rows[r], first, n, to)
                                                : sb_tile_decode(format, &m->rows[r], first, n, to);
    }
}

/* Multiplies the block in m->tile with all inputs, in nearly equal portions that fit the kernel. */
static void multiply_block(const job *j, const room *m, size_t rows, size_t first, size_t n)
{
    const size_t step = sb_tile_padded(n), most = j->tile->inputs;
    const double *x = j->packed + first * j->count;
    for (size_t t = 0, now; t < j->count; t += now) {
        const size_t left = j->count - t, turns = (left + most - 1) / most;
        now = (left + turns - 1) / turns;
        for (size_t r = 0; r < rows; r += SB_TILE_ROWS)
            j->tile->multiply(m->tile + r * step, x + t * step, now, step,
                              m->sums + t * j->height + r, j->height);
    }
}

/* Sums of multiples of 2^g below 2^(g+53) are exact, and so are all intermediate sums. */
static int exact_sum(const job *j, double sum, double magnitude, int grid, float *rounded)
{
    if (grid < -900 || grid > 900 ||
        !(magnitude * 1.0001 < sb_f64_from_bits((uint64_t)(1023 + grid + 53) << 52)))
        return 0;
    if (sum == 0) {
        *rounded = 0;
        return 1;
    }
    const double value = sum * j->product.mul / j->product.div;
    *rounded = (float)value;
    return (j->product.mul == 1 && j->product.div == 1) ||
           sb_round_within((sb_partial){value, sb_absolute(value)}, 4, rounded);
}

/* Computes those outputs of row r of the tile that are still open after the rounding test. */
static void settle_row(const job *j, const room *m, uint32_t row, size_t r)
{
    const size_t cols = j->w->cols;
    sb_effort effort = SB_EFFORT_binary64;
    int grid = 0, known = 0;
    for (size_t t = 0; t < j->count; t++) {
        float *out = &j->out[t * j->w->rows + row];
        if (!m->open[t * j->height + r])
            continue;
        if (!known) {
            sb_matrix_wide(j->w, row, m->wide);
            survey s = nothing;
            survey_values(&s, m->wide, cols);
            grid = grid_of(&s);
            known = 1;
        }
        if (!exact_sum(j, m->sums[t * j->height + r], m->squares[r] * j->norms[t],
                       grid + j->grids[t], out))
            *out = sb_dot_wide_from(m->wide, j->x + t * cols, cols, j->factor, &effort);
    }
}

/* The error bound of a sum, without the norms of row and input. Let d be the number of roundings
 * that a term passes through, u = 2^-53 and M the sum of the terms' magnitudes. As shown at
 * error_bound() in dot.c, the error is below du/(1-du) M. A term passes through at most one
 * rounding of its product, the additions of its lane within the block, the additions that join at
 * most eight lanes, one addition for each block, and two roundings for the factors. 16 roundings
 * cover all of these except the additions of the lane and of the blocks. M is at most the norm of
 * the row times the norm of the input (Cauchy-Schwarz). In the norms and their product, each square
 * passes through at most n + 8 roundings, and the square root halves their effect. n < 2^28, so the
 * reserve of 2^-16 in error_bound() covers these roundings, too. */
static double error_factor(const job *j)
{
    const size_t cols = sb_tile_padded(j->w->cols), depth = cols < DEPTH ? cols : DEPTH;
    const size_t steps = depth / j->tile->lanes + cols / DEPTH + 16;
    return (double)steps * 0x1.0001p-53 * sb_absolute(j->product.mul / j->product.div);
}

static void round_tile(const job *j, const room *m, uint32_t row, size_t rows)
{
    const double factor = error_factor(j);
    int any = 0;
    for (size_t r = 0; r < rows; r++) {
        m->squares[r] = root_above(m->squares[r]);
        m->bounds[r] = factor * m->squares[r];
    }
    for (size_t t = 0; t < j->count; t++)
        any |= j->tile->round(m->sums + t * j->height, m->bounds, j->norms[t], j->product, rows,
                              j->out + t * j->w->rows + row, m->open + t * j->height);
    for (size_t r = 0; any && r < rows; r++)
        settle_row(j, m, row + (uint32_t)r, r);
}

static void one_tile(void *ctx, size_t i, size_t worker)
{
    const job *j = ctx;
    const room *m = &j->rooms[worker];
    const uint32_t row = (uint32_t)(i * j->height);
    const size_t left = j->w->rows - row, rows = left < j->height ? left : j->height;
    const size_t cols = j->w->cols;
    if (reads(j->w))
        open_rows(j, m, row, rows);
    memset(m->sums, 0, j->count * j->height * sizeof *m->sums);
    memset(m->squares, 0, j->height * sizeof *m->squares);
    for (size_t k = 0, n; k < cols; k += n) {
        n = cols - k < DEPTH ? cols - k : DEPTH;
        decode_block(j, m, row, rows, k, n);
        multiply_block(j, m, rows, k, n);
    }
    round_tile(j, m, row, rows);
}

/* Allocates the scratch of all threads, for each thread one array per element type. */
static sb_status make_room(const job *j, size_t threads, room *rooms)
{
    const size_t h = j->height, each = sb_row_workspace(j->w);
    const size_t doubles = h * (DEPTH + j->count + 2 + each) + j->w->cols;
    for (size_t i = 0; i < threads; i++) {
        room *m = &rooms[i];
        m->memory = sb_alloc(doubles + 8, sizeof *m->memory);
        m->codes = sb_alloc(h * (code_room(j->w) + j->count), 1);
        m->rows = sb_alloc(h, sizeof *m->rows);
        if (!m->memory || !m->codes || !m->rows)
            return SB_ERR_MEMORY;
        m->tile = sb_at_line(m->memory);
        m->sums = m->tile + h * DEPTH;
        m->squares = m->sums + h * j->count;
        m->bounds = m->squares + h;
        m->scales = m->bounds + h;
        m->wide = m->scales + h * each;
        m->open = m->codes + h * code_room(j->w);
    }
    return SB_OK;
}

static void free_room(size_t threads, room *rooms)
{
    for (size_t i = 0; rooms && i < threads; i++) {
        free(rooms[i].memory);
        free(rooms[i].codes);
        free(rooms[i].rows);
    }
    free(rooms);
}

static void one_input(void *ctx, size_t t, size_t worker)
{
    (void)worker;
    pack_input(ctx, t);
}

/* Computes all rows with at most AT_ONCE inputs. */
static sb_status some_inputs(job *j)
{
    const size_t threads = sb_threads_here();
    const int many = sb_worth_threads((double)j->count * j->w->rows * j->w->cols);
    j->rooms = sb_alloc(threads, sizeof *j->rooms);
    const sb_status status = j->rooms ? make_room(j, threads, j->rooms) : SB_ERR_MEMORY;
    if (!status) {
        sb_parallel_for(j->count, many, one_input, j);
        sb_parallel_for((j->w->rows + j->height - 1) / j->height, many, one_tile, j);
    }
    free_room(threads, j->rooms);
    return status;
}

/* The number of rows of a tile: equal to the number of inputs, so that the tile for a few inputs
 * stays in the cache. It is smaller if otherwise a thread would get fewer than four tiles. */
static size_t tile_height(size_t count, size_t rows)
{
    const size_t fair = rows / (4 * sb_threads_here());
    size_t height = count < ROWS_MOST ? count : ROWS_MOST;
    height = fair < height ? fair : height;
    return height < ROWS_LEAST ? ROWS_LEAST : height / ROWS_LEAST * ROWS_LEAST;
}

sb_status sb_dot_batch(const sb_matrix *w, const double *x, size_t count, const sb_scalar *factor,
                       float *out)
{
    if (count == 0)
        return SB_OK;
    const size_t turns = (count + AT_ONCE - 1) / AT_ONCE, most = (count + turns - 1) / turns;
    job j = {.w = w, .factor = factor, .tile = sb_dot_kernels_now()->tile};
    j.product.mul = (double)factor->mul[0] * (double)factor->mul[1];
    j.product.div = (double)factor->div[0] * (double)factor->div[1];
    j.height = tile_height(most, w->rows);
    double *memory = sb_alloc(most * sb_tile_padded(w->cols) + 8, sizeof *memory);
    j.norms = sb_alloc(most, sizeof *j.norms);
    j.grids = sb_alloc(most, sizeof *j.grids);
    sb_status status = memory && j.norms && j.grids ? SB_OK : SB_ERR_MEMORY;
    j.packed = sb_at_line(memory);
    for (size_t t = 0; t < count && !status; t += j.count) {
        j.x = x + t * w->cols;
        j.out = out + t * w->rows;
        j.count = count - t < most ? count - t : most;
        status = some_inputs(&j);
    }
    free(memory);
    free(j.norms);
    free(j.grids);
    return status;
}
