/* accumulate.h - adds a block of products and C in integers, and packs the result (H-1, H-3), for
 * one element. The portable bodies of a device and the bodies of the host share this code. */
#ifndef SB_ATOM_ACCUMULATE_H
#define SB_ATOM_ACCUMULATE_H

#include <string.h>

#include "gpu/atom/target.h"

enum {
    SB_ATOM_ZERO_EXPONENT = -133, /* exponent of a zero term (Z of H-2): f16, bf16, FP8 */
    SB_ATOM_CUT_MMA = 25,         /* bits kept below the largest exponent: f16, bf16, FP8 */
    SB_ATOM_CUT_NVFP4 = 35,
};
static const uint32_t sb_atom_nan_bits = 0x7fffffffu;

SB_ATOM_FN uint32_t sb_atom_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

SB_ATOM_FN float sb_atom_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

SB_ATOM_FN bool sb_atom_finite(float x)
{
    return (sb_atom_bits(x) & 0x7f800000u) != 0x7f800000u;
}

/* The result if C is not finite and all products are finite. H-6: "makes the result the NaN
 * 0x7fffffff, except for sums that IEEE 754 makes infinite" */
SB_ATOM_FN float sb_atom_beyond(float c)
{
    return c == c ? c : sb_atom_float(sb_atom_nan_bits);
}

/* The result if all products are zero: C alone. H-3: "A zero sum is +0." */
SB_ATOM_FN float sb_atom_alone(float c)
{
    return c == 0.0f ? 0.0f : sb_atom_beyond(c);
}

/* digits / 2^places, toward zero; places >= 0, |digits| < 2^62 */
SB_ATOM_FN int64_t sb_atom_cut(int64_t digits, int places)
{
    int shift = places < 62 ? places : 62;
    int64_t below = ((int64_t)1 << shift) - 1;
    return (digits + (digits >> 63 & below)) >> shift;
}

/* C as an integer of 24 bits and the exponent for its alignment: digits 2^(exponent - 23). */
struct sb_atom_parts {
    int64_t digits;
    int exponent;
};

SB_ATOM_FN sb_atom_parts sb_atom_split(float c)
{
    uint32_t bits = sb_atom_bits(c), field = bits >> 23 & 0xff, tail = bits & 0x7fffff;
    int64_t digits = (int64_t)(field ? tail | 0x800000 : tail);
    sb_atom_parts parts = {bits >> 31 ? -digits : digits, field ? (int)field - 127 : -126};
    return parts;
}

/* H-3: "toward zero to the fraction bits of the row, counted from its own exponent, which is at
 * least -126. From 2^128 on it is infinite" - packs the value sum * 2^unit with 23 fraction bits.
 * |sum| < 2^62. */
SB_ATOM_FN float sb_atom_pack(int64_t sum, int unit)
{
    if (sum == 0)
        return 0.0f;
    uint32_t sign = sum < 0 ? 0x80000000u : 0;
    uint64_t size = sum < 0 ? 0 - (uint64_t)sum : (uint64_t)sum;
#ifdef __CUDA_ARCH__
    int exponent = 63 - __clzll((long long)size) + unit;
#else
    int exponent = 63 - __builtin_clzll(size) + unit;
#endif
    if (exponent > 127)
        return sb_atom_float(sign | 0x7f800000u);
    int places = (exponent < -126 ? -126 : exponent) - 23 - unit;
    uint32_t tail = (uint32_t)(places < 0 ? size << -places : places < 64 ? size >> places : 0);
    if (exponent < -126)
        return sb_atom_float(sign | tail);
    return sb_atom_float(sign | (uint32_t)(exponent + 127) << 23 | (tail & 0x7fffff));
}

#endif
