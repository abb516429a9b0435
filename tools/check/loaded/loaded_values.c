/* loaded_values.c - the digest of values of the files, converted as an engine would hold them. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/formats/format.h"
#include "tools/check/loaded/loaded_parts.h"
#include "tools/check/hash/laws.h"
#include "tools/check/hash/nvfp4_table.h"
#include "tools/check/hash/values.h"

int sb_segments_have_laws(const sb_segment *segments, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (sb_laws_differ(&segments[i].matrix))
            return 1;
    return 0;
}

/* ModelOpt's own dequantization uses a table that has +0 for code 8. */
int sb_segments_have_one_zero(const sb_segment *segments, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (segments[i].matrix.quant.container == SB_CONTAINER_nvfp4_modelopt)
            return 1;
    return 0;
}

sb_status sb_segments_first(const sb_segment *segment, float *values, size_t *count, sb_error *err)
{
    uint32_t cols = segment->matrix.cols;
    double *wide = sb_alloc(cols, sizeof *wide);
    float *row = sb_alloc(cols, sizeof *row);
    sb_status status = SB_OK;
    *count = cols < SB_LOADED_FIRST ? cols : SB_LOADED_FIRST;
    if (!wide || !row)
        status =
            sb_fail(err, SB_ERR_MEMORY, "out of memory for a row of %u values", (unsigned)cols);
    else
        sb_exact_values(&segment->matrix, segment->first, wide, row);
    if (!status)
        memcpy(values, row, *count * sizeof *values);
    free(wide);
    free(row);
    return status;
}

/* The buffers of one digest. */
typedef struct bench {
    float *values;
    double *wide;
    sb_fp4_table *table;
} bench;

static void make_row(const bench *b, const sb_matrix *m, uint32_t row, sb_law law, int tabled)
{
    if (!tabled) {
        if (law == SB_LAW_exact)
            sb_exact_values(m, row, b->wide, b->values);
        else
            sb_law_row(m, row, law, b->wide, b->values);
        return;
    }
    const unsigned char *codes = sb_fp4_codes(m, row), *scales = sb_fp4_scales(m, row);
    for (uint32_t k = 0; k < m->cols; k += 2) {
        const float *of = b->table->value[scales[k / m->quant.block_cols]];
        b->values[k] = of[codes[k / 2] & 15];
        b->values[k + 1] = of[codes[k / 2] >> 4];
    }
}

static void travel(float *values, uint32_t count, const sb_journey *j)
{
    for (uint32_t k = 0; k < count; k++) {
        float x = values[k];
        if (j->one_zero && x == 0)
            x = 0;
        if (j->via != SB_FORMAT_f32)
            x = sb_round_to(j->via, x);
        if (j->times != 1)
            x = j->times * x;
        if (j->plus != 0) /* adding 0 would change -0 to +0 */
            x = x + j->plus;
        if (j->to != SB_FORMAT_f32)
            x = sb_round_to(j->to, x);
        values[k] = x;
    }
}

static void measure_values(const float *values, uint32_t count, sb_value_size *size)
{
    for (uint32_t k = 0; k < count; k++) {
        double x = (double)values[k];
        size->sum2 += x * x;
        if (x > size->largest || -x > size->largest)
            size->largest = x < 0 ? -x : x;
    }
    size->count += count;
}

sb_status sb_segments_digest(const sb_segment *segments, size_t count, const sb_journey *journey,
                             sb_digest *digest, sb_value_size *size, sb_error *err)
{
    uint32_t cols = 1;
    for (size_t i = 0; i < count; i++)
        cols = segments[i].matrix.cols > cols ? segments[i].matrix.cols : cols;
    bench b = {sb_alloc(cols, sizeof *b.values), sb_alloc(cols, sizeof *b.wide),
               sb_alloc(1, sizeof *b.table)};
    sb_hash *hash = sb_hash_new();
    sb_status status = SB_OK;
    if (!b.values || !b.wide || !b.table || !hash)
        status =
            sb_fail(err, SB_ERR_MEMORY, "out of memory for a row of %u values", (unsigned)cols);
    for (size_t i = 0; i < count && !status; i++) {
        const sb_matrix *m = &segments[i].matrix;
        int tabled = sb_fp4_table_fits(m);
        if (tabled)
            sb_fp4_table_make(m, journey->law, b.table);
        for (uint32_t row = 0; row < segments[i].rows; row++) {
            make_row(&b, m, segments[i].first + row, journey->law, tabled);
            travel(b.values, m->cols, journey);
            if (size)
                measure_values(b.values, m->cols, size);
            sb_hash_f32(hash, b.values, m->cols);
        }
    }
    if (!status)
        *digest = sb_hash_end(hash);
    sb_hash_free(hash);
    free(b.values);
    free(b.wide);
    free(b.table);
    return status;
}
