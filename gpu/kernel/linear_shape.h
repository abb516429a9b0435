/* linear_shape.h - the memory layout of a linear layer's weights for the bf16 atom.
 *
 * A tile has 16 rows of the matrix. Its columns are cut into chunks of 64, which are four steps of
 * the atom (m16n8k16). Each lane has its codes of a chunk in BITS / 4 words of 16 bytes; word i of
 * all 32 lanes is contiguous. The scales of a tile follow its codes. Padding rows and columns are
 * zero. */
#ifndef SB_KERNEL_LINEAR_SHAPE_H
#define SB_KERNEL_LINEAR_SHAPE_H

#include <stddef.h>
#include <stdint.h>

/* For host and device. */
#ifdef __CUDACC__
#define SB_SHAPE_FN __host__ __device__
#else
#define SB_SHAPE_FN
#endif

enum : uint32_t {
    SB_TILE_ROWS = 16,
    SB_STEP = 16,  /* columns of one instruction */
    SB_CHUNK = 64, /* columns of one load */
    SB_STEPS = SB_CHUNK / SB_STEP,
    SB_LINEAR_WARPS = 8, /* parts of a sum, and warps of a block */
};

/* The type of a code. The comments give the scales that follow the codes of a tile. */
enum sb_linear_codes : uint32_t {
    SB_CODES_bf16,  /* no scales */
    SB_CODES_nvfp4, /* E2M1; [chunk][row % 8][row / 8][step] E4M3, exact products */
    SB_CODES_e4m3,  /* [scale][row] binary32 */
    SB_CODES_e2m1,  /* the same */
    SB_CODES_u4,    /* [scale][row] pairs of binary32: scale, and base to add to a code */
    SB_CODES_u8,    /* the same */
    SB_CODES_COUNT
};

SB_SHAPE_FN constexpr uint32_t sb_codes_bits(uint32_t codes)
{
    return codes == SB_CODES_bf16 ? 16 : codes == SB_CODES_e4m3 || codes == SB_CODES_u8 ? 8 : 4;
}

SB_SHAPE_FN constexpr bool sb_codes_integer(uint32_t codes)
{
    return codes == SB_CODES_u4 || codes == SB_CODES_u8;
}

struct sb_linear_shape {
    sb_linear_codes codes;
    uint32_t rows, cols; /* N, K */
    uint32_t chunks;
    uint32_t parts;  /* scales of a row in a chunk, 1 or 2; 0: one for the whole row, or none */
    uint32_t shared; /* chunks that share a scale, if parts is 1 */
    uint32_t scales; /* binary32 scales of a row */
    uint32_t scale_at, tile_bytes;
    uint32_t gathers;    /* columns are reordered: sb_pack_columns */
    float factor;        /* the factor of the whole matrix */
    uint32_t is_divisor; /* sums are divided by the factor, not multiplied */
};

/* The index of a step's scale within its row. */
SB_SHAPE_FN inline uint32_t sb_linear_scale(const sb_linear_shape &shape, uint32_t chunk,
                                            uint32_t step)
{
    return shape.parts == 2 ? 2 * chunk + step / 2 : shape.parts == 1 ? chunk / shape.shared : 0;
}

#endif
