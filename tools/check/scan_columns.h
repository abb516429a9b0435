/* scan_columns.h - columns of zeros, on samples of rows. */
#ifndef SB_CHECK_SCAN_COLUMNS_H
#define SB_CHECK_SCAN_COLUMNS_H

#include "tools/check/scan.h"

/* Rows of a matrix that are looked at, evenly spread; how many of them must not be zero. */
enum { SB_COLUMN_ROWS = 16, SB_COLUMN_VOTES = 8 };

/* live: cols bytes, kept over the panels of a matrix. Fills seen->zero_cols and its first one. */
void sb_scan_columns(const sb_panel *panel, unsigned char *live);

#endif
