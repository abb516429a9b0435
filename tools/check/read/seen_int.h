/* seen_int.h - what the payload pass keeps of one matrix of integers; int_groups.c judges it.
 *
 * A group is the columns of one row that share a scale. It is alive if one of its codes differs
 * from its zero point. A step is a code minus the zero point. */
#ifndef SB_CHECK_SEEN_INT_H
#define SB_CHECK_SEEN_INT_H

#include <stdint.h>

#include "tools/check/read/places.h"

typedef struct sb_seen_int {
    /* histogram of steps: -8 and less, -7, .. 7 and more; for 8 bits, sixteenths of the range */
    uint32_t steps[16];
    uint32_t groups, live;
    uint32_t lowest;   /* live groups with the least code, 0 or -8 or -128 */
    uint32_t negative; /* scales below 0 */
    /* words of GPTQ's zero points: 0x77777777, 0x88888888, all */
    uint32_t words_v1, words_v2, words;
    sb_places other_word; /* words of zero points that are neither of the two */
    sb_places bad_scale;  /* NaN, infinite */
    sb_places zero_scale;
    sb_places below_zero; /* places of the negative scales */
    sb_places high_scale; /* scales that would mean too large weights */
    uint32_t low_scales;  /* scales of live groups in the range where F16 has few digits */
    /* groups with only zero points under a scale that was computed from weights */
    sb_places dead;
    sb_places inner;   /* live groups that reach no end of the range: V-35 */
    sb_places outside; /* groups with a code outside of the declared width */
    /* codes that are not a nearest one; codes that are more than a step off: V-38 */
    sb_places far, beyond;
    sb_places rows_off;     /* rows far from the original's */
    unsigned char compared; /* the original exists and is not quantized itself */
} sb_seen_int;

#endif
