/* warp.h - the atoms as pure functions of the registers of 32 lanes, in integers or in exact
 * arithmetic, according to the rows sm120_f16, sm120_fp8 and sm120_nvfp4 of docs/atoms.md. Arrays
 * are indexed [lane][register]; the first element of a register is in its low bits. d is C before
 * the call and D after it.
 *
 * H-7: "g = lane / 4 and t = lane % 4" are used for all layouts. */
#ifndef SB_ATOM_HOST_WARP_H
#define SB_ATOM_HOST_WARP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void sb_warp_mma_bf16(const uint32_t a[32][4], const uint32_t b[32][2], float d[32][4]);
void sb_warp_mma_f16(const uint32_t a[32][4], const uint32_t b[32][2], float d[32][4]);
void sb_warp_mma_e4m3(const uint32_t a[32][4], const uint32_t b[32][2], float d[32][4]);

/* m16n8k64 with four UE4M3 scales in each word of sa and sb; from_a (0, 1) and from_b (0 to 3) are
 * the thread selectors of the instruction: H-9. */
void sb_warp_mma_nvfp4(const uint32_t a[32][4], const uint32_t b[32][2], const uint32_t sa[32],
                       const uint32_t sb[32], unsigned from_a, unsigned from_b, float d[32][4]);

/* m16n8k32 of signed bytes; sums wrap. */
void sb_warp_mma_s8(const uint32_t a[32][4], const uint32_t b[32][2], int32_t d[32][4]);

/* ldmatrix of `count` (1, 2, 4) matrices of 8 x 8 16-bit elements: rows[i] is the row of 16 bytes
 * at the address of lane i (H-10). The first `count` registers of each d[lane] are written. */
void sb_warp_ldmatrix(const uint32_t rows[32][4], unsigned count, int transposed,
                      uint32_t d[32][4]);

#ifdef __cplusplus
}
#endif
#endif
