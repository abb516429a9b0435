/* seen_fit.h - what the payload pass keeps of how the codes of one matrix go with their scales and
 * zero points; fit.c judges it. */
#ifndef SB_CHECK_SEEN_FIT_H
#define SB_CHECK_SEEN_FIT_H

#include <stdint.h>

enum { SB_FIT_SCALES, SB_FIT_ZEROS, SB_FITS };

typedef struct sb_fit {
    uint64_t pairs;           /* of sampled groups */
    uint64_t ranked[SB_FITS]; /* of them, those whose scales differ, and whose zero points differ */
    int64_t agree[SB_FITS];   /* pairs in which the larger scale has the smaller codes, less those
                                 in which it has the larger; pairs in which the larger zero point
                                 has the larger codes, less those in which it has the smaller */
    uint64_t variance;        /* of agree, times 18, where there is no relation */
    int64_t steps;            /* sum of the codes less their zero points */
    uint64_t codes;           /* how many of them */
} sb_fit;

#endif
