/* seen_plain.h - what the payload pass keeps of one matrix: the part of its format. */
#ifndef SB_CHECK_SEEN_PLAIN_H
#define SB_CHECK_SEEN_PLAIN_H

#include <stdint.h>

/* An element, and the bits that stand there. */
typedef struct sb_spot {
    uint32_t row, col, bits;
} sb_spot;

typedef struct sb_seen_plain {
    uint64_t nans, infinities; /* V-12 */
    uint64_t saturated;        /* F16 of the largest magnitude */
    sb_spot bad;               /* the first NaN or infinity, else the first saturated one */
    int has_bad;
    uint64_t compared;  /* V-14: with the original, which is plain, too */
    uint64_t differing; /* of them, in their bits, or in value if the dtypes differ */
    uint64_t unrounded; /* of them, from the original's value rounded to this dtype */
    uint64_t far;       /* of them, by more than BF16 rounds */
    sb_spot first;      /* the first differing one, and what the original has there */
    uint32_t first_master;
    /* V-40: samples, and how many of them have no more values than a narrow format has */
    uint32_t blocks, narrow_blocks; /* of 128 x 128 */
    uint32_t lines, narrow_lines;   /* rows */
    uint32_t fours, narrow_fours;   /* rows as groups of 16 and 32 */
    uint32_t most;                  /* distinct magnitudes of any block */
} sb_seen_plain;

#endif
