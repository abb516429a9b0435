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

enum { SB_FP8_GROUP = 32, SB_FP8_PIECE = 512, SB_FP8_LANES = 16 };

/* Weights beside codes: as BF16, as originals are, or made binary32. Both NULL: none. */
typedef struct sb_fp8_weights {
    const unsigned char *bf16;
    const float *values;
} sb_fp8_weights;

/* A row of codes in runs of columns that share a scale, each a number above 0. A run is looked at
 * in groups of SB_FP8_GROUP columns, of which the last one may be shorter. */
typedef struct sb_fp8_line {
    const unsigned char *codes;
    sb_fp8_weights weights;
    uint32_t cols, run;    /* the last run may be shorter */
    const float *scales;   /* of each run */
    const float *inverses; /* 1 / (256 times the scale), with weights */
    int shape;             /* whether sum and sum4 are asked for */
    unsigned char *tops;   /* SB_FP8_GROUP of each run: the larger of what stands there and one more
                            * than the code without its sign, by column modulo SB_FP8_GROUP; where
                            * the run has a NaN code it is below all */
    unsigned char
        *doubts; /* of each group, with weights: not 0 where a code may not be a nearest */
} sb_fp8_line;

/* What a row comes to. Sums are made in binary32 by column of a piece modulo 8 and half of its
 * group, SB_FP8_LANES of them, then of two neighbours; of pieces in binary64, four of them; values
 * and weights are in units of 256, and of 256 times the scale, so that codes are the bits of an
 * F16. Where there is a NaN code they say nothing. */
typedef struct sb_fp8_sums {
    double sum2;
    double sum, sum4;       /* where they are asked for */
    double error2, master2; /* with weights */
    uint32_t zeros, doubts; /* codes, groups */
    int nan;
    int odd; /* the squares of the weights of a run are not what binary32 holds */
} sb_fp8_sums;

/* Whether they are; NaN and infinite weights are not, and such whose squares vanish. */
static inline int sb_fp8_holds(double master2)
{
    return master2 >= 0x1p-90 && master2 <= 0x1p120;
}

/* How far the bits of the quotient in binary32 may be from those of a code's value: half a step of
 * E4M3 (2^19), and 2^15, which is at most |t| / 256, less what roundings of the quotient do. Below
 * the least normal code steps are wider than this, and never narrower. */
#define SB_FP8_REACH ((1u << 19) + (1u << 15) - 64)

/* Both give the same bits. */
typedef void sb_fp8_look_fn(const sb_fp8_line *line, sb_fp8_sums *out);
sb_fp8_look_fn sb_fp8_look_plain;
sb_fp8_look_fn sb_fp8_look_avx2; /* on a machine with AVX2, FMA and F16C */

/* The faster one of those that this machine has. To be asked once per panel. */
sb_fp8_look_fn *sb_fp8_look(void);

#endif
