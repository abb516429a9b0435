/* mma_e4m3.h - m16n8k32 of E4M3 with binary32 sums, with the bits of row sm120_fp8.
 *
 * Only sm_89 and sm_12x have the instruction. On sm_90 the compiler replaces it by two f16
 * instructions and an addition, which give other bits. Therefore targets without the instruction
 * sum each element in integers. */
#ifndef SB_ATOM_MMA_E4M3_H
#define SB_ATOM_MMA_E4M3_H

#include "gpu/atom/accumulate.h"
#include "gpu/atom/collective.h"

/* The state of one element of the result: the largest exponent, the sum, and whether all inputs are
 * finite. */
struct sb_e4m3_element {
    int most;
    int64_t sum;
    bool finite;
};

struct sb_e4m3_parts {
    int32_t digits; /* signed; the value is digits 2^(exponent - 3) */
    int exponent;
};

SB_ATOM_FN sb_e4m3_parts sb_e4m3_split(uint32_t code)
{
    uint32_t field = code >> 3 & 15, tail = code & 7;
    int32_t digits = (int32_t)(field ? tail | 8 : tail);
    sb_e4m3_parts parts = {code & 0x80 ? -digits : digits, field ? (int)field - 7 : -6};
    return parts;
}

/* A first pass finds the largest exponent (sb_e4m3_largest), a second pass adds (sb_e4m3_add). Each
 * call handles the four products of two words. */
SB_ATOM_FN void sb_e4m3_largest(uint32_t a, uint32_t b, sb_e4m3_element *out)
{
    for (int i = 0; i < 32; i += 8) {
        uint32_t code_a = a >> i & 0xff, code_b = b >> i & 0xff;
        out->finite = out->finite && (code_a & 0x7f) != 0x7f && (code_b & 0x7f) != 0x7f;
        int exponent = sb_e4m3_split(code_a).exponent + sb_e4m3_split(code_b).exponent;
        /* H-2: "A product of zero and a C of zero have the exponent Z", which is below the exponent
         * of any FP8 product. If Z is the largest exponent, the sum is zero. */
        bool more = (code_a & 0x7f) && (code_b & 0x7f) && exponent > out->most;
        out->most = more ? exponent : out->most;
    }
}

SB_ATOM_FN void sb_e4m3_add(uint32_t a, uint32_t b, sb_e4m3_element *out)
{
    for (int i = 0; i < 32; i += 8) {
        sb_e4m3_parts x = sb_e4m3_split(a >> i & 0xff), y = sb_e4m3_split(b >> i & 0xff);
        int64_t product = x.digits * y.digits;
        /* in units of 2^(most - 25); the product of two `digits` is in 64ths */
        int places = out->most - x.exponent - y.exponent;
        if (product)
            out->sum += sb_atom_cut(product * (1 << (SB_ATOM_CUT_MMA - 6)), places);
    }
}

/* One pass over the products of a lane's four elements, 32 products each. For lane 4 g + t, rows g
 * and g + 8 of A are in the four lanes of quad g, and columns 2 t and 2 t + 1 of B are in quads 2 t
 * and 2 t + 1. */
template <bool ADDING>
SB_ATOM_FN void sb_e4m3_pass(sb_e4m3_element (&out)[4], const uint32_t (&a)[4],
                             const uint32_t (&b)[2])
{
    int lane = sb_atom_lane(), quad = lane & ~3, column = 2 * (lane & 3);
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (int step = 0; step < 8; step++) {
        const int t = step >> 1, half = step & 1;
        uint32_t row[2], line[2];
        for (int i = 0; i < 2; i++) {
            row[i] = sb_atom_shuffle(half ? a[2 + i] : a[i], quad + t);
            line[i] = sb_atom_shuffle(half ? b[1] : b[0], 4 * (column + i) + t);
        }
        for (int i = 0; i < 4; i++)
            if (ADDING)
                sb_e4m3_add(row[i >> 1], line[i & 1], &out[i]);
            else
                sb_e4m3_largest(row[i >> 1], line[i & 1], &out[i]);
    }
}

SB_ATOM_FN void sb_mma_e4m3_portable(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    sb_e4m3_element element[4];
    for (int i = 0; i < 4; i++) {
        sb_e4m3_element start = {sb_atom_split(d[i]).exponent, 0, true};
        element[i] = start;
    }
    sb_e4m3_pass<false>(element, a, b);
    sb_e4m3_pass<true>(element, a, b);
    for (int i = 0; i < 4; i++) {
        sb_atom_parts c = sb_atom_split(d[i]);
        int64_t sum = element[i].sum + sb_atom_cut(c.digits * 4, element[i].most - c.exponent);
        if (!element[i].finite)
            d[i] = sb_atom_float(sb_atom_nan_bits);
        else if (!sb_atom_finite(d[i]))
            d[i] = sb_atom_beyond(d[i]);
        else
            d[i] = sb_atom_pack(sum, element[i].most - SB_ATOM_CUT_MMA);
    }
}

#if defined(__CUDACC__) && !defined(SB_ATOM_NATIVE_12X)
/* Not inlined: inlined copies would take most of nvcc's time for a kernel. */
static __device__ __noinline__ float4 sb_mma_e4m3_call(float4 d, uint4 a, uint2 b)
{
    float sum[4] = {d.x, d.y, d.z, d.w};
    const uint32_t rows[4] = {a.x, a.y, a.z, a.w}, columns[2] = {b.x, b.y};
    sb_mma_e4m3_portable(sum, rows, columns);
    return make_float4(sum[0], sum[1], sum[2], sum[3]);
}
#endif

SB_ATOM_FN void sb_mma_e4m3(float (&d)[4], const uint32_t (&a)[4],
                            const uint32_t (&b)[2] SB_ATOM_SITE)
{
#if defined(SB_ATOM_NATIVE_12X)
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#elif defined(__CUDACC__)
    const float4 sum = sb_mma_e4m3_call(make_float4(d[0], d[1], d[2], d[3]),
                                        make_uint4(a[0], a[1], a[2], a[3]), make_uint2(b[0], b[1]));
    d[0] = sum.x, d[1] = sum.y, d[2] = sum.z, d[3] = sum.w;
#else
    sb_atom_collect("sb_mma_e4m3", d, a, b, 0, 0, sb_atom_apply<float, sb_warp_mma_e4m3>, site);
#endif
}

#endif
