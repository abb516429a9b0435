/* int_pass.h - what the two ways through a matrix of integers share. */
#ifndef SB_CHECK_INT_PASS_H
#define SB_CHECK_INT_PASS_H

#include "tools/check/ints.h"

/* A group while it is read. */
typedef struct sb_int_group {
    float scale;
    int16_t zero;
    unsigned char flags; /* of its codes so far */
} sb_int_group;

enum {
    SB_GROUP_LIVE = 1,
    SB_GROUP_LOWEST = 2,
    SB_GROUP_REACHES = 4,
    SB_GROUP_WEIGHTS = 8,
    SB_GROUP_OUTSIDE = 32, /* of the declared width */
    SB_GROUP_EMPTY = 16    /* no column is in it, which only g_idx can do */
};

/* A row while it is read. */
typedef struct sb_int_row {
    double error2, master2;
    int is_zero;
} sb_int_row;

/* Scale and zero point of a group as the decoder sees them; `column` is one of its columns. */
sb_int_group sb_int_begin_group(const sb_matrix *m, uint32_t row, uint32_t column);

/* V-35: which ends a code reaches. */
unsigned sb_int_flags(int code, int zero, sb_int_range range);

/* Which of sixteen counters a step belongs to. */
static inline unsigned sb_int_bin(int step, int wide)
{
    int bin = (wide ? step >> 4 : step) + 8;
    return bin < 0 ? 0 : bin > 15 ? 15 : (unsigned)bin;
}

/* Row of the panel, and the first column of the group. */
void sb_int_end_group(const sb_panel *panel, const sb_int_group *group, uint32_t row,
                      uint32_t column);
void sb_int_end_row(const sb_panel *panel, const sb_int_row *sums, uint32_t row);

/* A scale under which codes have values. */
static inline int sb_int_finite(float scale)
{
    return scale <= 0x1.fffffep127f && scale >= -0x1.fffffep127f;
}

#endif
