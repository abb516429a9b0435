/* plain_row.h - the rows of a plain matrix: their bytes and their exact values. */
#ifndef SB_FORMATS_PLAIN_ROW_H
#define SB_FORMATS_PLAIN_ROW_H

#include "ref/formats/format.h"
#include "ref/formats/matrix.h"

/* First byte of row i of a plain matrix. */
static inline const unsigned char *sb_matrix_row_bytes(const sb_matrix *matrix, uint32_t row)
{
    return matrix->data +
           sb_matrix_stored_row(matrix, row) * matrix->cols * sb_format_bytes(matrix->format);
}

/* The exact values of row i of a plain matrix. */
static inline void sb_matrix_row(const sb_matrix *matrix, uint32_t row, float *values)
{
    sb_decode(matrix->format, sb_matrix_row_bytes(matrix, row), matrix->cols, values);
}

#endif
