/* counter.h - random bits as a function of an index, so that any order of computation, on host or
 * device, gives the same bits. */
#ifndef SB_METER_COUNTER_H
#define SB_METER_COUNTER_H

#include <stdint.h>

#ifdef __CUDACC__
#define SB_METER_FN static __host__ __device__ inline
#else
#define SB_METER_FN static inline
#endif

/* Returns number `at`, of 64 bits, in the stream of a key, by the mixing function of SplitMix64. */
SB_METER_FN uint64_t sb_counter_bits(uint64_t key, uint64_t at)
{
    uint64_t x = key + (at + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

#endif
