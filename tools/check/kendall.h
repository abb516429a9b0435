/* kendall.h - Kendall's statistic of few things (kendall.c, kendall_avx2.c). */
#ifndef SB_CHECK_KENDALL_H
#define SB_CHECK_KENDALL_H

#include <stdint.h>

/* Things by one quantity: only their order counts. */
enum { SB_FIT_WINDOW = 64 };
typedef int16_t sb_fit_keys[SB_FIT_WINDOW];

/* Of the pairs of n <= SB_FIT_WINDOW things, those that x and y order alike less those that they do
 * not; *ranked grows by those that x orders. Both give the same. */
typedef int64_t sb_kendall_fn(const sb_fit_keys x, const sb_fit_keys y, unsigned n,
                              uint64_t *ranked);
sb_kendall_fn sb_kendall_plain;
sb_kendall_fn sb_kendall_avx2; /* on a machine with AVX2 */

/* The faster one of those that this machine has. */
sb_kendall_fn *sb_kendall(void);

#endif
