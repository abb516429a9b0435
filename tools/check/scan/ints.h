/* ints.h - the comparison of one integer code with its weight, and the two ways to read a
 * matrix. */
#ifndef SB_CHECK_INTS_H
#define SB_CHECK_INTS_H

#include "tools/check/scan/scan.h"

/* The range of codes of a format: 0 to 15, 0 to 255, -8 to 7, or -128 to 127. */
typedef struct sb_int_range {
    int least, most;
} sb_int_range;

sb_int_range sb_int_range_of(sb_format format);

/* The range in a matrix: I8 codes may be declared to have fewer bits. */
sb_int_range sb_int_range_in(const sb_matrix *matrix);
int sb_int_is_wide(const sb_matrix *matrix); /* 1 for more than four bits */

/* V-38: "1e-5 is the least scale that tools write" - a group with such a scale holds only zeros. */
static inline int sb_int_at_floor(double scale)
{
    return scale <= 1.01e-5 && scale >= -1.01e-5;
}

/* How far a stored code is from its weight. */
enum { SB_INT_FAR = 1, SB_INT_BEYOND = 2 };

/* V-38 for one code: SB_INT_FAR if it is not a nearest code, SB_INT_BEYOND if it is more than a
 * step off and not at an end of the range. The scale must not be 0. */
unsigned sb_int_stands(int code, int zero, sb_int_range range, double weight, double scale);

/* Unpacks the stored codes of stored rows first_row .. first_row + rows - 1, columns first .. first
 * + count - 1, into codes[r * stride + i]. first and count are multiples of 8. */
void sb_int_unpack(const sb_matrix *m, uint64_t first_row, uint32_t rows, uint32_t first,
                   uint32_t count, int16_t *codes, uint32_t stride);

/* Two ways to scan a panel, with the same results. By rows: one function call per code, for any
 * order of groups and any original. By tiles: faster, but not always possible. sb_scan_int uses
 * tiles wherever it can. */
void sb_scan_int_rows(const sb_panel *panel);
void sb_scan_int_tiles(const sb_panel *panel);
int sb_scan_int_can_tile(const sb_panel *panel);

#endif
