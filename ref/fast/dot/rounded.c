#include "ref/fast/dot/rounded.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"
#include "ref/fast/dot/kernels.h"
#include "ref/fast/dot/row.h"
#include "ref/fast/dot/tile.h"

/* --- a row ------------------------------------------------------------------------------------ */

/* The number of doubles of scratch for a row: enough for the kernel, and for the definition of
 * laws, which needs one more row of values. */
static size_t room_for(const sb_matrix *m)
{
    return sb_row_workspace(m) + 2 * sb_tile_padded(m->cols);
}

/* Opens the row for the kernels of tile.h. Its scales become the numbers by which the law
 * multiplies codes. A product of code and multiplier is exact in binary64, and its rounding to
 * binary32 is the rounding of the law. Returns 0 if no kernel reads the row. */
static int open_row(const sb_matrix *m, uint32_t row, sb_law law, double *scales, sb_row_codes *out)
{
    if (law == SB_LAW_exact || !sb_matrix_quantized(m) || !sb_row_reads(m))
        return 0;
    *out = sb_row_open(m, row, scales);
    sb_law_group_scales(m->quant.factor, law, sb_matrix_groups(m), scales);
    return 1;
}

/* Decodes a row. Returns 0 if a value is not finite or no kernel decodes such rows. */
static int decoded(const sb_matrix *m, const sb_row_codes *row, double *wide, float *values)
{
    const sb_tile_kernels *tile = sb_dot_kernels_now()->tile;
    sb_tile_widen *widen = tile ? tile->widen[m->format] : NULL;
    if (!widen || !(widen(row, 0, m->cols, wide) < 0x1p1000))
        return 0;
    for (uint32_t k = 0; k < m->cols; k++)
        values[k] = (float)wide[k];
    return 1;
}

static void make_row(const sb_matrix *m, uint32_t row, const sb_rounding *how, double *room,
                     unsigned char *codes)
{
    const sb_tile_kernels *tile = sb_dot_kernels_now()->tile;
    double *wide = room + sb_row_workspace(m);
    float *values = (float *)(wide + sb_tile_padded(m->cols));
    sb_row_codes opened;
    const int open = open_row(m, row, how->law, room, &opened);
    if (open && how->format == SB_FORMAT_bf16 && !opened.zeros && tile && tile->bf16[m->format]) {
        tile->bf16[m->format](&opened, m->cols, codes);
        return;
    }
    if (!open || !decoded(m, &opened, wide, values))
        sb_law_row(m, row, how->law, wide, values);
    sb_encode(how->format, values, m->cols, codes);
}

/* --- rows of E2M1 with scales of eight bits --------------------------------------------------- */

/* The BF16 value for each scale code and each code. */
typedef struct worth {
    uint16_t at[256][16];
} worth;

/* True if one table can hold all values of the matrix. */
static int has_table(const sb_matrix *m, const sb_rounding *how)
{
    const sb_tile_kernels *tile = sb_dot_kernels_now()->tile;
    const sb_quant *q = &m->quant;
    return tile && tile->pick && tile->bf16[SB_FORMAT_e2m1] && m->format == SB_FORMAT_e2m1 &&
           how->format == SB_FORMAT_bf16 && how->law != SB_LAW_exact && sb_matrix_quantized(m) &&
           sb_row_reads(m) && !sb_matrix_has_zeros(m) && q->scale_col == 1 &&
           sb_format_bytes(q->scale_format) == 1 && q->block_cols % SB_TILE_STEP == 0 &&
           m->cols % q->block_cols == 0;
}

/* Makes the table: rounds one row of a matrix of the same kind that has every code with every
 * scale. */
static void make_table(const sb_matrix *m, const sb_rounding *how, worth *to)
{
    enum { SCALES = 256, CODES = 16 };
    unsigned char scales[SCALES], codes[SCALES * CODES / 2];
    double room[2 * SCALES + 2 * SCALES * CODES];
    sb_matrix all = *m;
    for (unsigned s = 0; s < SCALES; s++)
        scales[s] = (unsigned char)s;
    for (unsigned i = 0; i < sizeof codes; i++)
        codes[i] = (unsigned char)((2 * i % CODES) | (2 * i % CODES + 1) << 4);
    all.data = codes;
    all.rows = 1;
    all.cols = SCALES * CODES;
    all.row_map = NULL;
    all.first_row = 0;
    all.quant.scales = scales;
    all.quant.block_rows = 1;
    all.quant.block_cols = CODES;
    all.quant.scale_row = all.quant.groups = SCALES;
    make_row(&all, 0, how, room, (unsigned char *)to->at);
}

static void pick_row(const sb_matrix *m, uint32_t row, const worth *of, unsigned char *codes)
{
    const sb_quant *q = &m->quant;
    const unsigned char *scales =
        q->scales + sb_matrix_stored_row(m, row) / q->block_rows * q->scale_row;
    sb_dot_kernels_now()->tile->pick(sb_matrix_dense(m, row), scales, q->block_cols, m->cols,
                                     of->at, codes);
}

/* --- a layer ---------------------------------------------------------------------------------- */

/* The number of values in a strip of rows. For one input a strip fits into the second-level cache.
 * For many inputs a strip is larger, because the inputs are arranged again for each strip. */
enum { STRIP_OF_ONE = 1 << 16, STRIP_OF_MANY = 1 << 19, ROWS_LEAST = 16, MANY = 4 };

typedef struct job {
    const sb_matrix *w;
    const sb_rounding *how;
    const double *x;
    size_t count;
    float *out;
    uint32_t height;    /* rows of a strip */
    const worth *table; /* table of the weights, or NULL */
    struct room *rooms; /* of each thread */
    atomic_int failed;
} job;

/* The scratch of a thread. */
typedef struct room {
    double *row;          /* room_for(w) */
    unsigned char *strip; /* (height, cols) */
    float *y;             /* (count, height) */
} room;

static size_t row_bytes(const job *j)
{
    return j->w->cols * sb_format_bytes(j->how->format);
}

static sb_status make_room(const job *j, room *m)
{
    m->row = sb_realloc(NULL, room_for(j->w), sizeof *m->row);
    m->strip = sb_realloc(NULL, j->height * row_bytes(j), 1);
    m->y = sb_realloc(NULL, j->count * j->height, sizeof *m->y);
    return m->row && m->strip && m->y ? SB_OK : SB_ERR_MEMORY;
}

static void free_room(room *m)
{
    free(m->row);
    free(m->strip);
    free(m->y);
}

static sb_status run_strip(const job *j, const room *m, uint32_t first)
{
    static const sb_scalar one = SB_SCALAR_ONE;
    const uint32_t left = j->w->rows - first, rows = left < j->height ? left : j->height;
    const uint32_t cols = j->w->cols;
    const sb_matrix strip = {
        .data = m->strip, .format = j->how->format, .rows = rows, .cols = cols};
    for (uint32_t r = 0; r < rows; r++)
        if (j->table)
            pick_row(j->w, first + r, j->table, m->strip + r * row_bytes(j));
        else
            make_row(j->w, first + r, j->how, m->row, m->strip + r * row_bytes(j));
    const sb_status status = sb_dot_matrix(&strip, j->x, j->count, &one, m->y);
    for (size_t t = 0; t < j->count && !status; t++)
        memcpy(j->out + t * j->w->rows + first, m->y + t * rows, rows * sizeof *m->y);
    return status;
}

/* Runs a strip. The first strip of a thread allocates its scratch. */
static void one_strip(void *ctx, size_t i, size_t worker)
{
    job *j = ctx;
    room *m = &j->rooms[worker];
    if (atomic_load_explicit(&j->failed, memory_order_relaxed))
        return;
    if ((!m->row && make_room(j, m)) || run_strip(j, m, (uint32_t)(i * j->height)))
        atomic_store(&j->failed, 1);
}

/* The number of rows of a strip: STRIP_OF_ONE or STRIP_OF_MANY values, but fewer if otherwise a
 * thread would get no strip. */
static uint32_t height_of(const sb_matrix *w, size_t count)
{
    const size_t values = count < MANY ? STRIP_OF_ONE : STRIP_OF_MANY;
    const size_t threads = sb_threads_here(), fair = (w->rows + threads - 1) / threads;
    size_t height = values / (w->cols ? w->cols : 1);
    height = height < fair ? height : fair;
    return (uint32_t)(height < ROWS_LEAST ? ROWS_LEAST : height);
}

sb_status sb_dot_rounded(const sb_matrix *w, const sb_rounding *how, const double *x, size_t count,
                         float *out)
{
    worth table;
    job j = {.w = w, .how = how, .x = x, .count = count, .out = out, .height = height_of(w, count)};
    const size_t threads = sb_threads_here();
    j.rooms = sb_alloc(threads, sizeof *j.rooms);
    if (!j.rooms)
        return SB_ERR_MEMORY;
    if (has_table(w, how)) {
        make_table(w, how, &table);
        j.table = &table;
    }
    sb_parallel_for(((size_t)w->rows + j.height - 1) / j.height,
                    sb_worth_threads((double)count * w->rows * w->cols), one_strip, &j);
    for (size_t i = 0; i < threads; i++)
        free_room(&j.rooms[i]);
    free(j.rooms);
    return j.failed ? SB_ERR_MEMORY : SB_OK;
}
