/* repack.h - gathers the codes of a row that are interleaved with other rows. */
#ifndef SB_FORMATS_REPACK_H
#define SB_FORMATS_REPACK_H

#include "ref/formats/format.h"
#include "ref/formats/matrix.h"

/* Converts `rows` rows of a matrix with another packing to the layout of SB_PACKING_rows: code j at
 * bit j * bits, low nibble first. Row i goes to codes + i * each. The conversion is fastest if rows
 * that share words are in the same call. A row takes sb_matrix_repack_each() bytes. */
static inline size_t sb_matrix_repack_each(const sb_matrix *matrix)
{
    return ((size_t)matrix->cols * sb_format_bits(matrix->format) + 7) / 8;
}
void sb_matrix_repack(const sb_matrix *matrix, uint32_t row, size_t rows, unsigned char *codes,
                      size_t each);

#endif
