/* mma_s8.h - m16n8k32 of signed bytes with int32 sums, which wrap. All targets from sm_80 on have
 * the instruction. */
#ifndef SB_ATOM_MMA_S8_H
#define SB_ATOM_MMA_S8_H

#include "gpu/atom/collective.h"

SB_ATOM_FN void sb_mma_s8(int32_t (&d)[4], const uint32_t (&a)[4],
                          const uint32_t (&b)[2] SB_ATOM_SITE)
{
#ifdef __CUDACC__
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    sb_atom_collect("sb_mma_s8", d, a, b, 0, 0, sb_atom_apply<int32_t, sb_warp_mma_s8>, site);
#endif
}

#endif
