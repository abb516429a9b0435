/* int_pass.h - shared by the two passes over a matrix of integers. */
#ifndef SB_CHECK_INT_PASS_H
#define SB_CHECK_INT_PASS_H

#include "tools/check/scan/ints.h"

/* State of a group while it is read. */
typedef struct sb_int_group {
    float scale;
    int16_t zero;
    unsigned char flags; /* SB_GROUP_... bits of its codes so far */
} sb_int_group;

enum {
    SB_GROUP_LIVE = 1,
    SB_GROUP_LOWEST = 2,
    SB_GROUP_REACHES = 4,
    SB_GROUP_WEIGHTS = 8,
    SB_GROUP_OUTSIDE = 32, /* some code is outside of the declared width */
    SB_GROUP_EMPTY = 16    /* the group has no column, which is possible only with g_idx */
};

/* State of a row while it is read. */
typedef struct sb_int_row {
    double error2, master2;
    int is_zero;
} sb_int_row;

/* The scale and zero point of a group, as the decoder sees them; `column` is any of its columns. */
sb_int_group sb_int_begin_group(const sb_matrix *m, uint32_t row, uint32_t column);

/* V-35: the ends of the range that a code reaches. */
unsigned sb_int_flags(int code, int zero, sb_int_range range);

/* The index of the counter for a step: 0 to 15. */
static inline unsigned sb_int_bin(int step, int wide)
{
    int bin = (wide ? step >> 4 : step) + 8;
    return bin < 0 ? 0 : bin > 15 ? 15 : (unsigned)bin;
}

/* row: of the panel. column: the first one of the group. */
void sb_int_end_group(const sb_panel *panel, const sb_int_group *group, uint32_t row,
                      uint32_t column);
void sb_int_end_row(const sb_panel *panel, const sb_int_row *sums, uint32_t row);

/* 1 if the scale is finite, so that codes have values. */
static inline int sb_int_finite(float scale)
{
    return scale <= 0x1.fffffep127f && scale >= -0x1.fffffep127f;
}

#endif
