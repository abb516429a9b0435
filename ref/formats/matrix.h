/* matrix.h - a weight matrix as it is stored: bytes in place, never a dequantized copy.
 *
 * "A stored weight has an exact real value, and no operation ever uses a rounded copy of it"
 */
#ifndef SB_FORMATS_MATRIX_H
#define SB_FORMATS_MATRIX_H

#include "ref/formats/format.h"

/* Row i, column j has the value of stored element (row_map ? row_map[i] : i) * cols + j.
 * row_map makes a permuted storage (Qwen3-Next's interleaved projections) read like the plain one;
 * vectors are matrices of one row. The bytes belong to somebody else. */
typedef struct sb_matrix {
    const unsigned char *data;
    sb_format format;
    uint32_t rows;
    uint32_t cols;
    const uint32_t *row_map; /* (rows) or NULL */
} sb_matrix;

/* First byte of row i. */
static inline const unsigned char *sb_matrix_row_bytes(const sb_matrix *matrix, uint32_t row)
{
    uint64_t stored = matrix->row_map ? matrix->row_map[row] : row;
    return matrix->data + stored * matrix->cols * sb_format_bytes(matrix->format);
}

/* The exact values of row i. */
static inline void sb_matrix_row(const sb_matrix *matrix, uint32_t row, float *values)
{
    sb_decode(matrix->format, sb_matrix_row_bytes(matrix, row), matrix->cols, values);
}

#endif
