/* ints.h - integer codes against weights, one at a time, and the two ways to read a matrix. */
#ifndef SB_CHECK_INTS_H
#define SB_CHECK_INTS_H

#include "tools/check/scan.h"

/* The codes of a format: 0 to 15, 0 to 255, -8 to 7, -128 to 127. */
typedef struct sb_int_range {
    int least, most;
} sb_int_range;

sb_int_range sb_int_range_of(sb_format format);

/* Of a matrix: I8 codes may be declared to have fewer bits. */
sb_int_range sb_int_range_in(const sb_matrix *matrix);
int sb_int_is_wide(const sb_matrix *matrix); /* more than four */

/* V-38: "1e-5 is the least scale that tools write" - what lies in such a group is nothing. */
static inline int sb_int_at_floor(double scale)
{
    return scale <= 1.01e-5 && scale >= -1.01e-5;
}

/* How a stored code stands to its weight. */
enum { SB_INT_FAR = 1, SB_INT_BEYOND = 2 };

/* V-38 for one code: SB_INT_FAR if it is not a nearest one, SB_INT_BEYOND if it is more than a step
 * off and not at an end. The scale is not 0. */
unsigned sb_int_stands(int code, int zero, sb_int_range range, double weight, double scale);

/* Codes of rows first_row .. first_row + rows - 1 (stored ones), columns first .. + count - 1, as
 * they are stored, into codes[r * stride + i]. first and count are multiples of 8. */
void sb_int_unpack(const sb_matrix *m, uint64_t first_row, uint32_t rows, uint32_t first,
                   uint32_t count, int16_t *codes, uint32_t stride);

/* What both ways see of a panel: row by row with one function call per code, for any order of
 * groups and any original, and tile by tile. sb_scan_int takes the second wherever it can. */
void sb_scan_int_rows(const sb_panel *panel);
void sb_scan_int_tiles(const sb_panel *panel);
int sb_scan_int_can_tile(const sb_panel *panel);

#endif
