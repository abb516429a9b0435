/* seen_fp4.h - what the payload pass keeps of one matrix of E2M1 codes: NVFP4 and MXFP4. */
#ifndef SB_CHECK_SEEN_FP4_H
#define SB_CHECK_SEEN_FP4_H

#include <stdint.h>

/* How often something occurred, and the first place. */
typedef struct sb_fp4_places {
    uint32_t count, row, block;
} sb_fp4_places;

enum { SB_FP4_LISTED = 10 };

/* An element whose code is not a nearest one. column_code: column * 16 + code. */
typedef struct sb_fp4_wrong {
    uint32_t row, column_code;
    float original;
} sb_fp4_wrong;

/* The formulas that block scales are compared with (V-25). */
typedef enum sb_fp4_formula {
    SB_FP4_ct,
    SB_FP4_modelopt,
    SB_FP4_four_over_six,
    SB_FP4_FORMULAS
} sb_fp4_formula;

typedef struct sb_seen_fp4 {
    uint64_t magnitude[8]; /* by magnitude, sign ignored; once `few` is set, only of 0 */
    uint64_t negative;     /* codes 9 to 15 */
    uint64_t minus_zero;   /* code 8 */
    uint64_t wrong;        /* V-23: elements whose code is not a nearest one */
    uint64_t compared;     /* elements compared with the original */
    uint32_t blocks, zero_blocks;
    uint32_t fours; /* blocks whose largest code is 6, the value 4 */
    uint32_t lower; /* blocks whose largest code is smaller than 6 */
    /* V-19: blocks to which the rule applies, without a code of magnitude 7 */
    sb_fp4_places not_six;
    sb_fp4_places not_four;    /* of these, blocks without a code of magnitude 6 */
    sb_fp4_places nan_scale;   /* V-15 */
    sb_fp4_places minus_scale; /* V-15 */
    sb_fp4_places vanished;    /* V-15: codes under a zero scale */
    sb_fp4_places lost;        /* V-21: all-zero blocks under a scale that only other blocks get */
    sb_fp4_places died;        /* V-21: rows of zeros that the original does not have */
    sb_fp4_places flushed;     /* scales below 2^-6 in blocks with nonzero codes */
    sb_fp4_places off[SB_FP4_FORMULAS]; /* V-25: block scales that differ from the formula's */
    uint32_t far[SB_FP4_FORMULAS];      /* of these, those that differ by more than one code */
    uint32_t scales_compared;
    uint32_t zero_bytes;   /* V-22: bit i: an all-zero block has scale byte i of the conventions */
    uint8_t lost_byte;     /* the scale byte of the lost blocks, if all have the same */
    uint8_t lost_mixed;    /* the lost blocks have different scale bytes */
    uint8_t largest_scale; /* V-18 */
    uint8_t has_master;
    uint8_t few;          /* every code has occurred, and since then only some are counted */
    uint8_t nearest;      /* V-23 applies: plain original, no producer that rounds otherwise */
    float master_largest; /* largest magnitude in the original */
    sb_fp4_wrong first[SB_FP4_LISTED];
} sb_seen_fp4;

#endif
