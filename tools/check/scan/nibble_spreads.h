/* nibble_spreads.h - variances of groups of 16 E2M1 codes (nibble_spreads.c,
 * nibble_spreads_avx2.c). */
#ifndef SB_CHECK_NIBBLE_SPREADS_H
#define SB_CHECK_NIBBLE_SPREADS_H

#include "tools/check/scan/kendall.h"

/* A key for each of n <= SB_FIT_WINDOW groups: the variance of its codes times 32^2, minus 2^15. A
 * group is 8 bytes, little endian. Both versions give the same keys. */
typedef void sb_spreads_fn(const uint64_t codes[SB_FIT_WINDOW], unsigned n, sb_fit_keys keys);
sb_spreads_fn sb_spreads_plain;
sb_spreads_fn sb_spreads_avx2; /* needs AVX2 */

/* The faster version that this machine supports. */
sb_spreads_fn *sb_spreads(void);

#endif
