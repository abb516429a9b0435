/* exact.h - THE definition of every reduction in samebit, without optimizations.
 *
 * A wide fixed-point accumulator in integers: every product of two float32 values is added without
 * rounding, and the exact sum is rounded once, to nearest, ties to even. No order of the terms, no
 * blocking and no machine can change the result. All faster paths must return the same bits. */
#ifndef SB_MATH_EXACT_H
#define SB_MATH_EXACT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Digit d has the unit 2^(32*d - SB_EXACT_BIAS) and holds 32 bits of magnitude plus the carries of
 * up to 2^30 additions. Products of two float32 span 2^-298 .. 2^256, which leaves ample room on
 * both sides. */
enum { SB_EXACT_DIGITS = 32, SB_EXACT_BIAS = 512 };

typedef struct sb_exact {
    int64_t digit[SB_EXACT_DIGITS];
    uint32_t pending; /* additions since the last resolution of carries */
    int poisoned;     /* a NaN or an infinity was added: the result is the canonical NaN */
} sb_exact;

void sb_exact_clear(sb_exact *acc);
void sb_exact_add(sb_exact *acc, float a);                  /* + a */
void sb_exact_add_product(sb_exact *acc, float a, float b); /* + a*b */

/* The exact sum rounded to binary32, ties to even: a zero sum gives +0, a nonzero sum that rounds
 * to zero keeps its sign, an overflow gives an infinity, and a poisoned sum gives 0x7fc00000. */
float sb_exact_round(const sb_exact *acc);

/* + a*b for two binary64 values with significands of at most 32 bits and exponents within -170 ..
 * 160. All stored weights and quantized activations are such values. Any other value poisons
 * the sum. */
void sb_exact_add_wide_product(sb_exact *acc, double a, double b);

/* The factors of a whole sum: mul[0] mul[1] / (div[0] div[1]). A missing factor is 1. All are
 * finite, and no divisor is 0. */
typedef struct sb_scalar {
    float mul[2], div[2];
} sb_scalar;
#define SB_SCALAR_ONE                                                                              \
    {                                                                                              \
        {1.0f, 1.0f},                                                                              \
        {                                                                                          \
            1.0f, 1.0f                                                                             \
        }                                                                                          \
    }

/* RN32( exact sum * mul[0] * mul[1] / (div[0] * div[1]) ), rounded once. */
float sb_exact_round_scaled(const sb_exact *acc, const sb_scalar *scalar);

/* RN32( sum_i a[i*stride_a] * b[i*stride_b] ): the dot product in its readable form. n may be 0
 * (+0). */
float sb_exact_dot(const float *a, size_t stride_a, const float *b, size_t stride_b, size_t n);

/* RN32( sum_i a[i*stride] ) */
float sb_exact_sum(const float *a, size_t stride, size_t n);

#ifdef __cplusplus
}
#endif

#endif
