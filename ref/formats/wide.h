/* wide.h - the rows of quantized matrices as exact binary64 values. */
#ifndef SB_FORMATS_WIDE_H
#define SB_FORMATS_WIDE_H

#include "ref/formats/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the exact values of row i without the factor of the whole tensor: (code - zero point) *
 * block scale. A NaN code or scale gives NaN, and so does a negative block scale of an
 * FP4 or FP8 format. Also reads plain matrices. */
void sb_matrix_wide(const sb_matrix *matrix, uint32_t row, double *values);

/* The same for columns first .. first + count - 1 only. */
void sb_matrix_wide_part(const sb_matrix *matrix, uint32_t row, uint32_t first, uint32_t count,
                         double *values);

/* The two operands of the products of sb_matrix_wide, for the laws of dequantization:
 * sb_matrix_codes writes code - zero point of columns first .. first + count - 1, and
 * sb_matrix_scale returns the block scale of one column. Both are exact in binary32. */
void sb_matrix_codes(const sb_matrix *matrix, uint32_t row, uint32_t first, uint32_t count,
                     float *codes);
float sb_matrix_scale(const sb_matrix *matrix, uint32_t row, uint32_t column);

/* The block scales and the zero points of a row, one per group of quant.block_cols columns. The
 * matrix must not have a group_index. */
uint32_t sb_matrix_groups(const sb_matrix *matrix);
void sb_matrix_scales(const sb_matrix *matrix, uint32_t row, double *scales);
void sb_matrix_scales_part(const sb_matrix *matrix, uint32_t row, uint32_t first, uint32_t count,
                           float *scales); /* of groups first .. first + count - 1 */
void sb_matrix_zeros(const sb_matrix *matrix, uint32_t row, double *zeros);
int sb_matrix_has_zeros(const sb_matrix *matrix);

/* The bytes of a row with contiguous codes (packing == SB_PACKING_rows). */
const unsigned char *sb_matrix_dense(const sb_matrix *matrix, uint32_t row);

/* The number of columns from `column` on with the same scale and zero point. */
uint32_t sb_matrix_run(const sb_matrix *matrix, uint32_t column);

#ifdef __cplusplus
}
#endif

#endif
