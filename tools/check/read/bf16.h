/* bf16.h - sums of many BF16 numbers at once (bf16_fast.c, bf16_avx2.c). */
#ifndef SB_CHECK_BF16_H
#define SB_CHECK_BF16_H

#include <stdint.h>

enum { SB_BF16_PIECE = 1024, SB_BF16_STEP = 16 };

/* Sums of up to SB_BF16_PIECE numbers. They are made in binary32 in lanes: the first eight lanes
 * for numbers at even positions modulo 16, the last eight for the others. sb_bf16_fold() adds the
 * lanes in binary64. */
typedef struct sb_bf16_sums {
    double sum2;
    double sum, sum4; /* 0 if `shape` is 0 */
    uint32_t zeros;
    uint16_t top; /* bits of the largest magnitude; 0x7f80 or more: an infinity or a NaN */
} sb_bf16_sums;

/* Adds the upper half of the lanes to the lower half, until one lane is left. */
static inline double sb_bf16_fold(const float lanes[SB_BF16_STEP])
{
    double sums[SB_BF16_STEP];
    for (unsigned i = 0; i < SB_BF16_STEP; i++)
        sums[i] = (double)lanes[i];
    for (unsigned half = SB_BF16_STEP / 2; half; half /= 2)
        for (unsigned i = 0; i < half; i++)
            sums[i] += sums[i + half];
    return sums[0];
}

/* 1 if the sums are valid: no relevant fourth power was outside of the range of binary32. */
static inline int sb_bf16_fits(const sb_bf16_sums *l)
{
    return l->top == 0 || (l->top >= 0x3580 && l->top <= 0x4b80); /* 2^-20 to 2^24 */
}

/* Takes steps * SB_BF16_STEP numbers; shape: whether sum and sum4 are needed. Both versions give
 * the same bits. */
typedef void sb_bf16_look_fn(const unsigned char *bytes, unsigned steps, int shape,
                             sb_bf16_sums *out);
sb_bf16_look_fn sb_bf16_look_plain;
sb_bf16_look_fn sb_bf16_look_avx2; /* needs AVX2 */

/* The faster version that this machine supports. */
sb_bf16_look_fn *sb_bf16_look(void);

#endif
