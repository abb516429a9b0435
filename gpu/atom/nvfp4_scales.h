/* nvfp4_scales.h - the last step of the NVFP4 atom for one element: adds four exact sums, each
 * times its scales, and C (H-5, H-1, H-3). The portable body of a device and the body of the host
 * share this code. */
#ifndef SB_ATOM_NVFP4_SCALES_H
#define SB_ATOM_NVFP4_SCALES_H

#include "gpu/atom/accumulate.h"

/* The four scales of a word; each is digits 2^(exponent - 3). A scale of 0 has a very small
 * exponent, so that its sum with another exponent is never the largest. H-9: "A byte of 0x7f or
 * 0xff is NaN" */
struct sb_nvfp4_scales {
    int32_t digits[4];
    int exponent[4];
    bool finite;
};

enum { SB_NVFP4_NO_EXPONENT = -1024 };

SB_ATOM_FN void sb_nvfp4_scales_of(uint32_t word, sb_nvfp4_scales *out)
{
    out->finite = true;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int q = 0; q < 4; q++) {
        uint32_t code = word >> 8 * q & 0x7f, field = code >> 3;
        out->digits[q] = (int32_t)(field ? (code & 7) | 8 : code);
        out->exponent[q] = field ? (int)field - 7 : code ? -6 : SB_NVFP4_NO_EXPONENT;
        out->finite = out->finite && code != 0x7f;
    }
}

/* sums[q] is the sum of the products of doubled E2M1 values for k from 16 q to 16 q + 15. */
SB_ATOM_FN float sb_nvfp4_end(const int32_t (&sums)[4], const sb_nvfp4_scales &a,
                              const sb_nvfp4_scales &b, float c)
{
    if (!a.finite || !b.finite)
        return sb_atom_float(sb_atom_nan_bits);
    if (!sb_atom_finite(c))
        return sb_atom_beyond(c);
    sb_atom_parts addend = sb_atom_split(c);
    /* H-5: "The exponent of the term is the sum of the exponents of the scales, also where the sum
     * of the products is zero" */
    int most = addend.exponent;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int q = 0; q < 4; q++) {
        int exponent = a.exponent[q] + b.exponent[q];
        most = exponent > most ? exponent : most;
    }
    /* in units of 2^(most - 35); sums[q] is in quarters, the scales are in eighths */
    int64_t sum = sb_atom_cut(addend.digits * 4096, most - addend.exponent);
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int q = 0; q < 4; q++) {
        int64_t term = (int64_t)sums[q] * (a.digits[q] * b.digits[q]);
        sum += sb_atom_cut(term * (1 << 27), most - a.exponent[q] - b.exponent[q]);
    }
    return sb_atom_pack(sum, most - SB_ATOM_CUT_NVFP4);
}

#endif
