/* superacc.h - exact sums of many products, as exact.h defines them, in fewer steps. Every product
 * is added to one of a few 128-bit integers, which are finally added to an sb_exact. */
#ifndef SB_DOT_SUPERACC_H
#define SB_DOT_SUPERACC_H

#include "ref/math/exact.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SB_SUPERACC_WORDS = 26 };

/* Bin d has the unit 2^(32 d - SB_EXACT_BIAS), in two's complement. */
typedef struct sb_superacc {
    uint64_t low[SB_SUPERACC_WORDS], high[SB_SUPERACC_WORDS];
    uint64_t outside; /* nonzero: some value was not a valid operand of sb_exact_add_wide_product */
} sb_superacc;

/* Adds n products to bins that began as zeros; bins can take fewer than 2^30 products. */
void sb_superacc_add(sb_superacc *to, const double *a, const double *b, size_t n);

/* Adds one double of up to 53 bits. */
void sb_superacc_add_part(sb_superacc *to, double part);

void sb_superacc_sum(const sb_superacc *from, sb_exact *sum);

/* A superaccumulator in binary64, in several lanes. A lane has a few levels. A level always stays
 * between 2^k and 2^(k+1). It absorbs the part of a term that is a multiple of the level's ulp, and
 * passes the rest, at most half an ulp, to the next level. If the last level passes nothing on, the
 * sum of a lane is the sum of its levels minus their start values, and all of this is exact. The
 * sum of four lanes of a level is also exact: it is less than 2^(k+1) and a multiple of
 * 2^(k-52). */
enum { SB_LEVELS_FEW = 6, SB_LEVELS = 8, SB_PARTS = 2 * SB_LEVELS };

/* Sets the start values of levels for n terms of at most `largest`. The levels from the second on
 * also have room for n errors of products. Returns 0 if there are no suitable values. */
int sb_levels_start(double largest, size_t n, double start[SB_LEVELS]);

#ifdef __cplusplus
}
#endif

#endif
