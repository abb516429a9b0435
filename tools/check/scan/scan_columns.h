/* scan_columns.h - columns of zeros, on a sample of rows. */
#ifndef SB_CHECK_SCAN_COLUMNS_H
#define SB_CHECK_SCAN_COLUMNS_H

#include "tools/check/scan/scan.h"

/* The number of sampled rows of a matrix, evenly spread; how many of them must not be zero. */
enum { SB_COLUMN_ROWS = 16, SB_COLUMN_VOTES = 8 };

/* live: cols bytes, kept over the panels of a matrix. Fills seen->zero_cols, zero_cols_first and
 * column_votes. */
void sb_scan_columns(const sb_panel *panel, unsigned char *live);

#endif
