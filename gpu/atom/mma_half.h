/* mma_half.h - m16n8k16 of bfloat16 and binary16 with binary32 sums: the only MMA that is the same
 * instruction on sm_80 and all later targets, so it has no portable body. */
#ifndef SB_ATOM_MMA_HALF_H
#define SB_ATOM_MMA_HALF_H

#include "gpu/atom/collective.h"

#ifdef __CUDACC__
#define SB_ATOM_MMA_HALF(type)                                                                     \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." #type "." #type ".f32 "                  \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                 \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#else
#define SB_ATOM_MMA_HALF(type)                                                                     \
    sb_atom_collect("sb_mma_" #type, d, a, b, 0, 0, sb_atom_apply<float, sb_warp_mma_##type>, site)
#endif

/* d += a b, spread over the 32 lanes of a warp. All 32 lanes must call this function. */
SB_ATOM_FN void sb_mma_bf16(float (&d)[4], const uint32_t (&a)[4],
                            const uint32_t (&b)[2] SB_ATOM_SITE)
{
    SB_ATOM_MMA_HALF(bf16);
}

SB_ATOM_FN void sb_mma_f16(float (&d)[4], const uint32_t (&a)[4],
                           const uint32_t (&b)[2] SB_ATOM_SITE)
{
    SB_ATOM_MMA_HALF(f16);
}

#undef SB_ATOM_MMA_HALF
#endif
