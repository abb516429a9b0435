/* bf16.h - sums of many BF16 numbers at once (bf16_fast.c, bf16_avx2.c). */
#ifndef SB_CHECK_BF16_H
#define SB_CHECK_BF16_H

#include <stdint.h>

enum { SB_BF16_PIECE = 1024, SB_BF16_STEP = 16 };

/* Of up to SB_BF16_PIECE numbers: those at even positions, modulo 16, in the first eight lanes, the
 * others in the last eight. */
typedef struct sb_bf16_lanes {
    float sum[SB_BF16_STEP], sum2[SB_BF16_STEP], sum4[SB_BF16_STEP];
    uint32_t zeros;
    uint16_t
        top; /* the largest magnitude's bits: from 0x7f80 on there is something infinite or NaN */
} sb_bf16_lanes;

/* Whether the sums are sums: no fourth power of what matters has left binary32. */
static inline int sb_bf16_fits(const sb_bf16_lanes *l)
{
    return l->top == 0 || (l->top >= 0x3580 && l->top <= 0x4b80); /* 2^-20 to 2^24 */
}

/* `steps` times SB_BF16_STEP numbers. Both give the same bits. */
typedef void sb_bf16_look_fn(const unsigned char *bytes, unsigned steps, sb_bf16_lanes *out);
sb_bf16_look_fn sb_bf16_look_plain;
sb_bf16_look_fn sb_bf16_look_avx2; /* on a machine with AVX2 */

/* The faster one of those that this machine has. */
sb_bf16_look_fn *sb_bf16_look(void);

#endif
