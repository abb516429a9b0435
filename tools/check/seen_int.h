/* seen_int.h - what the payload pass keeps of one matrix of integers; int_groups.c judges it.
 *
 * A group is the columns of one row that share a scale. It is alive if one of its codes is not its
 * zero point. Steps are codes less the zero point. */
#ifndef SB_CHECK_SEEN_INT_H
#define SB_CHECK_SEEN_INT_H

#include <stdint.h>

#include "tools/check/places.h"

typedef struct sb_seen_int {
    uint32_t steps[16]; /* how many of -8 and less, -7, .. 7 and more; of 8 bits sixteenths */
    uint32_t groups, live;
    uint32_t lowest;                    /* live groups with the least code, 0 or -8 or -128 */
    uint32_t negative;                  /* scales below 0 */
    uint32_t words_v1, words_v2, words; /* of GPTQ's zero points: 0x77777777, 0x88888888, all */
    sb_places other_word;               /* of zero points, neither of the two */
    sb_places bad_scale;                /* NaN, infinite */
    sb_places zero_scale;
    sb_places below_zero;   /* where the negative ones are */
    sb_places high_scale;   /* of weights that would be too large */
    uint32_t low_scales;    /* of live groups, where F16 has few digits */
    sb_places dead;         /* every code is the zero point under a scale that weights gave */
    sb_places inner;        /* live groups that do not reach their ends: V-35 */
    sb_places outside;      /* groups with a code that the declared width does not have */
    sb_places far, beyond;  /* codes: not a nearest one; more than a step off: V-38 */
    sb_places rows_off;     /* rows that have little to do with the original's */
    unsigned char compared; /* the original was there, not quantized itself */
} sb_seen_int;

#endif
