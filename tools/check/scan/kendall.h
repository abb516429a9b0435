/* kendall.h - Kendall's statistic for a few items (kendall.c, kendall_avx2.c). */
#ifndef SB_CHECK_KENDALL_H
#define SB_CHECK_KENDALL_H

#include <stdint.h>

/* The keys of one quantity of the items. Only the order of the keys counts. */
enum { SB_FIT_WINDOW = 64 };
typedef int16_t sb_fit_keys[SB_FIT_WINDOW];

/* Among the pairs of n <= SB_FIT_WINDOW items: the number that x and y order alike minus the number
 * that they order oppositely. Adds to *ranked the number of pairs with different x. Both versions
 * give the same result. */
typedef int64_t sb_kendall_fn(const sb_fit_keys x, const sb_fit_keys y, unsigned n,
                              uint64_t *ranked);
sb_kendall_fn sb_kendall_plain;
sb_kendall_fn sb_kendall_avx2; /* needs AVX2 */

/* The faster version that this machine supports. */
sb_kendall_fn *sb_kendall(void);

#endif
