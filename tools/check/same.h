/* same.h - what is compared with an original that is quantized, too: bytes where both sides store a
 * layer alike, values where they do not (V-14). */
#ifndef SB_CHECK_SAME_H
#define SB_CHECK_SAME_H

#include <stdint.h>

#include "ref/model/detect.h"

/* Of one part of a layer, in its stored elements; or in the values of the layer. */
typedef struct sb_part_difference {
    uint64_t differing;
    uint64_t apart;      /* of codes: elements in which a code is not the next one or the same */
    uint64_t first;      /* which element of the part; of values row * cols + column of the piece */
    uint64_t own, other; /* its bits; of values those of a double, without the global scale */
    unsigned bits;       /* of an element */
    uint32_t piece;      /* of values: which one of sb_each_piece */
} sb_part_difference;

enum { SB_SAME_VALUES = SB_PART_COUNT, SB_SAME_ROWS }; /* one behind the parts, and their number */

/* What the payload pass keeps of a unit; differences stay NULL where nothing differs. */
typedef struct sb_same {
    uint32_t compared;               /* bit p: part p was, in bytes, in values or by its distance */
    uint32_t in_bytes;               /* bit p: in bytes */
    int of_four;                     /* the original has codes of 4 bits */
    int by_value;                    /* the values of both sides were compared one by one */
    sb_part_difference *differences; /* (SB_SAME_ROWS) */
} sb_same;

#endif
