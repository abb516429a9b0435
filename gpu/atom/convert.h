/* convert.h - packed conversions of two values, the first in the low part of a word. Targets with
 * an instruction use it. Other targets use the integer body, like the host.
 *
 * Conversions from E2M1 and E4M3 are exact; conversions to a smaller format round to nearest, ties
 * to even. H-11: "Every NaN becomes the NaN with all bits set except the sign. E2M1 has no NaN, and
 * there a NaN becomes +6." */
#ifndef SB_ATOM_CONVERT_H
#define SB_ATOM_CONVERT_H

#include "gpu/atom/accumulate.h"
#include "gpu/cuda.h"

/* --- to smaller formats ----------------------------------------------------------------------- */

/* The code of |x| in a format with `fraction` fraction bits and this bias, at most `largest`. x
 * must not be NaN. */
SB_ATOM_FN uint32_t sb_cvt_nearest(float x, int fraction, int bias, uint32_t largest)
{
    uint32_t bits = sb_atom_bits(x) & 0x7fffffff, digits = (bits & 0x7fffff) | 0x800000;
    int above = (int)(bits >> 23) - 127 + bias - 1; /* binades above the smallest normal numbers */
    int drop = 23 - fraction + (above < 0 ? -above : 0);
    drop = drop < 25 ? drop : 25; /* no digit remains from 25 on */
    uint32_t kept = digits >> drop, rest = digits & ((1u << drop) - 1), half = 1u << (drop - 1);
    kept += rest > half || (rest == half && (kept & 1));
    kept += above > 0 ? (uint32_t)above << fraction : 0;
    return kept < largest ? kept : largest;
}

SB_ATOM_FN uint32_t sb_cvt_bf16_portable(float x)
{
    uint32_t bits = sb_atom_bits(x);
    return x == x ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : 0x7fff;
}

SB_ATOM_FN uint32_t sb_cvt_e4m3_portable(float x)
{
    uint32_t sign = sb_atom_bits(x) >> 31 << 7;
    return x == x ? sign | sb_cvt_nearest(x, 3, 7, 0x7e) : 0x7f;
}

SB_ATOM_FN uint32_t sb_cvt_e2m1_portable(float x)
{
    uint32_t sign = sb_atom_bits(x) >> 31 << 3;
    return x == x ? sign | sb_cvt_nearest(x, 1, 1, 7) : 7;
}

SB_ATOM_FN uint32_t sb_cvt_bf16x2_f32(float low, float high)
{
#ifdef __CUDACC__
    uint32_t two;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
#else
    return sb_cvt_bf16_portable(low) | sb_cvt_bf16_portable(high) << 16;
#endif
}

/* Saturates at 448. The result has 16 bits. */
SB_ATOM_FN uint32_t sb_cvt_e4m3x2_f32(float low, float high)
{
#ifdef __CUDACC__
    uint16_t two;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(high), "f"(low));
    return two;
#else
    return sb_cvt_e4m3_portable(low) | sb_cvt_e4m3_portable(high) << 8;
#endif
}

/* Saturates at 6. The result has 8 bits. */
SB_ATOM_FN uint32_t sb_cvt_e2m1x2_f32(float low, float high)
{
#ifdef SB_ATOM_NATIVE_12X
    uint16_t two;
    asm("{ .reg .b8 two; cvt.rn.satfinite.e2m1x2.f32 two, %1, %2; mov.b16 %0, {two, 0}; }"
        : "=h"(two)
        : "f"(high), "f"(low));
    return two;
#else
    return sb_cvt_e2m1_portable(low) | sb_cvt_e2m1_portable(high) << 4;
#endif
}

/* --- from smaller formats --------------------------------------------------------------------- */

/* Converts an E4M3 code to a 16-bit format with `fraction` fraction bits and a bias that is larger
 * by `more`. */
SB_ATOM_FN uint32_t sb_cvt_e4m3_fields(uint32_t code, int fraction, uint32_t more, uint32_t nan)
{
    uint32_t size = code & 0x7f, sign = code >> 7 & 1, tail = size & 7;
    uint32_t fields = (size << (fraction - 3)) + (more << fraction);
    if (size < 8) {                              /* zero or subnormal: `tail` times 2^-9 */
        uint32_t lead = tail > 3 ? 2 : tail > 1; /* the position of the leading digit */
        fields = (more + lead - 2) << fraction | (tail << (3 - lead) & 7) << (fraction - 3);
        fields = tail ? fields : 0;
    }
    return size == 0x7f ? nan : fields | sign << 15;
}

SB_ATOM_FN uint32_t sb_cvt_f16x2_e4m3x2(uint32_t two)
{
#ifdef __CUDACC__
    uint32_t out;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(out) : "h"(static_cast<uint16_t>(two)));
    return out;
#else
    return sb_cvt_e4m3_fields(two, 10, 8, 0x7fff) | sb_cvt_e4m3_fields(two >> 8, 10, 8, 0x7fff)
                                                        << 16;
#endif
}

/* The upper halves of two words: the bfloat16 codes of values that bfloat16 holds exactly. */
SB_ATOM_FN uint32_t sb_bf16x2_upper(float low, float high)
{
    return __byte_perm(sb_atom_bits(low), sb_atom_bits(high), 0x7632);
}

/* No target has an instruction for this conversion. It goes through binary16 and binary32, which
 * hold all E4M3 values exactly. */
SB_ATOM_FN uint32_t sb_cvt_bf16x2_e4m3x2(uint32_t two)
{
#ifdef __CUDACC__
    float low, high;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, "
        "high; }"
        : "=f"(low), "=f"(high)
        : "r"(sb_cvt_f16x2_e4m3x2(two)));
    return sb_bf16x2_upper(low, high);
#else
    return sb_cvt_e4m3_fields(two, 7, 120, 0x7fff) | sb_cvt_e4m3_fields(two >> 8, 7, 120, 0x7fff)
                                                         << 16;
#endif
}

/* Converts four E2M1 codes in the low half of a word. Each code selects both bytes of its result.
 */
SB_ATOM_FN void sb_cvt_bf16x4_e2m1x4(uint32_t (&out)[2], uint32_t four)
{
    uint32_t sizes = four & 0x7777, signs = four & 0x8888;
    uint32_t upper = __byte_perm(0x3f3f3f00, 0x40404040, sizes);
    uint32_t lower = __byte_perm(0xc0800000, 0xc0804000, sizes);
    out[0] = __byte_perm(lower, upper, 0x5140) | (signs & 8) << 12 | (signs & 0x80) << 24;
    out[1] = __byte_perm(lower, upper, 0x7362) | (signs & 0x800) << 4 | (signs & 0x8000) << 16;
}

/* Converts eight E2M1 codes. The sign bit of each code is the top bit of a byte, of the word or of
 * the word shifted by four. */
SB_ATOM_FN void sb_cvt_bf16x8_e2m1x8(uint32_t (&out)[4], uint32_t eight)
{
    const uint32_t sizes = eight & 0x77777777, shifted = eight << 4;
    for (uint32_t half = 0; half < 2; half++) {
        const uint32_t upper = __byte_perm(0x3f3f3f00, 0x40404040, sizes >> 16 * half);
        const uint32_t lower = __byte_perm(0xc0800000, 0xc0804000, sizes >> 16 * half);
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t r = 2 * half + i;
            const uint32_t signs = __byte_perm(shifted, eight, 0x4400 + 0x1111 * r) & 0x80008000;
            out[r] = __byte_perm(lower, upper, i ? 0x7362 : 0x5140) | signs;
        }
    }
}

SB_ATOM_FN uint32_t sb_cvt_bf16x2_e2m1x2(uint32_t two)
{
    uint32_t out[2];
    sb_cvt_bf16x4_e2m1x4(out, two & 0xff);
    return out[0];
}

SB_ATOM_FN uint32_t sb_cvt_f16x2_e2m1x2_portable(uint32_t two)
{
    uint32_t upper = __byte_perm(0x3e3c3800, 0x46444240, two & 0x77); /* the lower bytes are zero */
    return (upper & 0xff) << 8 | (upper & 0xff00) << 16 | (two & 8) << 12 | (two & 0x80) << 24;
}

SB_ATOM_FN uint32_t sb_cvt_f16x2_e2m1x2(uint32_t two)
{
#ifdef SB_ATOM_NATIVE_12X
    uint32_t out;
    asm("{ .reg .b8 two, none; mov.b16 {two, none}, %1; cvt.rn.f16x2.e2m1x2 %0, two; }"
        : "=r"(out)
        : "h"(static_cast<uint16_t>(two)));
    return out;
#else
    return sb_cvt_f16x2_e2m1x2_portable(two);
#endif
}

/* --- pairs of bfloat16 ------------------------------------------------------------------------ */

/* Only for sums and products that bfloat16 holds exactly, so nothing is rounded. */
SB_ATOM_FN uint32_t sb_bf16x2_add(uint32_t x, uint32_t y)
{
#ifdef __CUDACC__
    uint32_t sum;
    asm("add.rn.bf16x2 %0, %1, %2;" : "=r"(sum) : "r"(x), "r"(y));
    return sum;
#else
    return sb_bf16x2_upper(sb_atom_float(x << 16) + sb_atom_float(y << 16),
                           sb_atom_float(x & 0xffff0000u) + sb_atom_float(y & 0xffff0000u));
#endif
}

SB_ATOM_FN uint32_t sb_bf16x2_mul(uint32_t x, uint32_t y)
{
#ifdef __CUDACC__
    uint32_t product;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));
    return product;
#else
    return sb_bf16x2_upper(sb_atom_float(x << 16) * sb_atom_float(y << 16),
                           sb_atom_float(x & 0xffff0000u) * sb_atom_float(y & 0xffff0000u));
#endif
}

#endif
