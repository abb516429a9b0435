/* seen.h - what one pass over the bytes of a matrix keeps, for checks that compare units.
 *
 * sb_seen is kept small, because a checkpoint has 10^5 matrices. */
#ifndef SB_CHECK_SEEN_H
#define SB_CHECK_SEEN_H

#include <stdint.h>

#include "ref/base/hash.h"
#include "tools/check/read/places.h"
#include "tools/check/read/seen_fit.h"
#include "tools/check/read/seen_fp4.h"
#include "tools/check/read/seen_fp8.h"
#include "tools/check/read/seen_int.h"
#include "tools/check/read/seen_plain.h"

/* The values that a matrix represents (code x scale x factor), in double. */
typedef struct sb_moments {
    uint64_t count; /* number of finite values */
    uint64_t zeros; /* number of zeros among them */
    double sum2;
    double sum, sum4; /* 0 unless sb_asks_shape() is 1 for the unit */
    double largest;   /* largest magnitude */
} sb_moments;

/* Distance to the original. */
typedef struct sb_distance {
    uint64_t count;
    double error2, master2; /* sums of (value - original)^2 and original^2 */
} sb_distance;

typedef struct sb_seen {
    int done;    /* all rows have been seen */
    int matched; /* each row was compared with the original's */
    uint64_t rows, cols;
    uint64_t zero_rows;                  /* rows with only zeros */
    uint64_t zero_run, zero_run_first;   /* the longest run of such rows, and its first row */
    uint32_t zero_cols, zero_cols_first; /* the longest run of zero columns, on sampled rows */
    uint32_t column_votes;               /* sampled rows that are not all zero */
    /* scratch of the pass: the next row, and the number of zero rows directly before it */
    uint64_t row, run;
    sb_moments moments;
    sb_distance distance;
    int has_distance;
    int lone_apart; /* the error of the first lone scale, in powers of two */
    sb_places lone; /* V-154: block scales unlike those of their row and column */
    sb_fit fit;     /* V-155, for quantized matrices */
    unsigned signs; /* V-42, for floats and FP8: 1 values above zero, 2 below, 3 both */
    /* V-42: numbers with the largest magnitude, and numbers of panels with random exponents */
    uint64_t cut, strayed;
    union {
        sb_seen_fp4 fp4;
        sb_seen_fp8 fp8;
        sb_seen_int ints;
        sb_seen_plain plain;
    };
} sb_seen;

#endif
