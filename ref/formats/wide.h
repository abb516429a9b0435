/* wide.h - the rows of quantized matrices as exact binary64 values. */
#ifndef SB_FORMATS_WIDE_H
#define SB_FORMATS_WIDE_H

#include "ref/formats/matrix.h"

/* Row i without the factor of the whole tensor: (code - zero point) * block scale, exactly, cols
 * values. A NaN code or scale, and a negative block scale of an FP4 or FP8 format, give
 * NaN. Plain matrices are read, too. */
void sb_matrix_wide(const sb_matrix *matrix, uint32_t row, double *values);

/* Columns first .. first + count - 1 of it. */
void sb_matrix_wide_part(const sb_matrix *matrix, uint32_t row, uint32_t first, uint32_t count,
                         double *values);

/* What sb_matrix_wide multiplies, for the laws of dequantization: code - zero point of columns
 * first .. first + count - 1, and the block scale of column k. Both are exact in binary32. */
void sb_matrix_codes(const sb_matrix *matrix, uint32_t row, uint32_t first, uint32_t count,
                     float *codes);
float sb_matrix_scale(const sb_matrix *matrix, uint32_t row, uint32_t column);

/* The block scales and the zero points of a row, one of each group of quant.block_cols columns. The
 * matrix must not have a group_index. */
uint32_t sb_matrix_groups(const sb_matrix *matrix);
void sb_matrix_scales(const sb_matrix *matrix, uint32_t row, double *scales);
void sb_matrix_scales_part(const sb_matrix *matrix, uint32_t row, uint32_t first, uint32_t count,
                           float *scales); /* of groups first .. first + count - 1 */
void sb_matrix_zeros(const sb_matrix *matrix, uint32_t row, double *zeros);
int sb_matrix_has_zeros(const sb_matrix *matrix);

/* The bytes of a row whose codes stand one behind the other: packing == SB_PACKING_rows. */
const unsigned char *sb_matrix_dense(const sb_matrix *matrix, uint32_t row);

/* Columns from `column` on that have the same scale and zero point as it. */
uint32_t sb_matrix_run(const sb_matrix *matrix, uint32_t column);

#endif
