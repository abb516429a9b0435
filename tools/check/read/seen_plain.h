/* seen_plain.h - what the payload pass keeps of one matrix of floats without scales. */
#ifndef SB_CHECK_SEEN_PLAIN_H
#define SB_CHECK_SEEN_PLAIN_H

#include <stdint.h>

/* An element, and its bits. */
typedef struct sb_spot {
    uint32_t row, col, bits;
} sb_spot;

typedef struct sb_seen_plain {
    uint64_t nans, infinities; /* V-12 */
    uint64_t saturated;        /* F16 values of the largest magnitude */
    sb_spot bad;               /* the first NaN or infinity, else the first saturated one */
    int has_bad;
    uint64_t compared;  /* V-14: values compared with the original, which is plain, too */
    uint64_t differing; /* of these, those with other bits, or another value if the dtypes differ */
    /* of these, those that differ from the original's value rounded to this dtype */
    uint64_t unrounded;
    uint64_t far;  /* of these, those that differ by more than a rounding to BF16 */
    sb_spot first; /* the first differing one; first_master: the original's bits there */
    uint32_t first_master;
    /* V-40: number of samples, and number of samples with no more values than a narrow format
     * has */
    uint32_t blocks, narrow_blocks; /* blocks of 128 x 128 */
    uint32_t lines, narrow_lines;   /* rows */
    uint32_t fours, narrow_fours;   /* rows as groups of 16 and 32 */
    uint32_t most;                  /* largest number of distinct magnitudes in a block */
} sb_seen_plain;

#endif
