/* flip_codes.h - whether a flipped code is still a nearest one: from the bytes, by the definition.
 */
#ifndef SB_TESTS_CHECK_FLIP_CODES_H
#define SB_TESTS_CHECK_FLIP_CODES_H

#include "ref/container/checkpoint.h"

/* Bit `bit` of the codes of an NVFP4 layer, or of one in FP8 blocks of 128 x 128. A code is nearest
 * if some number within |t| 2^-8 of t, the original's weight over the scale, rounds to it. +0 and
 * -0 are one code, and under a scale of 0 all are. */
int flip_stays_nearest(const sb_checkpoint *c, const sb_checkpoint *original, const char *tensor,
                       uint64_t bit);

#endif
