/* near.h - the distance of two rows of logits, and whether rounding could have changed a choice
 * between tokens. */
#ifndef SB_COMPARE_NEAR_H
#define SB_COMPARE_NEAR_H

#include <stddef.h>
#include <stdint.h>

/* The largest of n logits, and its distance to the second. */
typedef struct sb_near_top {
    uint32_t token;
    double margin; /* infinity if n is 1 */
} sb_near_top;
sb_near_top sb_near_top_of(const float *logits, size_t n);

/* Two rows, element by element. */
typedef struct sb_near_difference {
    int identical;  /* every bit */
    int finite;     /* no NaN and no infinity in b */
    int constant;   /* all values of b are equal */
    double largest; /* |a - b|; infinity if b is not finite */
    size_t at;      /* index of `largest` */
} sb_near_difference;
sb_near_difference sb_near_compare(const float *a, const float *b, size_t n);

/* log( sum( exp(x) ) ) */
double sb_near_log_sum(const float *logits, size_t n);

/* T-45: "sum( p (log p - log q) )" in nats, p from `a` and q from `b`. */
double sb_near_kl(const float *a, const float *b, size_t n);

/* T-44: the largest change of the distance of two logits of one row, each with an error of up to
 * `bound`. */
double sb_near_pair(double bound);

#endif
