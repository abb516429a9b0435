/* lowbit_shape.h - the memory layout of a linear layer's inputs and weights for the matrix units
 * with 8-bit and 4-bit codes.
 *
 * Columns are cut into units. If groups of columns have scales (W8A8 with blocks), a unit is one
 * group; otherwise a unit has 128 columns. A unit is padded with zeros to whole steps of the atom.
 * A tile has 16 rows of the weight. A column has the same place in both operands. */
#ifndef SB_KERNEL_LOWBIT_SHAPE_H
#define SB_KERNEL_LOWBIT_SHAPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define SB_LOWBIT_FN __host__ __device__ inline
#else
#define SB_LOWBIT_FN inline
#endif

enum : uint32_t {
    SB_LOWBIT_ROWS = 16,     /* rows of a tile of weights */
    SB_LOWBIT_COLUMNS = 128, /* columns of a unit if groups have no scales */
    SB_LOWBIT_WORDS = 8,     /* 32-bit words of a row in a step: 32 E4M3 codes, or 64 E2M1 codes */
    SB_LOWBIT_GROUP = 16,    /* E2M1 values that share a scale */
};

struct sb_lowbit_shape {
    uint32_t rows, cols;         /* N, K of the weight */
    uint32_t bits;               /* 8: E4M3; 4: E2M1 with a scale for each 16 */
    uint32_t unit, steps, units; /* columns of a unit; its steps; number of units */
    uint32_t grouped;            /* nonzero: a scale for each unit of a row; 0: one per row */
};

/* `unit`: the number of columns that share a scale; 0: all columns share one. */
SB_LOWBIT_FN sb_lowbit_shape sb_lowbit_shape_of(uint32_t rows, uint32_t cols, uint32_t bits,
                                                uint32_t unit)
{
    const uint32_t step = SB_LOWBIT_WORDS * 32 / bits, columns = unit ? unit : SB_LOWBIT_COLUMNS;
    const sb_lowbit_shape shape = {
        rows,     cols, bits, columns, (columns + step - 1) / step, (cols + columns - 1) / columns,
        unit != 0};
    return shape;
}

SB_LOWBIT_FN uint32_t sb_lowbit_tiles(const sb_lowbit_shape &shape)
{
    return (shape.rows + SB_LOWBIT_ROWS - 1) / SB_LOWBIT_ROWS;
}
/* The number of 32-bit words of codes in a row of inputs. */
SB_LOWBIT_FN uint32_t sb_lowbit_words(const sb_lowbit_shape &shape)
{
    return shape.units * shape.steps * SB_LOWBIT_WORDS;
}
/* The number of binary32 scales of a row of weights or inputs. */
SB_LOWBIT_FN uint32_t sb_lowbit_scales(const sb_lowbit_shape &shape)
{
    return shape.grouped ? shape.units : 1;
}
/* The number of scale words of a row of E2M1 inputs: one word, with four E4M3 scales, for each
 * step. */
SB_LOWBIT_FN uint32_t sb_lowbit_scale_words(const sb_lowbit_shape &shape)
{
    return shape.units * shape.steps;
}
/* The bytes of codes in a tile of a weight. */
SB_LOWBIT_FN size_t sb_lowbit_tile_bytes(const sb_lowbit_shape &shape)
{
    return static_cast<size_t>(shape.units) * shape.steps * 512;
}
/* The number of 16-byte words of codes in all tiles of a weight. */
SB_LOWBIT_FN size_t sb_lowbit_fragments(const sb_lowbit_shape &shape)
{
    return static_cast<size_t>(sb_lowbit_tiles(shape)) * shape.units * shape.steps * 32;
}
/* The number of binary32 scales in all tiles of an E4M3 weight, or of words of E4M3 scales of an
 * E2M1 weight. */
SB_LOWBIT_FN size_t sb_lowbit_weight_scales(const sb_lowbit_shape &shape)
{
    const size_t tiles = sb_lowbit_tiles(shape);
    return shape.bits == 8 ? tiles * sb_lowbit_scales(shape) * SB_LOWBIT_ROWS
                           : tiles * shape.units * 32;
}

#endif
