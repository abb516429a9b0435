/* philox.h - Philox4x32-10: 128 random bits as a pure function of a counter and a key.
 *
 * The generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC
 * 2011), which GPU libraries have, too. The sampler uses it, so that a kernel can draw the same
 * tokens. All data made from a seed uses rng.h. */
#ifndef SB_BASE_PHILOX_H
#define SB_BASE_PHILOX_H

#include <stdint.h>

typedef struct sb_philox {
    uint32_t word[4];
} sb_philox;

sb_philox sb_philox4x32_10(const uint32_t counter[4], const uint32_t key[2]);

#endif
