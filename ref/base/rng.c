#include "ref/base/rng.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string.h>

uint64_t sb_rng_key(uint64_t seed, const char *path)
{
    return XXH3_64bits_withSeed(path, strlen(path), seed);
}

/* A bijection of 64-bit words in which every input bit affects every output bit (constants of
 * Stafford's mix 13). */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* D-4: "mix(mix(key + index * 0x9e3779b97f4a7c15) + key)" */
uint64_t sb_rng_u64(uint64_t key, uint64_t index)
{
    return mix(mix(key + index * 0x9e3779b97f4a7c15u) + key);
}

float sb_rng_uniform(uint64_t key, uint64_t index)
{
    return (float)(sb_rng_u64(key, index) >> 40) * 0x1p-24f;
}

uint32_t sb_rng_below(uint64_t key, uint64_t index, uint32_t n)
{
    return (uint32_t)(((sb_rng_u64(key, index) >> 32) * (uint64_t)n) >> 32);
}

float sb_rng_normal(uint64_t key, uint64_t index)
{
    int64_t sum = -6 * ((int64_t)1 << 21);
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t bits = sb_rng_u64(key, 4 * index + i);
        sum +=
            (int64_t)(bits >> 43) + (int64_t)(bits >> 22 & 0x1fffff) + (int64_t)(bits & 0x1fffff);
    }
    return (float)((double)sum * 0x1p-21);
}
