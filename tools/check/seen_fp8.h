/* seen_fp8.h - what the payload pass keeps of one FP8 or MXFP8 matrix; fp8_groups.c judges it.
 *
 * A unit is what shares a scale: a block, a row, 32 columns of a row, or the whole matrix. It is
 * alive if one of its codes is not zero. */
#ifndef SB_CHECK_SEEN_FP8_H
#define SB_CHECK_SEEN_FP8_H

#include <stdint.h>

#include "tools/check/places.h"

typedef struct sb_seen_fp8 {
    uint32_t units, live;
    uint32_t powers;            /* units whose scale is a power of two */
    uint32_t live_powers;       /* of them, those that are alive */
    uint32_t full, full_powers; /* live units with a code of magnitude 448; of the powers */
    float least, most;          /* scale of live units */
    int64_t exponents;          /* sum of the exponents of these scales */
    sb_places nan;              /* codes that are no numbers */
    sb_places bad_scale;        /* scales that are no positive finite numbers, nor 0 */
    sb_places lost;             /* scale 0 over codes that are not */
    sb_places dead;             /* zero codes under a scale that weights gave, no power of two */
    float dead_least;           /* of these scales */
    sb_places high_scale;       /* 448 times the scale is implausible */
    sb_places low;              /* live units whose largest code is too small: V-30 */
    sb_places far;              /* codes that are not a nearest one: V-31 */
    sb_places clipped;          /* weights a tenth beyond what the scale holds: V-31 */
    unsigned char top;          /* the largest code without its sign */
    unsigned char carried;      /* scratch of the pass: of a unit that is not yet over */
    unsigned char compared;     /* the original was there, not quantized itself */
} sb_seen_fp8;

#endif
