/* fp8.h - E4M3 codes: their values and the test for a nearest code, both exact, and a fast scan
 * over many of them. */
#ifndef SB_CHECK_FP8_H
#define SB_CHECK_FP8_H

#include <stdint.h>

/* All that the pass needs to know of a code. The bounds are multiplied by 256, because the slack of
 * V-31 is |w| / 256. */
typedef struct sb_fp8_table {
    double value[256];          /* NaN codes: 0 */
    double low[256], high[256]; /* 256 times the midpoints to the neighbours below and above */
} sb_fp8_table;

void sb_fp8_fill(sb_fp8_table *table);

/* V-31 for one code: 1 if `code` is a nearest code to weight / scale within the slack; scale > 0.
 * For a NaN code it returns 1, because another check reports NaN codes. */
int sb_fp8_nearest(uint8_t code, double weight, double scale);

/* --- the fast scan (fp8_fast.c, fp8_avx2.c) --------------------------------------------------- */

enum { SB_FP8_GROUP = 32, SB_FP8_PIECE = 512, SB_FP8_LANES = 16 };

/* The original's weights for the codes: as BF16, or converted to binary32. Both NULL: no
 * original. */
typedef struct sb_fp8_weights {
    const unsigned char *bf16;
    const float *values;
} sb_fp8_weights;

/* A row of codes, split into runs of columns that share a scale; every scale is above 0. A run is
 * scanned in groups of SB_FP8_GROUP columns; the last group may be shorter. */
typedef struct sb_fp8_line {
    const unsigned char *codes;
    sb_fp8_weights weights;
    uint32_t cols, run;    /* columns of the row and of a run; the last run may be shorter */
    const float *scales;   /* one per run */
    const float *inverses; /* 1 / (256 * scale), if there are weights */
    int shape;             /* whether sum and sum4 are needed */
    /* SB_FP8_GROUP per run, by column modulo SB_FP8_GROUP: raised to the largest magnitude code
     * plus 1; unchanged if the largest is a NaN code */
    unsigned char *tops;
    unsigned char *doubts; /* per group, with weights: 0 if every code is certainly a nearest one */
} sb_fp8_line;

/* The results of a row. Within a piece, sums are made in binary32 in SB_FP8_LANES lanes: by column
 * modulo 8, separately for the two halves of each group. Then neighbouring lanes are added, and the
 * pieces are summed in four binary64 numbers. Values are in units of 256, and weights in units of
 * 256 * scale, so that a code is the bits of an F16. If there is a NaN code, the sums mean
 * nothing. */
typedef struct sb_fp8_sums {
    double sum2;
    double sum, sum4;       /* only if the line's `shape` is set */
    double error2, master2; /* only if there are weights */
    uint32_t zeros, doubts; /* number of zero codes, and of groups with a doubt */
    int nan;
    int odd; /* in some run, the sum of the squared weights is out of range (sb_fp8_holds) */
} sb_fp8_sums;

/* 1 if the sum is in the range of binary32. NaN and infinite weights are out of range, and so are
 * weights whose squares underflow. */
static inline int sb_fp8_holds(double master2)
{
    return master2 >= 0x1p-90 && master2 <= 0x1p120;
}

/* The largest allowed difference between the bits of the binary32 quotient and those of a code's
 * value: half a step of E4M3 (2^19), plus 2^15, which is at most |t| / 256, minus the rounding
 * errors of the quotient. Below the least normal code, steps are wider than this, never
 * narrower. */
#define SB_FP8_REACH ((1u << 19) + (1u << 15) - 64)

/* Both versions give the same bits. */
typedef void sb_fp8_look_fn(const sb_fp8_line *line, sb_fp8_sums *out);
sb_fp8_look_fn sb_fp8_look_plain;
sb_fp8_look_fn sb_fp8_look_avx2; /* needs AVX2, FMA and F16C */

/* The faster version that this machine supports. Call it once per panel. */
sb_fp8_look_fn *sb_fp8_look(void);

#endif
