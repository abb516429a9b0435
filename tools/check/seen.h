/* seen.h - what one pass over the bytes of a matrix leaves behind, for checks that compare units.
 *
 * Small: a checkpoint has 10^5 of them. */
#ifndef SB_CHECK_SEEN_H
#define SB_CHECK_SEEN_H

#include <stdint.h>

#include "ref/base/hash.h"
#include "tools/check/places.h"
#include "tools/check/seen_fit.h"
#include "tools/check/seen_fp4.h"
#include "tools/check/seen_fp8.h"
#include "tools/check/seen_int.h"
#include "tools/check/seen_plain.h"

/* Of the values that a matrix means (code x scale x factor), in double. */
typedef struct sb_moments {
    uint64_t count; /* of finite values */
    uint64_t zeros; /* of them */
    double sum2;
    double sum, sum4; /* where they are asked for: sb_asks_shape() */
    double largest;   /* magnitude */
} sb_moments;

/* Against the original. */
typedef struct sb_distance {
    uint64_t count;
    double error2, master2; /* sums of (value - original)^2 and original^2 */
} sb_distance;

typedef struct sb_seen {
    int done;    /* all rows have been seen */
    int matched; /* each beside the original's */
    uint64_t rows, cols;
    uint64_t zero_rows;                  /* rows of which every value is 0 */
    uint64_t zero_run, zero_run_first;   /* the longest run of them, and its first row */
    uint32_t zero_cols, zero_cols_first; /* the longest run of zero columns, on sampled rows */
    uint32_t column_votes;               /* of them, those that are not zero */
    uint64_t row, run; /* scratch of the pass: the next row, and zero rows right before it */
    sb_moments moments;
    sb_distance distance;
    int has_distance;
    int lone_apart; /* exponents that the first of them is away */
    sb_places lone; /* V-154: block scales that are unlike those of their row and column */
    sb_fit fit;     /* V-155, of quantized matrices */
    unsigned signs; /* V-42, of floats and FP8: 1 above zero, 2 below, 3 both */
    union {
        sb_seen_fp4 fp4;
        sb_seen_fp8 fp8;
        sb_seen_int ints;
        sb_seen_plain plain;
    };
} sb_seen;

#endif
