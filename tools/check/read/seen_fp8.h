/* seen_fp8.h - what the payload pass keeps of one FP8 or MXFP8 matrix; fp8_groups.c judges it.
 *
 * A unit is the codes that share a scale: a block, a row, 32 columns of a row, or the whole matrix.
 * It is alive if one of its codes is not zero. */
#ifndef SB_CHECK_SEEN_FP8_H
#define SB_CHECK_SEEN_FP8_H

#include <stdint.h>

#include "tools/check/read/places.h"

typedef struct sb_seen_fp8 {
    uint32_t units, live;
    uint32_t powers;      /* units whose scale is a power of two */
    uint32_t live_powers; /* live units among them */
    /* live units with a code of magnitude 448, and those of them whose scale is a power of two */
    uint32_t full, full_powers;
    float least, most;   /* least and largest scale of live units */
    int64_t exponents;   /* sum of the exponents of the scales of live units */
    sb_places nan;       /* NaN codes */
    sb_places bad_scale; /* scales that are neither positive finite numbers nor 0 */
    sb_places lost;      /* codes other than 0 under a scale of 0 */
    /* units of zero codes under a live scale: no power of two, so that it was computed from
     * weights */
    sb_places dead;
    float dead_least;     /* the least of these scales */
    sb_places high_scale; /* scales S for which 448 S is implausibly large */
    sb_places low;        /* live units whose largest code is too small: V-30 */
    sb_places far;        /* codes that are not a nearest one: V-31 */
    sb_places clipped;    /* weights a tenth beyond the largest value under the scale: V-31 */
    unsigned char top;    /* the largest magnitude code */
    /* scratch of the pass: the top of a unit that continues in the next panel */
    unsigned char carried;
    unsigned char compared; /* the original exists and is not quantized itself */
} sb_seen_fp8;

#endif
