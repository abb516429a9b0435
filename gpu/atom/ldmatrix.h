/* ldmatrix.h - loads matrices of 8 x 8 16-bit elements from shared memory into the layout of
 * fragments.
 *
 * H-10: "The address of lane 8 j + i is the address of row i of matrix j: 16 bytes, at a multiple
 * of 16."
 * Lanes beyond those of the matrices pass any valid address, for example their own row. */
#ifndef SB_ATOM_LDMATRIX_H
#define SB_ATOM_LDMATRIX_H

#include "gpu/atom/collective.h"

#ifdef __CUDACC__

#define SB_ATOM_ADDRESS "r"(sb_shared_address(row))
#define SB_ATOM_LDMATRIX(trans)                                                                    \
    if (COUNT == 1)                                                                                \
        asm volatile("ldmatrix.sync.aligned.m8n8.x1" trans ".shared.b16 {%0}, [%1];"               \
                     : "=r"(d[0])                                                                  \
                     : SB_ATOM_ADDRESS                                                             \
                     : "memory");                                                                  \
    else if (COUNT == 2)                                                                           \
        asm volatile("ldmatrix.sync.aligned.m8n8.x2" trans ".shared.b16 {%0, %1}, [%2];"           \
                     : "=r"(d[0]), "=r"(d[COUNT > 1])                                              \
                     : SB_ATOM_ADDRESS                                                             \
                     : "memory");                                                                  \
    else                                                                                           \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%0, %1, %2, %3}, [%4];"   \
                     : "=r"(d[0]), "=r"(d[COUNT > 1]), "=r"(d[COUNT > 2 ? 2 : 0]),                 \
                       "=r"(d[COUNT > 2 ? 3 : 0])                                                  \
                     : SB_ATOM_ADDRESS                                                             \
                     : "memory")

#else

struct sb_atom_row {
    uint32_t word[4];
};

template <int COUNT, bool TRANSPOSED>
void sb_atom_apply_ldmatrix(uint32_t, const sb_atom_row *in, sb_atom_result<uint32_t> *out)
{
    uint32_t rows[32][4], d[32][4] = {};
    memcpy(rows, in, sizeof rows);
    sb_warp_ldmatrix(rows, COUNT, TRANSPOSED, d);
    memcpy(out, d, sizeof d);
}

#endif

/* d[j] is the register of matrix j. */
template <int COUNT, bool TRANSPOSED = false>
SB_ATOM_FN void sb_ldmatrix(uint32_t (&d)[COUNT], sb_shared<const uint4> row SB_ATOM_SITE)
{
    static_assert(COUNT == 1 || COUNT == 2 || COUNT == 4, "ldmatrix loads 1, 2 or 4 matrices");
#ifdef __CUDACC__
    if (TRANSPOSED) {
        SB_ATOM_LDMATRIX(".trans");
    } else {
        SB_ATOM_LDMATRIX("");
    }
#else
    sb_atom_row in = {};
    if (sb_atom_lane() < 8 * COUNT) { /* the addresses of the remaining lanes are not used */
        const uint4 read = *row;
        memcpy(in.word, &read, sizeof read);
    }
    const sb_atom_result<uint32_t> out =
        sb_emu_warp("ldmatrix", 0xffffffffu, in, sb_atom_apply_ldmatrix<COUNT, TRANSPOSED>, site);
    memcpy(d, out.d, sizeof d);
#endif
}

#ifdef __CUDACC__
#undef SB_ATOM_LDMATRIX
#undef SB_ATOM_ADDRESS
#endif
#endif
