/* tiles.h - the tile kernels of each instruction set, for its entry of sb_dot_kernels. */
#ifndef SB_MATH_SIMD_TILES_H
#define SB_MATH_SIMD_TILES_H

#include "ref/math/tile.h"

extern const sb_tile_kernels sb_tile_avx2;
extern const sb_tile_kernels sb_tile_avx512;
extern const sb_tile_kernels sb_tile_neon;

#endif
