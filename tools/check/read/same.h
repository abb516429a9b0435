/* same.h - the comparison with a quantized original: by bytes where both sides store a layer alike,
 * else by values (V-14). */
#ifndef SB_CHECK_SAME_H
#define SB_CHECK_SAME_H

#include <stdint.h>

#include "ref/model/detect.h"

/* The differences in one part of a layer, counted in stored elements; or in the values of the
 * layer. */
typedef struct sb_part_difference {
    uint64_t differing;
    uint64_t apart; /* for codes: elements in which some code differs by more than one step */
    uint64_t first; /* element of the part; for values, row * cols + column of the piece */
    /* bits of that element; for values, the bits of a double without the global scale */
    uint64_t own, other;
    unsigned bits;  /* per element */
    uint32_t piece; /* for values: the index of the piece in sb_each_piece */
} sb_part_difference;

/* the row of the values, after the rows of the parts; the number of rows */
enum { SB_SAME_VALUES = SB_PART_COUNT, SB_SAME_ROWS };

/* What the payload pass keeps for a unit; differences stays NULL if nothing differs. */
typedef struct sb_same {
    uint32_t compared;               /* bit p: part p was compared, by bytes, values or distance */
    uint32_t in_bytes;               /* bit p: part p was compared by bytes */
    int of_four;                     /* the original has codes of 4 bits */
    int by_value;                    /* the values of both sides were compared one by one */
    sb_part_difference *differences; /* SB_SAME_ROWS of them */
} sb_same;

#endif
