#include "tools/check/hash/values.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/container/show.h"
#include "ref/formats/plain_row.h"
#include "ref/formats/wide.h"
#include "ref/math/law.h"
#include "ref/model/origin.h"
#include "tools/check/hash/nvfp4_table.h"

/* D-5: "the stored divisor; for a stored multiplier m, its origin (D-7), or RN(1/m) if it has
 * none". So a conversion in either direction does not change the divisor. */
float sb_canonical_divisor(sb_factor factor, float origin)
{
    if (factor.kind == SB_NO_FACTOR)
        return 0;
    if (factor.kind == SB_DIVISOR)
        return factor.value;
    return origin != 0 ? origin : sb_reciprocal(factor.value);
}

/* Rows that are made together, by all threads, and then hashed in order. */
typedef struct chunk {
    const sb_matrix *matrix;
    uint32_t rows, first;      /* rows of the current chunk */
    size_t room;               /* bytes of a row's codes and scales */
    unsigned char *bytes;      /* (rows, room) */
    size_t *used;              /* (rows) */
    float *values;             /* (rows, cols) */
    double *wide;              /* (rows, cols) */
    const sb_fp4_table *table; /* NULL: the matrix does not fit */
} chunk;

enum {
    CHUNK = 1 << 18, /* elements */
    ALONE = 1 << 16  /* fewer elements run on one thread */
};

static uint32_t group_at(const sb_matrix *m, uint32_t k)
{
    const unsigned char *index = m->quant.group_index;
    return index ? sb_load_u32(index + 4 * (size_t)k) : k / m->quant.block_cols;
}

/* D-5: "each code less its zero point as a 16-bit integer" */
static unsigned char *put_integers(const sb_matrix *m, uint32_t row, float *room, unsigned char *at)
{
    for (uint32_t k = 0, count; k < m->cols; k += count) {
        count = sb_matrix_run(m, k);
        sb_matrix_codes(m, row, k, count, room + k);
    }
    for (uint32_t k = 0; k < m->cols; k++, at += 2)
        sb_store_u16(at, (uint16_t)(int16_t)room[k]);
    return at;
}

static unsigned char *put_codes(const sb_matrix *m, uint32_t row, float *room, unsigned char *at)
{
    uint64_t stored = sb_matrix_stored_row(m, row);
    if (!sb_matrix_quantized(m)) {
        sb_matrix_row(m, row, room);
        for (uint32_t k = 0; k < m->cols; k++, at += 4)
            sb_store_u32(at, sb_bits_f32(room[k]));
        return at;
    }
    if (m->format != SB_FORMAT_e2m1 && m->format != SB_FORMAT_e4m3)
        return put_integers(m, row, room, at);
    size_t bytes = (size_t)m->cols * sb_format_bits(m->format) / 8;
    memcpy(at, m->data + stored * bytes, bytes);
    return at + bytes;
}

/* D-5: "for every run of columns with one scale: the first column as a 32-bit integer and the scale
 * in binary32" */
static unsigned char *put_scales(const sb_matrix *m, uint32_t row, unsigned char *at)
{
    if (!sb_matrix_quantized(m))
        return at;
    for (uint32_t k = 0; k < m->cols; k += sb_matrix_run(m, k)) {
        if (k > 0 && group_at(m, k) == group_at(m, k - 1))
            continue;
        sb_store_u32(at, k);
        sb_store_u32(at + 4, sb_bits_f32(sb_matrix_scale(m, row, k)));
        at += 8;
    }
    return at;
}

static void table_row(const chunk *c, uint32_t row, float *values)
{
    const unsigned char *codes = sb_fp4_codes(c->matrix, row);
    const unsigned char *scales = sb_fp4_scales(c->matrix, row);
    uint32_t block = c->matrix->quant.block_cols;
    for (uint32_t k = 0; k < c->matrix->cols; k += 2) {
        const float *of = c->table->value[scales[k / block]];
        values[k] = of[codes[k / 2] & 15];
        values[k + 1] = of[codes[k / 2] >> 4];
    }
}

/* D-6: "the digest of its values under law exact"
 *
 * A product of a code and a scale is exact in binary64, so the conversion rounds it once and keeps
 * the sign of a zero. A NaN becomes the NaN of exact.h. */
void sb_exact_values(const sb_matrix *matrix, uint32_t row, double *wide, float *values)
{
    if (!sb_matrix_quantized(matrix) || matrix->quant.factor.kind != SB_NO_FACTOR) {
        sb_law_row(matrix, row, SB_LAW_exact, wide, values);
        return;
    }
    sb_matrix_wide(matrix, row, wide);
    for (uint32_t k = 0; k < matrix->cols; k++) {
        int finite = (sb_bits_f64(wide[k]) >> 52 & 0x7ff) != 0x7ff;
        values[k] = finite ? (float)wide[k] : sb_f32_from_bits(0x7fc00000u);
    }
}

static void make_row(void *ctx, size_t i, size_t worker)
{
    const chunk *c = ctx;
    const uint32_t row = c->first + (uint32_t)i;
    const sb_matrix *m = c->matrix;
    float *values = c->values + i * m->cols;
    unsigned char *begin = c->bytes + i * c->room;
    unsigned char *at = put_codes(m, row, values, begin);
    (void)worker;
    c->used[i] = (size_t)(put_scales(m, row, at) - begin);
    if (c->table)
        table_row(c, row, values);
    else
        sb_exact_values(m, row, c->wide + i * m->cols, values);
}

static void hash_rows(chunk *c, sb_hash *values, sb_hash *exact)
{
    for (c->first = 0; c->first < c->matrix->rows; c->first += c->rows) {
        const uint32_t left = c->matrix->rows - c->first;
        const size_t rows = left < c->rows ? left : c->rows;
        sb_parallel_for(rows, rows * c->matrix->cols > ALONE, make_row, c);
        for (size_t i = 0; i < rows; i++)
            sb_hash_bytes(values, c->bytes + i * c->room, c->used[i]);
        sb_hash_f32(exact, c->values, rows * c->matrix->cols);
    }
}

static const char *family_of(const sb_matrix *m)
{
    if (!sb_matrix_quantized(m))
        return "plain";
    return m->format == SB_FORMAT_e2m1 ? "e2m1" : m->format == SB_FORMAT_e4m3 ? "e4m3" : "integer";
}

static sb_status hash_matrix(const sb_matrix *m, sb_value_hash *out, sb_error *err)
{
    uint32_t rows = CHUNK / m->cols ? CHUNK / m->cols : 1;
    size_t scales = m->quant.group_index ? m->cols : m->quant.groups;
    chunk c = {.matrix = m, .rows = rows < m->rows ? rows : m->rows};
    c.room = 4 * (size_t)m->cols + 8 * scales;
    sb_fp4_table *table = sb_alloc(1, sizeof *table);
    c.bytes = sb_alloc(c.rows, c.room);
    c.used = sb_alloc(c.rows, sizeof *c.used);
    c.values = sb_alloc((size_t)c.rows * m->cols, sizeof *c.values);
    c.wide = sb_alloc((size_t)c.rows * m->cols, sizeof *c.wide);
    sb_hash *values = sb_hash_new(), *exact = sb_hash_new();
    sb_status status = SB_OK;
    if (!table || !c.bytes || !c.used || !c.values || !c.wide || !values || !exact) {
        status = sb_fail(err, SB_ERR_MEMORY, "out of memory for a hash of %zu bytes a row", c.room);
    } else {
        if (sb_fp4_table_fits(m)) {
            sb_fp4_table_make(m, SB_LAW_exact, table);
            c.table = table;
        }
        const char *family = family_of(m);
        sb_hash_bytes(values, family, strlen(family) + 1);
        sb_hash_u64(values, m->rows);
        sb_hash_u64(values, m->cols);
        hash_rows(&c, values, exact);
        sb_hash_f32(values, &out->divisor, 1);
        out->values = sb_hash_end(values);
        out->exact = sb_hash_end(exact);
    }
    sb_hash_free(values);
    sb_hash_free(exact);
    free(table);
    free(c.bytes);
    free(c.used);
    free(c.values);
    free(c.wide);
    return status;
}

/* Takes the factor of this expert's inputs. Its origin is read here, because sb_quant does not keep
 * it. */
static sb_status take_input(const sb_checkpoint *checkpoint, const sb_piece *piece,
                            sb_value_hash *out, sb_error *err)
{
    sb_factor input = piece->matrix.quant.input;
    const sb_tensor *t = piece->found->part[SB_PART_input_global_scale];
    float origin = 0;
    if (!t)
        t = piece->found->part[SB_PART_input_scale];
    if (!t || input.kind == SB_NO_FACTOR)
        return SB_OK;
    uint64_t count = 8 * t->bytes / sb_dtype_bits(t->dtype);
    sb_status status = sb_origin_of(checkpoint, t, count, count == 1 ? 0 : piece->expert,
                                    input.value, &origin, err);
    out->has_input = 1;
    out->input = sb_canonical_divisor(input, origin);
    return status;
}

sb_status sb_value_hash_of(const sb_checkpoint *checkpoint, const sb_piece *piece,
                           sb_value_hash *out, sb_error *err)
{
    const sb_quant *q = &piece->matrix.quant;
    *out = (sb_value_hash){.has_divisor = q->factor.kind != SB_NO_FACTOR,
                           .divisor = sb_canonical_divisor(q->factor, q->origin)};
    sb_status status = take_input(checkpoint, piece, out, err);
    return status ? status : hash_matrix(&piece->matrix, out, err);
}
