/* neon_codes.h - codes as binary64, two per register. */
#ifndef SB_SIMD_NEON_CODES_H
#define SB_SIMD_NEON_CODES_H

#include <arm_neon.h>

#include "ref/fast/simd/rows.h"

#define INLINE static inline __attribute__((always_inline))

typedef float64x2_t vec;
typedef uint8x16x2_t sixteen; /* twice eight elements of two bytes */
enum { WIDTH = 2, SUMS = 8 };

/* Tables for decoding, and the sums of a group. */
typedef struct row {
    uint8x16_t low, high; /* tables of the lower and the upper byte */
    uint8x16_t top;       /* the largest codes without sign, for E4M3 and floats */
    int zeroed;
    vec zero, sum[SUMS];
} row;

INLINE vec all(double x)
{
    return vdupq_n_f64(x);
}

INLINE vec load_vec(const double *at)
{
    return vld1q_f64(at);
}

INLINE vec plus(vec a, vec b)
{
    return vaddq_f64(a, b);
}

INLINE vec fused(vec a, vec b, vec c)
{
    return vfmaq_f64(c, a, b);
}

INLINE vec absolute(vec a)
{
    return vabsq_f64(a);
}

INLINE double across(vec x)
{
    return vaddvq_f64(x);
}

INLINE row row_start(const sb_two_bytes *bytes)
{
    return (row){.low = vld1q_u8(bytes->low), .high = vld1q_u8(bytes->high), .top = vdupq_n_u8(0)};
}

/* Makes doubles of elements i and i + 1 of eight, from their upper two bytes. */
INLINE vec from_bytes(uint8x16_t bytes, int i)
{
    const uint8_t none = 255, at = (uint8_t)(2 * i);
    const uint8x16_t index = {none,
                              none,
                              none,
                              none,
                              none,
                              none,
                              at,
                              (uint8_t)(at + 1),
                              none,
                              none,
                              none,
                              none,
                              none,
                              none,
                              (uint8_t)(at + 2),
                              (uint8_t)(at + 3)};
    return vreinterpretq_f64_u8(vqtbl1q_u8(bytes, index));
}

/* Elements 2p and 2p + 1 of sixteen. */
INLINE vec pair(sixteen s, int p)
{
    return from_bytes(s.val[p / 4], 2 * (p % 4));
}

/* Looks up 32 codes of four bits. */
INLINE void nibbles(const row *r, const unsigned char *codes, sixteen half[2])
{
    const uint8x16_t c = vld1q_u8(codes), even = vandq_u8(c, vdupq_n_u8(15));
    const uint8x16x2_t in_order = vzipq_u8(even, vshrq_n_u8(c, 4));
    for (int h = 0; h < 2; h++)
        half[h] =
            vzipq_u8(vqtbl1q_u8(r->low, in_order.val[h]), vqtbl1q_u8(r->high, in_order.val[h]));
}

/* Converts 16 codes of E4M3 to 2^-8 of their values. */
INLINE sixteen e4m3(row *r, const unsigned char *codes)
{
    const uint8x16_t c = vld1q_u8(codes), sign = vdupq_n_u8(0x80);
    const uint8x16_t size = vbicq_u8(c, sign);
    r->top = vmaxq_u8(r->top, size);
    /* index 8 + c for codes below 8; past the table for all others */
    const uint8x16_t fix = vaddq_u8(size, vdupq_n_u8(8));
    const uint8x16_t low = veorq_u8(vaddq_u8(c, c), vqtbl1q_u8(r->low, fix));
    const uint8x16_t high = vorrq_u8(vandq_u8(c, sign), vdupq_n_u8(0x3f));
    return vzipq_u8(low, veorq_u8(high, vqtbl1q_u8(r->high, fix)));
}

/* Reads four elements of the other formats, exact in binary32. */
INLINE float32x4_t quad(sb_format format, const unsigned char *at)
{
    const uint8x8_t four = vreinterpret_u8_u32(vdup_n_u32(sb_load_u32(at)));
    switch (format) {
    case SB_FORMAT_bf16:
        return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(at)), 16));
    case SB_FORMAT_f16:
        return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(at)));
    case SB_FORMAT_int8:
        return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(four)))));
    case SB_FORMAT_uint8:
        return vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(four))));
    default:
        return vreinterpretq_f32_u8(vld1q_u8(at));
    }
}

/* Updates the largest codes with sixteen elements of 16-bit and 32-bit formats. */
INLINE void keep_top(row *r, sb_format format, const unsigned char *codes)
{
    const size_t bytes = 2 * sb_row_bits(format);
    for (size_t i = 0; i < bytes; i += 16) {
        const uint8x16_t c = vld1q_u8(codes + i);
        if (sb_row_bits(format) == 16)
            r->top = vreinterpretq_u8_u16(
                vmaxq_u16(vreinterpretq_u16_u8(r->top),
                          vandq_u16(vreinterpretq_u16_u8(c), vdupq_n_u16(0x7fff))));
        else if (format == SB_FORMAT_f32)
            r->top = vreinterpretq_u8_u32(
                vmaxq_u32(vreinterpretq_u32_u8(r->top),
                          vandq_u32(vreinterpretq_u32_u8(c), vdupq_n_u32(0x7fffffff))));
    }
}

/* Decodes the next sb_row_block codes, two per vec. */
INLINE void block_values(row *r, sb_format format, const unsigned char *codes, vec *values)
{
    const size_t bytes = sb_row_bits(format) / 2; /* bytes of four elements */
    sixteen half[2];
    if (sb_row_bits(format) == 4 || format == SB_FORMAT_e4m3) {
        if (format == SB_FORMAT_e4m3)
            half[0] = e4m3(r, codes), half[1] = e4m3(r, codes + 16);
        else
            nibbles(r, codes, half);
        for (int p = 0; p < 16; p++)
            values[p] = pair(half[p / 8], p % 8);
        return;
    }
    keep_top(r, format, codes);
    for (int q = 0; q < 4; q++) {
        const float32x4_t four = quad(format, codes + bytes * (size_t)q);
        values[2 * q] = vcvt_f64_f32(vget_low_f32(four));
        values[2 * q + 1] = vcvt_high_f64_f32(four);
    }
}

#endif
