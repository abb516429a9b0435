/* rng.h - random numbers without generator state.
 *
 * A value is a pure function of (seed, path, index): the path names the drawn array
 * ("layers.3.mlp.gate.weight"), and the index its element. Any element can be drawn alone, in any
 * order, on any thread, and is the same on every machine (D-4 of the specification). */
#ifndef SB_BASE_RNG_H
#define SB_BASE_RNG_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The key of one named stream. */
uint64_t sb_rng_key(uint64_t seed, const char *path);

/* 64 random bits: element `index` of the stream. */
uint64_t sb_rng_u64(uint64_t key, uint64_t index);

/* Uniform in [0, 1), a multiple of 2^-24: exact in float32. */
float sb_rng_uniform(uint64_t key, uint64_t index);

/* Uniform integer in [0, n), n >= 1 and below 2^32. */
uint32_t sb_rng_below(uint64_t key, uint64_t index, uint32_t n);

/* Approximately normal, mean 0, variance 1, |x| <= 6: the sum of twelve 21-bit uniform integers,
 * exact until its single rounding to float32. So it needs no logarithm, and no bit depends on the
 * platform. */
float sb_rng_normal(uint64_t key, uint64_t index);

#ifdef __cplusplus
}
#endif

#endif
