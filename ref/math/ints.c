#include "ref/math/ints.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/formats/small_float.h"
#include "ref/formats/wide.h"
#include "ref/math/ints_kernels.h"
#include "ref/math/kernels.h"
#include "ref/math/row.h"

static const int8_t halves[16] = {SB_INT_HALVES};

/* Codes are multiplied as they are here, without the 12 of the vector kernels. */
int sb_int_row_scalar(const unsigned char *codes, const unsigned char *scales, size_t blocks,
                      const sb_int_block *x, size_t stride, size_t count, int64_t *sums)
{
    int8_t low[SB_INT_BYTES], high[SB_INT_BYTES];
    for (size_t b = 0; b < blocks; b++, codes += SB_INT_BYTES, scales += SB_INT_GROUPS) {
        for (int i = 0; i < SB_INT_BYTES; i++) {
            low[i] = halves[codes[i] & 15];
            high[i] = halves[codes[i] >> 4];
        }
        for (int g = 0; g < SB_INT_GROUPS; g++) {
            if (scales[g] >= 0x7f)
                return 0;
            for (size_t t = 0; t < count; t++) {
                const sb_int_block *in = x + t * stride + b;
                int32_t sum = 0;
                for (int i = 8 * g; i < 8 * g + 8; i++)
                    sum += low[i] * in->low[i] + high[i] * in->high[i];
                sums[t] += (int64_t)(sum * sb_int_scale(scales[g])) * in->scale[g];
            }
        }
    }
    return 1;
}

/* NULL: the set of the definition. */
static sb_int_row_fn kernel(void)
{
    const sb_dot_kernels *now = sb_dot_kernels_now();
    sb_int_row_fn fn = NULL;
    if (!now->f64)
        return NULL;
    const int wide = now == sb_dot_avx512 || now == sb_dot_avx512vnni;
    if (wide)
        fn = sb_int_row_avx512();
    if (wide || now == sb_dot_avx2)
        fn = fn ? fn : sb_int_row_avx2();
    return fn ? fn : sb_int_row_scalar;
}

int sb_ints_read(const sb_matrix *w, const sb_codes_input *x)
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

/* Whether v, which is off by three roundings at most and so by less than four of its last places,
 * and the number it stands for round to the same binary32. Only the middles between two of these
 * matter, where the 29 bits that are dropped are 1 0 ... 0, if neither is subnormal nor too large.
 */
static int is_certain(double v)
{
    const uint64_t bits = sb_bits_f64(v), rest = bits & 0x1fffffffu;
    const double size = sb_absolute(v);
    return size > 0x1p-125 && size < 0x1p127 && rest - (0x10000000u - 16u) > 32u;
}

/* What neither is certain nor only a moved point: the sum by itself, in two halves of at most 32
 * bits. */
static float round_exactly(int64_t sum, const sb_scalar *factor)
{
    const int64_t low = sum & 0xffffffff;
    sb_exact acc;
    sb_exact_clear(&acc);
    sb_exact_add_wide_product(&acc, (double)low, 0x1p-20);
    sb_exact_add_wide_product(&acc, (double)(sum - low), 0x1p-20);
    return sb_exact_round_scaled(&acc, factor);
}

/* A sum of at most 53 bits and factors that only move its point: one rounding, whatever the sum.
 * Without that, sums are so short that many would be ties which nothing in binary64 can decide. */
float sb_ints_round(int64_t sum, const sb_scalar *factor)
{
    const double mul = (double)factor->mul[0] * (double)factor->mul[1];
    const double div = (double)factor->div[0] * (double)factor->div[1];
    const int64_t most = (int64_t)1 << 53;
    const double v = (double)sum * 0x1p-20 * mul / div;
    if (is_certain(v))
        return (float)v;
    if (sum == 0)
        return 0.0f;
    if (sum <= most && sum >= -most && is_power_of_two(mul) && is_power_of_two(div))
        return (float)v;
    return round_exactly(sum, factor);
}

/* What the rows of one call share. */
typedef struct job {
    const sb_matrix *w;
    const sb_codes_input *x;
    size_t count;
    const sb_scalar *factor;
    float *out;
    sb_int_row_fn row;
    size_t blocks;         /* of an input, the last perhaps partly zero */
    sb_int_block *in;      /* (count, blocks) */
    unsigned char *poison; /* (count) a scale without a value */
    double *wide;          /* (threads, cols) */
} job;

static void prepare_block(const job *j, size_t t, size_t b)
{
    const size_t cols = j->w->cols, groups = cols / 16;
    sb_int_block *to = &j->in[t * j->blocks + b];
    const unsigned char *codes = j->x->codes + t * cols + b * SB_INT_COLUMNS;
    const float *scales = j->x->scales + t * groups + b * SB_INT_GROUPS;
    size_t here = cols - b * SB_INT_COLUMNS;
    here = here < SB_INT_COLUMNS ? here : SB_INT_COLUMNS;
    for (size_t i = 0; i < here / 2; i++) {
        to->low[i] = halves[codes[2 * i] & 15];
        to->high[i] = halves[codes[2 * i + 1] & 15];
        to->start[i / 4] -= 12 * (to->low[i] + to->high[i]);
    }
    for (size_t g = 0; g < here / 16; g++) {
        if (scales[g] != scales[g])
            j->poison[t] = 1;
        else
            to->scale[g] = (int64_t)(scales[g] * 0x1p9f);
    }
}

/* The columns behind the last whole block, with zeros behind them. */
static int add_rest(const job *j, const unsigned char *codes, const unsigned char *scales,
                    const sb_int_block *x, size_t count, int64_t *sums)
{
    unsigned char last[SB_INT_BYTES] = {0}, last_scales[SB_INT_GROUPS] = {0};
    size_t whole = j->w->cols / SB_INT_COLUMNS, rest = j->w->cols % SB_INT_COLUMNS;
    if (rest == 0)
        return 1;
    memcpy(last, codes + whole * SB_INT_BYTES, rest / 2);
    memcpy(last_scales, scales + whole * SB_INT_GROUPS, rest / 16);
    return j->row(last, last_scales, 1, x + whole, j->blocks, count, sums);
}

static void one_row(const job *j, uint32_t row, double *wide)
{
    const size_t cols = j->w->cols, rows = j->w->rows;
    const unsigned char *codes = sb_matrix_dense(j->w, row);
    const unsigned char *scales =
        j->w->quant.scales + sb_matrix_stored_row(j->w, row) * j->w->quant.scale_row;
    for (size_t t = 0, some; t < j->count; t += some) {
        int64_t sums[SB_INT_INPUTS] = {0};
        const sb_int_block *x = j->in + t * j->blocks;
        some = j->count - t < SB_INT_INPUTS ? j->count - t : SB_INT_INPUTS;
        int good = j->row(codes, scales, cols / SB_INT_COLUMNS, x, j->blocks, some, sums) &&
                   add_rest(j, codes, scales, x, some, sums);
        for (size_t i = 0; i < some; i++)
            j->out[(t + i) * rows + row] =
                good && !j->poison[t + i]
                    ? sb_ints_round(sums[i], j->factor)
                    : sb_row_settle(j->w, row, j->x->values + (t + i) * cols, j->factor, wide);
    }
}

sb_status sb_ints_matrix(const sb_matrix *w, const sb_codes_input *x, size_t count,
                         const sb_scalar *factor, float *out)
{
    job j = {.w = w, .x = x, .count = count, .factor = factor, .out = out, .row = kernel()};
    const size_t cols = w->cols;
    j.blocks = (cols + SB_INT_COLUMNS - 1) / SB_INT_COLUMNS;
    j.in = sb_alloc(count * j.blocks, sizeof *j.in);
    j.poison = sb_alloc(count, 1);
    j.wide = sb_alloc(sb_threads_here() * cols, sizeof *j.wide);
    sb_status status = j.in && j.poison && j.wide ? SB_OK : SB_ERR_MEMORY;
    for (size_t i = 0; i < count * j.blocks && !status; i++)
        prepare_block(&j, i / j.blocks, i % j.blocks);
        /* integers take half the time of other products */
#pragma omp parallel for schedule(                                                                 \
    static) if (!status && sb_worth_threads((double)count * w->rows * w->cols / 2))
    for (int64_t i = 0; i < (status ? 0 : (int64_t)w->rows); i++)
        one_row(&j, (uint32_t)i, j.wide + (size_t)omp_get_thread_num() * cols);
    free(j.in);
    free(j.poison);
    free(j.wide);
    return status;
}
