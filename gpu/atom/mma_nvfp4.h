/* mma_nvfp4.h - m16n8k64 of E2M1 with a UE4M3 scale for every 16 elements, with the bits of row
 * sm120_nvfp4.
 *
 * Only sm_12x has the instruction. Elsewhere four m16n8k32 of signed bytes compute the sums of the
 * four groups, since doubled E2M1 values are integers. An m16n8k32 covers two groups; to sum only
 * one of them, B is set to zero in the other. Each sum lies in the lane that owns the element. */
#ifndef SB_ATOM_MMA_NVFP4_H
#define SB_ATOM_MMA_NVFP4_H

#include "gpu/atom/collective.h"
#include "gpu/atom/mma_s8.h"
#include "gpu/atom/nvfp4_scales.h"

/* Converts the four codes in the low half of x to bytes with twice their values. */
SB_ATOM_FN uint32_t sb_e2m1_doubled(uint32_t x)
{
    uint32_t size = __byte_perm(0x03020100, 0x0c080604, x & 0x7777);
    uint32_t minus = __byte_perm(0, 0xffffffff, x >> 1 & 0x4444); /* 0xff for each sign */
    /* -v is ~v + 1 in each byte, without the carry of ~0 + 1 out of the highest bit */
    uint32_t turned = size ^ minus;
    return ((turned & 0x7f7f7f7f) + (minus & 0x01010101)) ^ (turned & 0x80808080);
}

/* Computes the sums of the two groups in registers a0, a1 and b. By H-8 the first of these groups
 * lies in lanes with t < 2. */
SB_ATOM_FN void sb_nvfp4_pair(int32_t (&even)[4], int32_t (&odd)[4], uint32_t a0, uint32_t a1,
                              uint32_t b)
{
    const uint32_t rows[4] = {sb_e2m1_doubled(a0), sb_e2m1_doubled(a1), sb_e2m1_doubled(a0 >> 16),
                              sb_e2m1_doubled(a1 >> 16)};
    uint32_t low = sb_e2m1_doubled(b), high = sb_e2m1_doubled(b >> 16);
    bool first = (sb_atom_lane() & 2) == 0;
    const uint32_t in_even[2] = {first ? low : 0, first ? high : 0};
    const uint32_t in_odd[2] = {first ? 0 : low, first ? 0 : high};
    for (int i = 0; i < 4; i++)
        even[i] = odd[i] = 0;
    sb_mma_s8(even, rows, in_even);
    sb_mma_s8(odd, rows, in_odd);
}

template <int FROM_A, int FROM_B>
SB_ATOM_FN void sb_mma_nvfp4_portable(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                      uint32_t scales_a, uint32_t scales_b)
{
    int32_t group[4][4];
    int lane = sb_atom_lane(), quad = lane & ~3, column = 2 * (lane & 3);
    sb_nvfp4_pair(group[0], group[1], a[0], a[1], b[0]);
    sb_nvfp4_pair(group[2], group[3], a[2], a[3], b[1]);
    sb_nvfp4_scales row[2], line[2];
    for (int i = 0; i < 2; i++) {
        /* H-9: "The scales of row m are in the word of lane 4 (m mod 8) + 2 p + m / 8, and the
         * scales of column n in the word of lane 4 n + q" */
        sb_nvfp4_scales_of(sb_atom_shuffle(scales_a, quad + 2 * FROM_A + i), &row[i]);
        sb_nvfp4_scales_of(sb_atom_shuffle(scales_b, 4 * (column + i) + FROM_B), &line[i]);
    }
    for (int i = 0; i < 4; i++) {
        const int32_t sums[4] = {group[0][i], group[1][i], group[2][i], group[3][i]};
        d[i] = sb_nvfp4_end(sums, row[i >> 1], line[i & 1], d[i]);
    }
}

#if defined(__CUDACC__) && !defined(SB_ATOM_NATIVE_12X)
/* Not inlined: inlined copies would take most of nvcc's time for a kernel. */
template <int FROM_A, int FROM_B>
static __device__ __noinline__ float4 sb_mma_nvfp4_call(float4 d, uint4 a, uint2 b,
                                                        uint32_t scales_a, uint32_t scales_b)
{
    float sum[4] = {d.x, d.y, d.z, d.w};
    const uint32_t rows[4] = {a.x, a.y, a.z, a.w}, columns[2] = {b.x, b.y};
    sb_mma_nvfp4_portable<FROM_A, FROM_B>(sum, rows, columns, scales_a, scales_b);
    return make_float4(sum[0], sum[1], sum[2], sum[3]);
}
#endif

/* FROM_A (0, 1) and FROM_B (0 to 3) choose the lanes that provide the scales. So one register of
 * scales serves two fragments of A, or four of B. */
template <int FROM_A = 0, int FROM_B = 0>
SB_ATOM_FN void sb_mma_nvfp4(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                             uint32_t scales_a, uint32_t scales_b SB_ATOM_SITE)
{
    static_assert(FROM_A >= 0 && FROM_A < 2 && FROM_B >= 0 && FROM_B < 4, "selectors of H-9");
#if defined(SB_ATOM_NATIVE_12X)
    asm volatile("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X"
                 ".f32.e2m1.e2m1.f32.ue4m3 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, "
                 "{%10}, {%11, %12}, {%13}, {%14, %15};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(scales_a),
                   "n"(0), "n"(FROM_A), "r"(scales_b), "n"(0), "n"(FROM_B));
#elif defined(__CUDACC__)
    const float4 sum = sb_mma_nvfp4_call<FROM_A, FROM_B>(
        make_float4(d[0], d[1], d[2], d[3]), make_uint4(a[0], a[1], a[2], a[3]),
        make_uint2(b[0], b[1]), scales_a, scales_b);
    d[0] = sum.x, d[1] = sum.y, d[2] = sum.z, d[3] = sum.w;
#else
    sb_atom_collect("sb_mma_nvfp4", d, a, b, scales_a, scales_b,
                    sb_atom_apply_nvfp4<FROM_A, FROM_B>, site);
#endif
}

#endif
