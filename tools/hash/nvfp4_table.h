/* nvfp4_table.h - all values that an FP4 layer can have under a law: there are 256 block scales and
 * 16 codes, so a table of one layer takes less time than one of its rows. */
#ifndef SB_HASH_NVFP4_TABLE_H
#define SB_HASH_NVFP4_TABLE_H

#include "ref/math/law.h"

typedef struct sb_fp4_table {
    float value[256][16]; /* [byte of the block scale][code] */
} sb_fp4_table;

/* Whether the matrix has E2M1 codes in rows under block scales of one byte. */
int sb_fp4_table_fits(const sb_matrix *matrix);

/* What sb_law_row gives for each pair, under the factor of the matrix. */
void sb_fp4_table_make(const sb_matrix *matrix, sb_law law, sb_fp4_table *table);

/* The bytes of a row: codes, two in a byte, and block scales. The matrix must fit. */
const unsigned char *sb_fp4_codes(const sb_matrix *matrix, uint32_t row);
const unsigned char *sb_fp4_scales(const sb_matrix *matrix, uint32_t row);

#endif
