#include "tools/check/hash/laws.h"

#include <stdlib.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/formats/format.h"
#include "tools/check/hash/nvfp4_table.h"

typedef struct histogram {
    uint64_t count[256][16]; /* [byte of the block scale][code] */
} histogram;

void sb_law_pair(unsigned pair, sb_law *a, sb_law *b)
{
    sb_law kept[SB_LAWS_COMPARED];
    unsigned n = 0, at = 0;
    for (unsigned law = 0; law < SB_LAW_COUNT; law++)
        if (law != SB_LAW_factor_last)
            kept[n++] = (sb_law)law;
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = i + 1; k < n; k++, at++)
            if (at == pair) {
                *a = kept[i];
                *b = kept[k];
            }
}

int sb_laws_differ(const sb_matrix *matrix)
{
    const sb_quant *q = &matrix->quant;
    int wide = q->scale_format == SB_FORMAT_f16 || q->scale_format == SB_FORMAT_f32;
    return sb_matrix_quantized(matrix) && (q->factor.kind != SB_NO_FACTOR || wide);
}

static void count_codes(const sb_matrix *m, histogram *h)
{
    uint32_t block = m->quant.block_cols;
    for (uint32_t row = 0; row < m->rows; row++) {
        const unsigned char *codes = sb_fp4_codes(m, row);
        const unsigned char *scales = sb_fp4_scales(m, row);
        for (uint32_t k = 0; k < m->cols; k += 2) {
            uint64_t *of = h->count[scales[k / block]];
            of[codes[k / 2] & 15]++;
            of[codes[k / 2] >> 4]++;
        }
    }
}

/* The number of binary32 steps between two numbers; both zeros are one number. */
static uint32_t steps(float a, float b)
{
    uint32_t x = sb_bits_f32(a), y = sb_bits_f32(b);
    int64_t p = x >> 31 ? -(int64_t)(x & 0x7fffffffu) : (int64_t)x;
    int64_t q = y >> 31 ? -(int64_t)(y & 0x7fffffffu) : (int64_t)y;
    if (a != a && b != b)
        return 0;
    return (uint32_t)(p < q ? q - p : p - q);
}

static void compare(const histogram *h, const sb_fp4_table *a, const sb_fp4_table *b, unsigned pair,
                    sb_law_counts *counts)
{
    for (unsigned scale = 0; scale < 256; scale++)
        for (unsigned code = 0; code < 16; code++) {
            uint64_t n = h->count[scale][code];
            float x = a->value[scale][code], y = b->value[scale][code];
            uint32_t apart = n ? steps(x, y) : 0;
            if (!apart)
                continue;
            counts->f32[pair] += n;
            if (steps(sb_round_to(SB_FORMAT_bf16, x), sb_round_to(SB_FORMAT_bf16, y)))
                counts->bf16[pair] += n;
            if (apart > counts->ulp[pair])
                counts->ulp[pair] = apart;
        }
}

static sb_status count_by_table(const sb_matrix *matrix, sb_law_counts *counts, sb_error *err)
{
    histogram *h = sb_alloc(1, sizeof *h);
    sb_fp4_table *tables = sb_alloc(SB_LAW_COUNT, sizeof *tables);
    sb_status status = SB_OK;
    if (!h || !tables)
        status = sb_fail(err, SB_ERR_MEMORY, "out of memory for tables of laws");
    else if (!sb_fp4_table_fits(matrix))
        status = sb_fail(err, SB_ERR_UNSUPPORTED,
                         "the layer has a factor for the whole tensor, but its codes are not FP4 "
                         "in rows");
    if (!status) {
        count_codes(matrix, h);
        for (unsigned law = 0; law < SB_LAW_COUNT; law++)
            if (law != SB_LAW_factor_last)
                sb_fp4_table_make(matrix, (sb_law)law, &tables[law]);
        for (unsigned pair = 0; pair < SB_LAW_PAIRS; pair++) {
            sb_law a = SB_LAW_exact, b = SB_LAW_exact;
            sb_law_pair(pair, &a, &b);
            compare(h, &tables[a], &tables[b], pair, counts);
        }
    }
    free(h);
    free(tables);
    return status;
}

enum {
    ROWS = 32,      /* rows that are compared together, by all threads */
    ALONE = 1 << 16 /* fewer elements run on one thread */
};

/* Compares one row under RN(q s) and under law bf16_scale. */
static sb_law_counts count_row(const sb_matrix *m, uint32_t row, float *x, float *y)
{
    sb_law_counts c = {0};
    sb_law_row(m, row, SB_LAW_mo_mul, NULL, x);
    sb_law_row(m, row, SB_LAW_bf16_scale, NULL, y);
    for (uint32_t k = 0; k < m->cols; k++) {
        uint32_t apart = steps(x[k], y[k]);
        if (!apart)
            continue;
        c.f32[0]++;
        c.bf16[0] +=
            steps(sb_round_to(SB_FORMAT_bf16, x[k]), sb_round_to(SB_FORMAT_bf16, y[k])) > 0;
        if (apart > c.ulp[0])
            c.ulp[0] = apart;
    }
    return c;
}

/* Adds to every pair of bf16_scale and another law; all other laws are equal here. */
static void add_row(const sb_law_counts *row, sb_law_counts *counts)
{
    for (unsigned pair = 0; pair < SB_LAW_PAIRS; pair++) {
        sb_law a = SB_LAW_exact, b = SB_LAW_exact;
        sb_law_pair(pair, &a, &b);
        if ((a == SB_LAW_bf16_scale) == (b == SB_LAW_bf16_scale))
            continue;
        counts->f32[pair] += row->f32[0];
        counts->bf16[pair] += row->bf16[0];
        if (row->ulp[0] > counts->ulp[pair])
            counts->ulp[pair] = row->ulp[0];
    }
}

typedef struct counting {
    const sb_matrix *m;
    uint32_t first;
    float *values; /* two rows each */
    sb_law_counts rows[ROWS];
} counting;

static void one_row(void *ctx, size_t i, size_t worker)
{
    counting *c = ctx;
    float *x = c->values + 2 * i * c->m->cols;
    (void)worker;
    c->rows[i] = count_row(c->m, c->first + (uint32_t)i, x, x + c->m->cols);
}

static sb_status count_by_rows(const sb_matrix *m, sb_law_counts *counts, sb_error *err)
{
    counting c = {.m = m};
    c.values = sb_alloc((size_t)2 * ROWS * m->cols, sizeof *c.values);
    if (!c.values)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for rows of %u values",
                       (unsigned)m->cols);
    for (; c.first < m->rows; c.first += ROWS) {
        const size_t n = m->rows - c.first < ROWS ? m->rows - c.first : ROWS;
        sb_parallel_for(n, n * m->cols > ALONE, one_row, &c);
        for (size_t i = 0; i < n; i++)
            add_row(&c.rows[i], counts);
    }
    free(c.values);
    return SB_OK;
}

sb_status sb_law_count(const sb_matrix *matrix, sb_law_counts *counts, sb_error *err)
{
    counts->values += (uint64_t)matrix->rows * matrix->cols;
    return matrix->quant.factor.kind == SB_NO_FACTOR ? count_by_rows(matrix, counts, err)
                                                     : count_by_table(matrix, counts, err);
}
