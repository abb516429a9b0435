/* bytes.h - little-endian loads and stores that need no alignment, and the bits of a float.
 *
 * All data that samebit reads, writes or hashes is little-endian by definition. Only these
 * functions convert bytes to numbers, so a big-endian machine gives the same results. */
#ifndef SB_BASE_BYTES_H
#define SB_BASE_BYTES_H

#include <stdint.h>
#include <string.h>

static inline uint16_t sb_load_u16(const unsigned char *p)
{
    return (uint16_t)(p[0] | (unsigned)p[1] << 8);
}

static inline uint32_t sb_load_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t sb_load_u64(const unsigned char *p)
{
    return (uint64_t)sb_load_u32(p) | (uint64_t)sb_load_u32(p + 4) << 32;
}

static inline void sb_store_u16(unsigned char *p, uint16_t v)
{
    p[0] = (unsigned char)v;
    p[1] = (unsigned char)(v >> 8);
}

static inline void sb_store_u32(unsigned char *p, uint32_t v)
{
    sb_store_u16(p, (uint16_t)v);
    sb_store_u16(p + 2, (uint16_t)(v >> 16));
}

static inline void sb_store_u64(unsigned char *p, uint64_t v)
{
    sb_store_u32(p, (uint32_t)v);
    sb_store_u32(p + 4, (uint32_t)(v >> 32));
}

static inline uint32_t sb_bits_f32(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float sb_f32_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline uint64_t sb_bits_f64(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double sb_f64_from_bits(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline int sb_is_finite_f32(float x)
{
    return (sb_bits_f32(x) & 0x7f800000u) != 0x7f800000u;
}

#endif
