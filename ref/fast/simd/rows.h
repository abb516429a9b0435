/* rows.h - the common part of the row kernels of several sets: their names, and the decoding of
 * codes to binary64.
 *
 * The binary64 value of a small code has only two nonzero bytes, the upper two. A byte shuffle
 * reads each of the two from a table. For four-bit codes, the code is the index. For E4M3 (times
 * 2^-8) the bytes come from the code itself, with a correction from a table if the exponent field
 * is 0. */
#ifndef SB_SIMD_ROWS_H
#define SB_SIMD_ROWS_H

#include "ref/fast/dot/kernels.h"

/* DO(set, format) for each format whose rows sb_SET_row_FORMAT reads; AVX2 has fixed.h for E2M1. */
#define SB_ROWS(DO, set)                                                                           \
    SB_ROWS_BUT_E2M1(DO, set)                                                                      \
    DO(set, e2m1)
#define SB_ROWS_BUT_E2M1(DO, set)                                                                  \
    DO(set, f32)                                                                                   \
    DO(set, bf16)                                                                                  \
    DO(set, f16)                                                                                   \
    DO(set, e4m3)                                                                                  \
    DO(set, int4)                                                                                  \
    DO(set, int8)                                                                                  \
    DO(set, uint4)                                                                                 \
    DO(set, uint8)
#define SB_ROW_DECLARE(set, format)                                                                \
    sb_partial sb_##set##_row_##format(const sb_row_codes *w, const sb_row_input *x);
#define SB_ROW_ENTRY(set, format) [SB_FORMAT_##format] = sb_##set##_row_##format,

SB_ROWS_BUT_E2M1(SB_ROW_DECLARE, avx2)
SB_ROWS(SB_ROW_DECLARE, neon)

/* The upper two bytes of a binary64, by index. */
typedef struct sb_two_bytes {
    unsigned char low[16], high[16];
} sb_two_bytes;

/* The bytes of a four-bit format, by code. */
const sb_two_bytes *sb_nibble_bytes(sb_format format);

/* The XOR corrections for E4M3 codes c without sign, whose uncorrected bytes are 2 c and 0x3f.
 * Index 8 + c has the correction for c below 8; indices 0 to 7 have 0. */
extern const sb_two_bytes sb_e4m3_fix;
#define SB_E4M3_UNIT 256.0

/* sb_format_bits, as a compile-time constant if the format is one. */
static inline size_t sb_row_bits(sb_format format)
{
    switch (format) {
    case SB_FORMAT_f32:
        return 32;
    case SB_FORMAT_bf16:
    case SB_FORMAT_f16:
        return 16;
    case SB_FORMAT_e4m3:
    case SB_FORMAT_int8:
    case SB_FORMAT_uint8:
        return 8;
    default:
        return 4;
    }
}

/* The elements per kernel step. */
static inline size_t sb_row_block(sb_format format)
{
    return sb_row_bits(format) == 4 || format == SB_FORMAT_e4m3 ? 32 : 16;
}

/* The largest possible |code - zero| of a format. 1 for formats where the kernel finds the largest
 * code of each row instead. */
static inline double sb_row_largest(sb_format format, double zero)
{
    double below, above;
    switch (format) {
    case SB_FORMAT_e2m1:
        return 6;
    case SB_FORMAT_int4:
        below = -8 - zero, above = 7 - zero;
        break;
    case SB_FORMAT_uint4:
        below = -zero, above = 15 - zero;
        break;
    case SB_FORMAT_int8:
        below = -128 - zero, above = 127 - zero;
        break;
    case SB_FORMAT_uint8:
        below = -zero, above = 255 - zero;
        break;
    default:
        return 1;
    }
    below = sb_absolute(below);
    above = sb_absolute(above);
    return below > above ? below : above;
}

#endif
