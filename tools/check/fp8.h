/* fp8.h - what is exact about E4M3 codes: their values, and which code is a nearest one; and what a
 * fast look at many of them gives. */
#ifndef SB_CHECK_FP8_H
#define SB_CHECK_FP8_H

#include <stdint.h>

/* All that the pass needs to know of a code. The bounds are multiplied by 256, as the slack of V-31
 * is |w| / 256. */
typedef struct sb_fp8_table {
    double value[256];          /* NaN codes: 0 */
    double low[256], high[256]; /* 256 times halfway to the neighbours below and above */
} sb_fp8_table;

void sb_fp8_fill(sb_fp8_table *table);

/* V-31, one code at a time: whether `code` is a nearest code to weight / scale within the slack;
 * scale > 0. A NaN code is nearest to nothing, but that is another check: 1. */
int sb_fp8_nearest(uint8_t code, double weight, double scale);

/* --- the fast look (fp8_fast.c, fp8_avx2.c) --------------------------------------------------- */

enum { SB_FP8_GROUP = 32, SB_FP8_PIECE = 512, SB_FP8_LANES = 8 };

/* Of up to SB_FP8_PIECE codes, by position modulo SB_FP8_LANES; values and weights are in units of
 * 256, and of 256 times the scale, so that codes are the bits of an F16. NaN codes count as 480. */
typedef struct sb_fp8_lanes {
    float sum[SB_FP8_LANES], sum2[SB_FP8_LANES], sum4[SB_FP8_LANES];
    float error2[SB_FP8_LANES], master2[SB_FP8_LANES]; /* with weights */
    uint32_t zeros;
    uint32_t doubts;   /* a bit for each group in which a code may not be a nearest one */
    unsigned char top; /* the largest code without its sign */
} sb_fp8_lanes;

/* How far the bits of the quotient in binary32 may be from those of a code's value: half a step of
 * E4M3 (2^19), and 2^15, which is at most |t| / 256, less what roundings of the quotient do. Below
 * the least normal code steps are wider than this, and never narrower. */
#define SB_FP8_REACH ((1u << 19) + (1u << 15) - 64)

/* `groups` times SB_FP8_GROUP codes; weights: as many, or NULL; inverse: 1 / (256 times the scale).
 * Both give the same bits. */
typedef void sb_fp8_look_fn(const unsigned char *codes, const float *weights, unsigned groups,
                            float inverse, sb_fp8_lanes *out);
sb_fp8_look_fn sb_fp8_look_plain;
sb_fp8_look_fn sb_fp8_look_avx2; /* on a machine with AVX2 and F16C */

/* The faster one of those that this machine has. To be asked once per panel. */
sb_fp8_look_fn *sb_fp8_look(void);

#endif
