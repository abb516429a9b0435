/* tiles.h - the tile kernels of each instruction set, for its entry of sb_dot_kernels. */
#ifndef SB_SIMD_TILES_H
#define SB_SIMD_TILES_H

#include "ref/fast/dot/tile.h"

extern const sb_tile_kernels sb_tile_avx2;
extern const sb_tile_kernels sb_tile_avx512;
extern const sb_tile_kernels sb_tile_neon;

/* The functions of avx512_law.c in sb_tile_avx512. */
sb_tile_bf16 sb_avx512_bf16_e4m3, sb_avx512_bf16_e2m1;
sb_tile_pick sb_avx512_pick;

#endif
