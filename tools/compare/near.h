/* near.h - two rows of logits: how far apart they are, and whether a choice between tokens is one
 * that rounding could have made the other way. */
#ifndef SB_COMPARE_NEAR_H
#define SB_COMPARE_NEAR_H

#include <stddef.h>
#include <stdint.h>

/* The largest of n logits, and how far it stands above the second. */
typedef struct sb_near_top {
    uint32_t token;
    double margin; /* infinity if n is 1 */
} sb_near_top;
sb_near_top sb_near_top_of(const float *logits, size_t n);

/* Two rows, element by element. */
typedef struct sb_near_difference {
    int identical;  /* every bit */
    int finite;     /* no NaN and no infinity in b */
    int constant;   /* all of b is one value */
    double largest; /* of |a - b|; infinity if b is not finite */
    size_t at;      /* where */
} sb_near_difference;
sb_near_difference sb_near_compare(const float *a, const float *b, size_t n);

/* log( sum( exp(x) ) ) */
double sb_near_log_sum(const float *logits, size_t n);

/* T-45: "sum( p (log p - log q) )" in nats, p from `a` and q from `b`. */
double sb_near_kl(const float *a, const float *b, size_t n);

/* T-44: how far two logits of one row may come together or part, where each may move by `bound`. */
double sb_near_pair(double bound);

#endif
