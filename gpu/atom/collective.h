/* collective.h - operations of all lanes of a warp. On a device they use shuffles. On the emulator
 * a body of gpu/atom/host runs once, on the registers of all 32 lanes. */
#ifndef SB_ATOM_COLLECTIVE_H
#define SB_ATOM_COLLECTIVE_H

#include "gpu/atom/target.h"
#include "gpu/cuda.h"

#ifdef __CUDACC__

/* On the emulator these pass the source line of the kernel. */
#define SB_ATOM_SITE
#define SB_ATOM_PASS

SB_ATOM_FN int sb_atom_lane()
{
    int lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

#else

#include <string.h>

#include "gpu/atom/host/warp.h"

#define SB_ATOM_SITE , sb_emu_site site = sb_emu_site::here()
#define SB_ATOM_PASS , site

inline int sb_atom_lane()
{
    return static_cast<int>(sb_emu_lane());
}

template <class T> struct sb_atom_result {
    T d[4];
};
template <class T> struct sb_atom_operands {
    uint32_t a[4], b[2], scales_a, scales_b;
    T d[4];
};

/* The registers of 32 lanes, in the layout that the bodies of gpu/atom/host take. */
template <class T> struct sb_atom_registers {
    uint32_t a[32][4], b[32][2], scales_a[32], scales_b[32];
    T d[32][4];

    explicit sb_atom_registers(const sb_atom_operands<T> *in)
    {
        for (int lane = 0; lane < 32; lane++) {
            memcpy(a[lane], in[lane].a, sizeof a[lane]);
            memcpy(b[lane], in[lane].b, sizeof b[lane]);
            memcpy(d[lane], in[lane].d, sizeof d[lane]);
            scales_a[lane] = in[lane].scales_a;
            scales_b[lane] = in[lane].scales_b;
        }
    }
    void give(sb_atom_result<T> *out) const
    {
        memcpy(out, d, sizeof d);
    }
};

template <class T, void (*BODY)(const uint32_t (*)[4], const uint32_t (*)[2], T (*)[4])>
void sb_atom_apply(uint32_t, const sb_atom_operands<T> *in, sb_atom_result<T> *out)
{
    sb_atom_registers<T> all(in);
    BODY(all.a, all.b, all.d);
    all.give(out);
}

template <unsigned FROM_A, unsigned FROM_B>
void sb_atom_apply_nvfp4(uint32_t, const sb_atom_operands<float> *in, sb_atom_result<float> *out)
{
    sb_atom_registers<float> all(in);
    sb_warp_mma_nvfp4(all.a, all.b, all.scales_a, all.scales_b, FROM_A, FROM_B, all.d);
    all.give(out);
}

/* Applies `apply` to the registers of all lanes, and writes this lane's part of the result to d. */
template <class T>
void sb_atom_collect(const char *name, T (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                     uint32_t scales_a, uint32_t scales_b,
                     void (*apply)(uint32_t, const sb_atom_operands<T> *, sb_atom_result<T> *),
                     sb_emu_site site)
{
    const sb_atom_operands<T> in = {
        {a[0], a[1], a[2], a[3]}, {b[0], b[1]}, scales_a, scales_b, {d[0], d[1], d[2], d[3]}};
    const sb_atom_result<T> out = sb_emu_warp(name, 0xffffffffu, in, apply, site);
    memcpy(d, out.d, sizeof d);
}

#endif

/* Returns the word of lane `from`. All 32 lanes must call this function. */
SB_ATOM_FN uint32_t sb_atom_shuffle(uint32_t word, int from)
{
    return __shfl_sync(0xffffffffu, word, from);
}

#endif
