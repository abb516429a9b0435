/* seen_fit.h - what the payload pass keeps about how the codes of one matrix match their scales and
 * zero points; fit.c judges it. */
#ifndef SB_CHECK_SEEN_FIT_H
#define SB_CHECK_SEEN_FIT_H

#include <stdint.h>

enum { SB_FIT_SCALES, SB_FIT_ZEROS, SB_FITS };

typedef struct sb_fit {
    uint64_t pairs;           /* pairs of sampled groups */
    uint64_t ranked[SB_FITS]; /* pairs with different scales; with different zero points */
    /* for scales: pairs in which the larger scale has the smaller codes, minus those in which it
     * has the larger codes; for zero points: pairs in which the larger one has the larger codes,
     * minus those in which it has the smaller codes */
    int64_t agree[SB_FITS];
    uint64_t variance; /* 18 times the variance that agree has if there is no relation */
    int64_t steps;     /* sum of the codes minus their zero points */
    uint64_t codes;    /* number of codes in steps */
} sb_fit;

#endif
