/* flip_codes.h - decides by the definition, from the bytes, whether a flipped code is still a
 * nearest one. */
#ifndef SB_TESTS_CHECK_FLIP_CODES_H
#define SB_TESTS_CHECK_FLIP_CODES_H

#include "ref/container/checkpoint.h"

/* True if the code is still nearest after bit `bit` of `tensor` has flipped: the codes of a layer
 * in NVFP4 or in FP8 blocks of 128 x 128. A code is nearest if some number within |t| 2^-8 of t,
 * the original's weight over the scale, rounds to it. +0 and -0 are one code. Under a scale of 0
 * every code is nearest. */
int flip_stays_nearest(const sb_checkpoint *c, const sb_checkpoint *original, const char *tensor,
                       uint64_t bit);

#endif
