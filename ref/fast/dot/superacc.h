/* superacc.h - exact sums of many products, as exact.h defines them, in fewer steps: every product
 * is added to one of a few integers of 128 bits, and these go into an sb_exact at last. */
#ifndef SB_DOT_SUPERACC_H
#define SB_DOT_SUPERACC_H

#include "ref/math/exact.h"

enum { SB_SUPERACC_WORDS = 26 };

/* Bin d counts in units of 2^(32 d - SB_EXACT_BIAS), in two's complement. */
typedef struct sb_superacc {
    uint64_t low[SB_SUPERACC_WORDS], high[SB_SUPERACC_WORDS];
    uint64_t outside; /* nonzero: a value was none that sb_exact_add_wide_product takes */
} sb_superacc;

/* Adds n products to bins that began as zeros; fewer than 2^30 in all. */
void sb_superacc_add(sb_superacc *to, const double *a, const double *b, size_t n);

/* Adds a double itself: of at most 53 bits. */
void sb_superacc_add_part(sb_superacc *to, double part);

void sb_superacc_sum(const sb_superacc *from, sb_exact *sum);

/* The same in binary64, in several lanes. A lane has a few levels, each a number from 2^k to
 * 2^(k+1) all the time, which takes of a term what is a multiple of its last place and leaves the
 * rest, of half a place at most, to the next level. So the sum of a lane is that of its levels,
 * less what they began with, if the last one leaves nothing: all of which is exact. So is the sum
 * of four lanes of a level: less than 2^(k+1), and a multiple of 2^(k-52). */
enum { SB_LEVELS_FEW = 6, SB_LEVELS = 8, SB_PARTS = 2 * SB_LEVELS };

/* What levels begin with that take n terms of at most `largest`, and from the second on n errors of
 * them; 0 if there is nothing that would do. */
int sb_levels_start(double largest, size_t n, double start[SB_LEVELS]);

#endif
