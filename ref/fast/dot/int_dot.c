#include "ref/fast/dot/int_dot.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/formats/small_float.h"
#include "ref/formats/wide.h"
#include "ref/fast/dot/int_dot_kernels.h"
#include "ref/fast/dot/kernels.h"
#include "ref/fast/dot/row.h"

static const int8_t halves[16] = {SB_INT_HALVES};

/* Multiplies the codes directly; the vector kernels multiply codes + 12. */
static int scalar_row(const unsigned char *codes, const unsigned char *scales, size_t blocks,
                      const sb_int_block *x, size_t stride, size_t count, int64_t *sums)
{
    for (size_t t = 0; t < count; t++)
        sums[t * SB_INT_ROWS] = 0;
    for (size_t g = 0; g < blocks * SB_INT_GROUPS; g++, codes += 8) {
        const size_t slot = sb_int_slot(g % SB_INT_GROUPS);
        if (scales[g] >= 0x7f)
            return 0;
        for (size_t t = 0; t < count; t++) {
            const sb_int_block *in = x + t * stride + g / SB_INT_GROUPS;
            int32_t sum = 0;
            for (size_t i = 0; i < 8; i++)
                sum += halves[codes[i] & 15] * in->half[i / 4 * 2][4 * slot + i % 4] +
                       halves[codes[i] >> 4] * in->half[i / 4 * 2 + 1][4 * slot + i % 4];
            sums[t * SB_INT_ROWS] +=
                (int64_t)(sum * sb_int_scale(scales[g])) * in->scale[slot % 2][slot / 2];
        }
    }
    return 1;
}

unsigned sb_int_rows_scalar(const unsigned char *const *codes, const unsigned char *const *scales,
                            size_t blocks, const sb_int_block *x, size_t stride, size_t count,
                            int64_t *sums)
{
    unsigned spoiled = 0;
    for (unsigned r = 0; r < SB_INT_ROWS; r++)
        if (!scalar_row(codes[r], scales[r], blocks, x, stride, count, sums + r))
            spoiled |= 1u << r;
    return spoiled;
}

/* The kernel of the chosen set; NULL for "exact". */
static sb_int_rows_fn kernel(void)
{
    const sb_dot_kernels *now = sb_dot_kernels_now();
    sb_int_rows_fn fn = NULL;
    if (!now->f64)
        return NULL;
    const int wide = now == sb_dot_avx512 || now == sb_dot_avx512vnni;
    if (wide)
        fn = sb_int_rows_avx512();
    if (wide || now == sb_dot_avx2)
        fn = fn ? fn : sb_int_rows_avx2();
    return fn ? fn : sb_int_rows_scalar;
}

int sb_int_dot_read(const sb_matrix *w, const sb_codes_input *x)
{
    const sb_quant *q = &w->quant;
    return x->codes && x->format == SB_FORMAT_e2m1 && x->group == 16 &&
           w->format == SB_FORMAT_e2m1 && sb_matrix_quantized(w) && q->packing == SB_PACKING_rows &&
           !q->group_index && q->zeros == SB_ZEROS_none && q->zero == 0 &&
           q->scale_format == SB_FORMAT_e4m3 && q->block_rows == 1 && q->block_cols == 16 &&
           q->scale_col == 1 && w->cols % 16 == 0 && w->cols <= (uint32_t)1 << 20 &&
           kernel() != NULL;
}

static int is_power_of_two(double x)
{
    return x != 0 && (sb_bits_f64(x) & 0xfffffffffffffu) == 0;
}

/* True if v and its exact value certainly round to the same binary32. The error of v is at most
 * three roundings, less than four ulps. Only midpoints between two binary32 values matter: there
 * the 29 dropped bits are 1 0 ... 0, provided that both are normal and not too large. The test
 * requires 2^-125 to 2^127. */
static inline int is_certain(double v)
{
    const uint64_t bits = sb_bits_f64(v), rest = bits & 0x1fffffffu;
    const uint64_t exponent = bits >> 52 & 0x7ffu;
    return (rest - (0x10000000u - 16u) > 32u) & (exponent - (1023 - 125) < 252);
}

/* The exact rounding of the remaining cases: adds the two halves of the sum, of at most 32 bits
 * each, to an exact sum. */
static float round_exactly(int64_t sum, const sb_scalar *factor)
{
    const int64_t low = sum & 0xffffffff;
    sb_exact acc;
    sb_exact_clear(&acc);
    sb_exact_add_wide_product(&acc, (double)low, 0x1p-20);
    sb_exact_add_wide_product(&acc, (double)(sum - low), 0x1p-20);
    return sb_exact_round_scaled(&acc, factor);
}

/* The product of the multipliers and the product of the divisors, of at most 48 bits each. */
typedef struct factors {
    double mul, div;
} factors;

static factors factors_of(const sb_scalar *factor)
{
    return (factors){(double)factor->mul[0] * (double)factor->mul[1],
                     (double)factor->div[0] * (double)factor->div[1]};
}

static inline double value_of(int64_t sum, factors by)
{
    return (double)sum * 0x1p-20 * by.mul / by.div;
}

/* A sum of at most 53 bits with power-of-two factors needs only one rounding. This case is common:
 * short sums give many ties, and the rounding test cannot decide ties. */
static float round_uncertain(int64_t sum, factors by, const sb_scalar *factor)
{
    const int64_t most = (int64_t)1 << 53;
    if (sum == 0)
        return 0.0f;
    if (sum <= most && sum >= -most && is_power_of_two(by.mul) && is_power_of_two(by.div))
        return (float)value_of(sum, by);
    return round_exactly(sum, factor);
}

float sb_int_dot_round(int64_t sum, const sb_scalar *factor)
{
    const factors by = factors_of(factor);
    const double v = value_of(sum, by);
    return is_certain(v) ? (float)v : round_uncertain(sum, by, factor);
}

/* The data that the rows of a call share. */
typedef struct job {
    const sb_matrix *w;
    const sb_codes_input *x;
    size_t count;
    const sb_scalar *factor;
    factors by;
    float *out;
    sb_int_rows_fn rows;
    size_t blocks;         /* blocks of an input; the last one may be padded with zeros */
    sb_int_block *in;      /* (count, blocks) */
    unsigned char *poison; /* (count) 1: a scale of the input has no value */
    double *wide;          /* (threads, cols) */
} job;

static void prepare_group(const unsigned char *codes, sb_int_block *to, size_t slot)
{
    int32_t sum = 0;
    for (size_t i = 0; i < 16; i++) {
        const int8_t half = halves[codes[i] & 15];
        to->half[i / 8 * 2 + i % 2][4 * slot + i % 8 / 2] = half;
        sum += half;
    }
    to->start[slot] = -12 * sum;
}

/* Prepares group g of input t. */
static void prepare(const job *j, size_t t, size_t g)
{
    const size_t cols = j->w->cols, slot = sb_int_slot(g % SB_INT_GROUPS);
    const float scale = j->x->scales[t * (cols / 16) + g];
    sb_int_block *to = &j->in[t * j->blocks + g / SB_INT_GROUPS];
    if (scale != scale) {
        j->poison[t] = 1;
        return;
    }
    to->scale[slot % 2][slot / 2] = (int64_t)(scale * 0x1p9f);
    prepare_group(j->x->codes + t * cols + g * 16, to, slot);
}

/* SB_INT_ROWS rows from `row` on. Rows past the end are replaced by the last row of the matrix. */
typedef struct tile {
    const unsigned char *codes[SB_INT_ROWS], *scales[SB_INT_ROWS];
    unsigned char rest[SB_INT_ROWS][SB_INT_BYTES], rest_scales[SB_INT_ROWS][SB_INT_GROUPS];
    const unsigned char *last[SB_INT_ROWS], *last_scales[SB_INT_ROWS];
} tile;

/* Sets the rows of a tile. The columns after the last whole block are copied and padded with
 * zeros. */
static void open_tile(const job *j, uint32_t row, tile *of)
{
    const size_t whole = j->w->cols / SB_INT_COLUMNS, rest = j->w->cols % SB_INT_COLUMNS;
    for (uint32_t r = 0; r < SB_INT_ROWS; r++) {
        const uint32_t at = j->w->rows - row > r ? row + r : j->w->rows - 1;
        of->codes[r] = sb_matrix_dense(j->w, at);
        of->scales[r] = j->w->quant.scales + sb_matrix_stored_row(j->w, at) * j->w->quant.scale_row;
        if (rest == 0)
            continue;
        memset(of->rest[r], 0, sizeof of->rest[r]);
        memset(of->rest_scales[r], 0, sizeof of->rest_scales[r]);
        memcpy(of->rest[r], of->codes[r] + whole * SB_INT_BYTES, rest / 2);
        memcpy(of->rest_scales[r], of->scales[r] + whole * SB_INT_GROUPS, rest / 16);
        of->last[r] = of->rest[r];
        of->last_scales[r] = of->rest_scales[r];
    }
}

/* Rounds the outputs of a tile with `count` inputs from t on. Nearly all sums are certain, so one
 * branch tests the sums of all rows together. */
static void round_tile(const job *j, uint32_t row, size_t t, size_t count, const int64_t *sums)
{
    const size_t rows = j->w->rows, here = rows - row < SB_INT_ROWS ? rows - row : SB_INT_ROWS;
    for (size_t i = 0; i < count; i++, sums += SB_INT_ROWS) {
        float *out = j->out + (t + i) * rows + row, value[SB_INT_ROWS];
        int certain = 1;
        for (size_t r = 0; r < SB_INT_ROWS; r++) {
            const double v = value_of(sums[r], j->by);
            certain &= is_certain(v);
            value[r] = (float)v;
        }
        for (size_t r = 0; !certain && r < here; r++)
            value[r] = sb_int_dot_round(sums[r], j->factor);
        memcpy(out, value, here * sizeof *out);
    }
}

/* Computes the outputs of rows or inputs with a scale that has no value, as the definition does. */
static void settle_tile(const job *j, uint32_t row, size_t t, size_t count, unsigned spoiled,
                        double *wide)
{
    const size_t rows = j->w->rows, cols = j->w->cols;
    const size_t here = rows - row < SB_INT_ROWS ? rows - row : SB_INT_ROWS;
    for (size_t i = t; i < t + count; i++)
        for (size_t r = 0; r < here; r++)
            if (j->poison[i] || spoiled >> r & 1u)
                j->out[i * rows + row + r] = sb_row_settle(
                    j->w, row + (uint32_t)r, j->x->values + i * cols, j->factor, wide);
}

static void one_tile(const job *j, uint32_t row, double *wide)
{
    tile of;
    open_tile(j, row, &of);
    for (size_t t = 0, some; t < j->count; t += some) {
        int64_t sums[SB_INT_INPUTS * SB_INT_ROWS], last[SB_INT_INPUTS * SB_INT_ROWS];
        const size_t whole = j->w->cols / SB_INT_COLUMNS;
        const sb_int_block *x = j->in + t * j->blocks;
        some = j->count - t < SB_INT_INPUTS ? j->count - t : SB_INT_INPUTS;
        unsigned spoiled = j->rows(of.codes, of.scales, whole, x, j->blocks, some, sums);
        if (whole < j->blocks) {
            spoiled |= j->rows(of.last, of.last_scales, 1, x + whole, j->blocks, some, last);
            for (size_t i = 0; i < some * SB_INT_ROWS; i++)
                sums[i] += last[i];
        }
        round_tile(j, row, t, some, sums);
        settle_tile(j, row, t, some, spoiled, wide);
    }
}

static void tile_of(void *ctx, size_t i, size_t worker)
{
    const job *j = ctx;
    one_tile(j, (uint32_t)(i * SB_INT_ROWS), j->wide + worker * j->w->cols);
}

/* An integer product takes half the time of another product, so sb_worth_threads gets half their
 * number. */
static void all_rows(job *j)
{
    const double products = (double)j->count * j->w->rows * j->w->cols;
    sb_parallel_for(((size_t)j->w->rows + SB_INT_ROWS - 1) / SB_INT_ROWS,
                    sb_worth_threads(products / 2), tile_of, j);
}

sb_status sb_int_dot_matrix(const sb_matrix *w, const sb_codes_input *x, size_t count,
                            const sb_scalar *factor, float *out)
{
    job j = {.w = w, .x = x, .count = count, .factor = factor, .out = out, .rows = kernel()};
    const size_t cols = w->cols;
    j.by = factors_of(factor);
    j.blocks = (cols + SB_INT_COLUMNS - 1) / SB_INT_COLUMNS;
    void *memory = sb_alloc(count * j.blocks + 1, sizeof *j.in);
    j.in = sb_at_line(memory);
    j.poison = sb_alloc(count, 1);
    j.wide = sb_alloc(sb_threads_here() * cols, sizeof *j.wide);
    sb_status status = j.in && j.poison && j.wide ? SB_OK : SB_ERR_MEMORY;
    for (size_t i = 0; i < count * (cols / 16) && !status; i++)
        prepare(&j, i / (cols / 16), i % (cols / 16));
    if (!status)
        all_rows(&j);
    free(memory);
    free(j.poison);
    free(j.wide);
    return status;
}
