/* bf16.h - sums of many BF16 numbers at once (bf16_fast.c, bf16_avx2.c). */
#ifndef SB_CHECK_BF16_H
#define SB_CHECK_BF16_H

#include <stdint.h>

enum { SB_BF16_PIECE = 1024, SB_BF16_STEP = 16 };

/* Of up to SB_BF16_PIECE numbers. Sums are made in binary32 in lanes, those of numbers at even
 * positions, modulo 16, in the first eight, of the others in the last eight, and folded in binary64
 * by sb_bf16_fold(). */
typedef struct sb_bf16_sums {
    double sum2;
    double sum, sum4; /* 0 unless they are asked for */
    uint32_t zeros;
    uint16_t
        top; /* the largest magnitude's bits: from 0x7f80 on there is something infinite or NaN */
} sb_bf16_sums;

/* By halves. */
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

/* Whether the sums are sums: no fourth power of what matters has left binary32. */
static inline int sb_bf16_fits(const sb_bf16_sums *l)
{
    return l->top == 0 || (l->top >= 0x3580 && l->top <= 0x4b80); /* 2^-20 to 2^24 */
}

/* `steps` times SB_BF16_STEP numbers; shape: whether sum and sum4 are asked for. Both give the same
 * bits. */
typedef void sb_bf16_look_fn(const unsigned char *bytes, unsigned steps, int shape,
                             sb_bf16_sums *out);
sb_bf16_look_fn sb_bf16_look_plain;
sb_bf16_look_fn sb_bf16_look_avx2; /* on a machine with AVX2 */

/* The faster one of those that this machine has. */
sb_bf16_look_fn *sb_bf16_look(void);

#endif
