/* fp8.h - what is exact about E4M3 codes: their values, and which code is a nearest one. */
#ifndef SB_CHECK_FP8_H
#define SB_CHECK_FP8_H

#include <stdint.h>

/* All that the pass needs to know of a code. The bounds are multiplied by 256, as the slack of V-31
 * is |w| / 256. */
typedef struct sb_fp8_table {
    double value[256];          /* NaN codes: 0 */
    double low[256], high[256]; /* 256 times halfway to the neighbours below and above */
} sb_fp8_table;

void sb_fp8_fill(sb_fp8_table *table);

/* V-31, one code at a time: whether `code` is a nearest code to weight / scale within the slack;
 * scale > 0. A NaN code is nearest to nothing, but that is another check: 1. */
int sb_fp8_nearest(uint8_t code, double weight, double scale);

#endif
