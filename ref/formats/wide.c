#include "ref/formats/wide.h"

#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/plain_row.h"
#include "ref/formats/small_float.h"

/* The nibble of element j of eight in an AWQ word. */
static const uint32_t awq_nibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};

static uint32_t word_at(const unsigned char *words, uint64_t i)
{
    return sb_load_u32(words + 4 * i);
}

/* Codes first .. first + count - 1 of a stored row in any format. Reads one word of the packing per
 * code and shifts it to the place of the code.
 *
 * "nibble i of word (r, n) is element k = 8r + i of row n" and the similar clauses of the
 * other packings */
static void unpack(const sb_matrix *m, uint64_t row, uint64_t first, size_t count, uint8_t *codes)
{
    const sb_quant *q = &m->quant;
    uint32_t bits = (uint32_t)sb_format_bits(m->format), mask = (1u << bits) - 1u;
    uint32_t per_word = bits == 4 ? 3 : 2; /* log2 of the codes per word */
    uint64_t n = q->stored_rows;
    for (uint64_t i = 0, k = first; i < count; i++, k++) {
        uint32_t code;
        if (q->packing == SB_PACKING_gptq)
            code = word_at(m->data, (k >> per_word) * n + row) >> (k % (1u << per_word) * bits);
        else if (q->packing == SB_PACKING_awq)
            code = word_at(m->data, (k * n + row) / 8) >> 4 * awq_nibble[row % 8];
        else
            code = (uint32_t)m->data[row / 2 * m->cols + k] >> 4 * (row % 2);
        codes[i] = (uint8_t)(code & mask);
    }
}

/* Decodes columns of a row with contiguous codes, one or two per byte. */
static void decode_dense(const sb_matrix *m, uint64_t row, uint64_t first, size_t count,
                         float *values)
{
    if (sb_format_bits(m->format) == 8) {
        sb_small_decode(m->format, m->data + row * m->cols + first, count, values);
        return;
    }
    const unsigned char *bytes = m->data + row * (m->cols / 2) + first / 2;
    if (first % 2 && count > 0) {
        const uint8_t code = *bytes++ >> 4;
        sb_small_decode(m->format, &code, 1, values++);
        count--;
    }
    sb_nibble_decode(m->format, bytes, count, values);
}

/* "un-borrowed on the whole word" */
static int32_t zero_at(const sb_matrix *m, uint64_t row, uint64_t group)
{
    const sb_quant *q = &m->quant;
    uint32_t bits = (uint32_t)sb_format_bits(m->format), per_word = 32 / bits;
    uint32_t mask = (1u << bits) - 1u, one = bits == 4 ? 0x11111111u : 0x01010101u;
    uint64_t words = q->stored_rows / per_word, shift = row % per_word * bits;
    switch (q->zeros) {
    case SB_ZEROS_gptq_v1:
        return (int32_t)((word_at(q->zero_points, group * words + row / per_word) + one) >> shift &
                         mask);
    case SB_ZEROS_gptq_v2:
        return (int32_t)(word_at(q->zero_points, group * words + row / per_word) >> shift & mask);
    case SB_ZEROS_awq:
        return (int32_t)(word_at(q->zero_points, group * words + row / 8) >>
                             4 * awq_nibble[row % 8] &
                         mask);
    case SB_ZEROS_rows:
        return (int32_t)(word_at(q->zero_points, row / per_word * q->groups + group) >> shift &
                         mask);
    case SB_ZEROS_none:
        break;
    }
    return q->zero;
}

static uint32_t group_of(const sb_matrix *m, uint32_t column)
{
    const unsigned char *index = m->quant.group_index;
    return index ? word_at(index, column) : column / m->quant.block_cols;
}

uint32_t sb_matrix_run(const sb_matrix *matrix, uint32_t column)
{
    const sb_quant *q = &matrix->quant;
    if (!q->scales)
        return matrix->cols - column;
    if (q->group_index)
        return 1;
    uint32_t run = q->block_cols - column % q->block_cols;
    return run < matrix->cols - column ? run : matrix->cols - column;
}

const unsigned char *sb_matrix_dense(const sb_matrix *matrix, uint32_t row)
{
    uint64_t bits = sb_format_bits(matrix->format);
    return matrix->data + sb_matrix_stored_row(matrix, row) * (matrix->cols * bits / 8);
}

uint32_t sb_matrix_groups(const sb_matrix *matrix)
{
    uint32_t each = matrix->quant.block_cols;
    return sb_matrix_quantized(matrix) ? matrix->cols / each + (matrix->cols % each != 0) : 0;
}

int sb_matrix_has_zeros(const sb_matrix *matrix)
{
    return matrix->quant.zeros != SB_ZEROS_none || matrix->quant.zero != 0;
}

void sb_matrix_zeros(const sb_matrix *matrix, uint32_t row, double *zeros)
{
    const uint64_t stored = sb_matrix_stored_row(matrix, row);
    const uint32_t groups = sb_matrix_groups(matrix);
    const double constant = matrix->quant.zero;
    for (uint32_t g = 0; g < groups; g++)
        zeros[g] =
            matrix->quant.zeros == SB_ZEROS_none ? constant : (double)zero_at(matrix, stored, g);
}

void sb_matrix_codes(const sb_matrix *matrix, uint32_t row, uint32_t first, uint32_t count,
                     float *codes)
{
    enum { PIECE = 256 };
    uint8_t piece[PIECE];
    const sb_quant *q = &matrix->quant;
    int dense = q->packing == SB_PACKING_rows, zeros = sb_matrix_has_zeros(matrix);
    uint64_t stored = sb_matrix_stored_row(matrix, row);
    for (uint32_t i = 0, part; i < count; i += part) {
        part = count - i < PIECE ? count - i : PIECE;
        if (dense) {
            decode_dense(matrix, stored, first + i, part, codes + i);
            continue;
        }
        unpack(matrix, stored, first + i, part, piece);
        sb_small_decode(matrix->format, piece, part, codes + i);
    }
    for (uint32_t i = 0, run; zeros && i < count; i += run) {
        run = sb_matrix_run(matrix, first + i) < count - i ? sb_matrix_run(matrix, first + i)
                                                           : count - i;
        float zero = (float)zero_at(matrix, stored, group_of(matrix, first + i));
        for (uint32_t j = i; j < i + run && zero != 0; j++)
            codes[j] -= zero;
    }
}

/* "A block scale of an FP4 or FP8 format with its sign bit set has no value" */
static float valid_scale(const sb_matrix *matrix, float scale)
{
    int narrow = matrix->format == SB_FORMAT_e2m1 || matrix->format == SB_FORMAT_e4m3;
    return narrow && sb_bits_f32(scale) >> 31 ? sb_f32_from_bits(0x7fc00000u) : scale;
}

float sb_matrix_scale(const sb_matrix *matrix, uint32_t row, uint32_t column)
{
    const sb_quant *q = &matrix->quant;
    uint64_t stored = sb_matrix_stored_row(matrix, row);
    uint64_t at = stored / q->block_rows * q->scale_row + group_of(matrix, column) * q->scale_col;
    float scale;
    sb_decode(q->scale_format, q->scales + at * sb_format_bytes(q->scale_format), 1, &scale);
    return valid_scale(matrix, scale);
}

/* Decodes contiguous scales in one call. */
void sb_matrix_scales_part(const sb_matrix *matrix, uint32_t row, uint32_t first, uint32_t count,
                           float *scales)
{
    const sb_quant *q = &matrix->quant;
    const size_t bytes = sb_format_bytes(q->scale_format);
    const uint64_t at = sb_matrix_stored_row(matrix, row) / q->block_rows * q->scale_row;
    const uint32_t each = q->scale_col == 1 ? count : 1;
    for (uint32_t g = 0; g < count; g += each)
        sb_decode(q->scale_format, q->scales + (at + (first + g) * q->scale_col) * bytes, each,
                  scales + g);
    for (uint32_t g = 0; g < count; g++)
        scales[g] = valid_scale(matrix, scales[g]);
}

void sb_matrix_scales(const sb_matrix *matrix, uint32_t row, double *scales)
{
    enum { PIECE = 64 };
    float piece[PIECE];
    const uint32_t groups = sb_matrix_groups(matrix);
    for (uint32_t g = 0, count; g < groups; g += count) {
        count = groups - g < PIECE ? groups - g : PIECE;
        sb_matrix_scales_part(matrix, row, g, count, piece);
        for (uint32_t i = 0; i < count; i++)
            scales[g + i] = (double)piece[i];
    }
}

/* "(code - zero point) times block scale, then times the multiplier or divided by the
 * divisor"; the first product is exact in binary64, because it has 8 bits times 24 bits. */
static void scale_run(const float *codes, size_t count, double scale, double *values)
{
    for (size_t i = 0; i < count; i++)
        values[i] = codes[i] * scale;
}

enum { PIECE = 256 };

/* Computes the values of columns k .. k + count - 1 from their codes. */
static void scale_piece(const sb_matrix *matrix, uint32_t row, uint32_t k, uint32_t count,
                        const float *codes, double *values)
{
    const uint32_t each = matrix->quant.block_cols;
    float scales[PIECE];
    if (!matrix->quant.group_index)
        sb_matrix_scales_part(matrix, row, k / each, (k + count - 1) / each - k / each + 1, scales);
    for (uint32_t i = 0, g = 0, run; i < count; i += run, g++) {
        run = matrix->quant.group_index ? 1 : g > 0 ? each : each - k % each;
        run = run < count - i ? run : count - i;
        double scale = matrix->quant.group_index ? sb_matrix_scale(matrix, row, k + i) : scales[g];
        scale_run(codes + i, run, scale, values + i);
    }
}

void sb_matrix_wide_part(const sb_matrix *matrix, uint32_t row, uint32_t first, uint32_t count,
                         double *values)
{
    float piece[PIECE];
    for (uint32_t k = first, n; k < first + count; k += n, values += n) {
        n = first + count - k < PIECE ? first + count - k : PIECE;
        if (sb_matrix_quantized(matrix)) {
            sb_matrix_codes(matrix, row, k, n, piece);
            scale_piece(matrix, row, k, n, piece, values);
            continue;
        }
        size_t bytes = sb_format_bytes(matrix->format);
        sb_decode(matrix->format, sb_matrix_row_bytes(matrix, row) + k * bytes, n, piece);
        scale_run(piece, n, 1, values);
    }
}

void sb_matrix_wide(const sb_matrix *matrix, uint32_t row, double *values)
{
    sb_matrix_wide_part(matrix, row, 0, matrix->cols, values);
}
