#include "tools/judge/compare/bundle_matrix.h"

#include <string.h>

#include "ref/formats/format.h"
#include "tools/judge/compare/bundle.h"

const char *const bundle_matrix_names[BUNDLE_MATRIX_NUMBERS] = {
    "rows",        "cols",       "first_row", "format",      "quantized",   "scale_format",
    "block_rows",  "block_cols", "scale_row", "scale_col",   "groups",      "packing",
    "stored_rows", "zeros",      "zero",      "factor_kind", "factor",      "input_kind",
    "input",       "container",  "has_zeros", "has_index",   "has_row_map",
};

void bundle_matrix_numbers(const sb_matrix *m, double numbers[BUNDLE_MATRIX_NUMBERS])
{
    const sb_quant *q = &m->quant;
    const double all[BUNDLE_MATRIX_NUMBERS] = {
        m->rows,
        m->cols,
        m->first_row,
        m->format,
        q->scales != NULL,
        q->scale_format,
        q->block_rows,
        q->block_cols,
        (double)q->scale_row,
        (double)q->scale_col,
        q->groups,
        q->packing,
        q->stored_rows,
        q->zeros,
        q->zero,
        q->factor.kind,
        (double)q->factor.value,
        q->input.kind,
        (double)q->input.value,
        q->container,
        q->zero_points != NULL,
        q->group_index != NULL,
        m->row_map != NULL,
    };
    for (size_t i = 0; i < BUNDLE_MATRIX_NUMBERS; i++)
        numbers[i] = all[i];
}

/* True for a whole number from 0 to `most`. */
static int whole(double x, double most)
{
    return x >= 0.0 && x <= most && x == (double)(uint64_t)x;
}

static int format_fits(const sb_matrix *m)
{
    unsigned bits = sb_format_bits(m->format);
    if (!sb_matrix_quantized(m) && m->quant.block_cols == 0)
        return sb_format_is_plain(m->format);
    return (bits == 4 || bits == 8) && sb_format_bytes(m->quant.scale_format) > 0 &&
           (bits == 8 || m->cols % 2 == 0);
}

int bundle_matrix_of(const double n[BUNDLE_MATRIX_NUMBERS], sb_matrix *m, bundle_parts *parts)
{
    static const double most[BUNDLE_MATRIX_NUMBERS] = {1 << 26, 1 << 26,
                                                       1 << 26, SB_FORMAT_COUNT - 1,
                                                       1,       SB_FORMAT_COUNT - 1,
                                                       1 << 26, 1 << 26,
                                                       1 << 26, 1 << 26,
                                                       1 << 26, SB_PACKING_pairs,
                                                       1 << 26, SB_ZEROS_rows,
                                                       0,       2,
                                                       0,       2,
                                                       0,       SB_CONTAINER_COUNT - 1,
                                                       1,       1,
                                                       1};
    for (size_t i = 0; i < BUNDLE_MATRIX_NUMBERS; i++)
        if (i != 14 && i != 16 && i != 18 && !whole(n[i], most[i]))
            return 0;
    if (!(n[14] >= -256 && n[14] <= 256))
        return 0;
    *m = (sb_matrix){.rows = (uint32_t)n[0],
                     .cols = (uint32_t)n[1],
                     .first_row = (uint32_t)n[2],
                     .format = (sb_format)n[3]};
    sb_quant *q = &m->quant;
    *parts = (bundle_parts){n[4] > 0, n[20] > 0, n[21] > 0, n[22] > 0};
    q->scale_format = (sb_format)n[5];
    q->block_rows = (uint32_t)n[6], q->block_cols = (uint32_t)n[7];
    q->scale_row = (uint64_t)n[8], q->scale_col = (uint64_t)n[9];
    q->groups = (uint32_t)n[10];
    q->packing = (sb_packing)n[11];
    q->stored_rows = (uint32_t)n[12];
    q->zeros = (sb_zeros)n[13];
    q->zero = (int32_t)n[14];
    q->factor.kind = (unsigned)n[15], q->factor.value = (float)n[16];
    q->input.kind = (unsigned)n[17], q->input.value = (float)n[18];
    q->container = (sb_container)n[19];
    if (m->rows == 0 || m->cols == 0 || (double)m->rows * (double)m->cols > 0x1p34)
        return 0;
    if (parts->scales != (q->block_cols > 0) || parts->scales != (q->block_rows > 0) ||
        !format_fits(m) || (parts->zero_points != 0) != (q->zeros != SB_ZEROS_none))
        return 0;
    if (!parts->scales)
        return !parts->zero_points && !parts->group_index;
    return q->groups > 0 && (parts->group_index || (m->cols - 1) / q->block_cols < q->groups);
}

bundle_extent bundle_extent_of(const sb_matrix *m, uint64_t last)
{
    const sb_quant *q = &m->quant;
    uint64_t bits = sb_format_bits(m->format), rows = last + 1;
    uint64_t words = 32 / bits, stored = q->stored_rows > rows ? q->stored_rows : rows;
    bundle_extent e = {.data = rows * m->cols * bits / 8};
    if (q->block_cols == 0)
        return e;
    if (q->packing == SB_PACKING_gptq || q->packing == SB_PACKING_awq)
        e.data = (m->cols + words - 1) / words * ((stored + words - 1) / words * words) * 4;
    else if (q->packing == SB_PACKING_pairs)
        e.data = (last / 2 + 1) * m->cols;
    e.scales = (last / q->block_rows * q->scale_row + (q->groups - 1) * q->scale_col + 1) *
               sb_format_bytes(q->scale_format);
    if (q->zeros != SB_ZEROS_none)
        e.zero_points = (uint64_t)q->groups * ((stored + words - 1) / words) * 4;
    e.group_index = 4 * (uint64_t)m->cols;
    return e;
}

static void align(const float *expected, float *found, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            if (found[j] == expected[i] && found[j] != expected[j]) {
                found[j] = found[i];
                found[i] = expected[i];
            }
}

void sb_bundle_align(const char *output, const float *expected, float *found, size_t rows,
                     size_t cols)
{
    for (size_t row = 0; row < rows && strcmp(output, "ids") == 0; row++)
        align(expected + row * cols, found + row * cols, cols);
}
