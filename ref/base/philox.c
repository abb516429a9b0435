#include "ref/base/philox.h"

enum { ROUNDS = 10 };

/* The multipliers of a round, and the increments of the key after each round. The increments are
 * the fractional parts of the golden ratio and of the square root of 3, in 32 bits. */
static const uint32_t MULTIPLIER[2] = {0xd2511f53u, 0xcd9e8d57u};
static const uint32_t KEY_STEP[2] = {0x9e3779b9u, 0xbb67ae85u};

static sb_philox one_round(sb_philox c, const uint32_t key[2])
{
    uint64_t a = (uint64_t)MULTIPLIER[0] * c.word[0];
    uint64_t b = (uint64_t)MULTIPLIER[1] * c.word[2];
    return (sb_philox){{(uint32_t)(b >> 32) ^ c.word[1] ^ key[0], (uint32_t)b,
                        (uint32_t)(a >> 32) ^ c.word[3] ^ key[1], (uint32_t)a}};
}

sb_philox sb_philox4x32_10(const uint32_t counter[4], const uint32_t key[2])
{
    sb_philox c = {{counter[0], counter[1], counter[2], counter[3]}};
    uint32_t k[2] = {key[0], key[1]};
    for (int round = 0; round < ROUNDS; round++) {
        c = one_round(c, k);
        k[0] += KEY_STEP[0];
        k[1] += KEY_STEP[1];
    }
    return c;
}
