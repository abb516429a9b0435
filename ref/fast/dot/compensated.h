/* compensated.h - sums whose rounding errors are kept: what decides a reduction whose binary64 sum
 * does not, ties included, before exact.h has to. */
#ifndef SB_DOT_COMPENSATED_H
#define SB_DOT_COMPENSATED_H

#include <stddef.h>

#include "ref/math/exact.h"

/* sum + errors + rest is the sum of n products, but for an error that sb_kept_round knows from n
 * and `size`: rest was rounded at each addition, and size is the sum of its terms' magnitudes. */
typedef struct sb_kept {
    double sum, errors, rest, size;
} sb_kept;

/* Adds n products of values as sb_exact_add_wide_product takes them; portable. NaN and infinity
 * make the sum NaN or infinite. */
void sb_kept_add(sb_kept *to, const double *a, const double *b, size_t n);

/* One term more, which is exact. */
void sb_kept_join(sb_kept *to, double term);

/* Nonzero, and *rounded set, if RN32( sum of n products * factor ) is certain. */
int sb_kept_round(const sb_kept *from, size_t n, const sb_scalar *factor, float *rounded);

#endif
