/* compensated.h - sums whose rounding errors are kept: what decides a reduction whose binary64 sum
 * does not, ties included, before exact.h has to. */
#ifndef SB_DOT_COMPENSATED_H
#define SB_DOT_COMPENSATED_H

#include <stddef.h>

#include "ref/math/exact.h"

/* sum + errors + rest is the sum of n products, but for an error that sb_compensated_round knows
 * from n and `size`: rest was rounded at each addition, and size is the sum of its terms'
 * magnitudes. */
typedef struct sb_compensated {
    double sum, errors, rest, size;
} sb_compensated;

/* Adds n products of values as sb_exact_add_wide_product takes them; portable. NaN and infinity
 * make the sum NaN or infinite. */
void sb_compensated_add(sb_compensated *to, const double *a, const double *b, size_t n);

/* One term more, which is exact. */
void sb_compensated_join(sb_compensated *to, double term);

/* Nonzero, and *rounded set, if RN32( sum of n products * factor ) is certain. */
int sb_compensated_round(const sb_compensated *from, size_t n, const sb_scalar *factor,
                         float *rounded);

#endif
