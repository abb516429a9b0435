/* nvfp4_table.h - all values that an FP4 layer can have under a law. There are 256 block scales and
 * 16 codes, so the table of a layer takes less time than one of its rows. */
#ifndef SB_HASH_NVFP4_TABLE_H
#define SB_HASH_NVFP4_TABLE_H

#include "ref/math/law.h"

typedef struct sb_fp4_table {
    float value[256][16]; /* [byte of the block scale][code] */
} sb_fp4_table;

/* True if the matrix has E2M1 codes in rows with one-byte block scales. */
int sb_fp4_table_fits(const sb_matrix *matrix);

/* Fills in the result of sb_law_row for each pair, with the factor of the matrix. */
void sb_fp4_table_make(const sb_matrix *matrix, sb_law law, sb_fp4_table *table);

/* The bytes of a row: codes, two per byte, and block scales. sb_fp4_table_fits must be true. */
const unsigned char *sb_fp4_codes(const sb_matrix *matrix, uint32_t row);
const unsigned char *sb_fp4_scales(const sb_matrix *matrix, uint32_t row);

#endif
