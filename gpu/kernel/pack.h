/* pack.h - weights of linear layers in the order in which kernels read them (linear_shape.h).
 *
 * Nothing is rounded: a weight is code times scale, or (code + base) times scale, as exactly as
 * sb_matrix_wide has it. SB_ERR_UNSUPPORTED: its codes are not exact in bfloat16. */
#ifndef SB_KERNEL_PACK_H
#define SB_KERNEL_PACK_H

#include "gpu/base.h"
#include "gpu/kernel/linear_shape.h"

extern "C" {
#include "ref/formats/matrix.h"
}

enum : uint32_t { SB_NO_COLUMN = 0xffffffffu };

sb_status sb_pack_shape(const sb_matrix *matrix, sb_linear_shape *shape);

inline size_t sb_pack_tiles(const sb_linear_shape &shape)
{
    return (static_cast<size_t>(shape.rows) + SB_TILE_ROWS - 1) / SB_TILE_ROWS;
}

/* Bytes first to first + bytes, both multiples of shape.tile_bytes, of all tiles. */
sb_status sb_pack_linear(const sb_matrix *matrix, size_t first, size_t bytes, unsigned char *to);

/* The column of the matrix in each place of the chunks, 64 chunks of them; SB_NO_COLUMN: none. */
sb_status sb_pack_columns(const sb_matrix *matrix, const sb_linear_shape &shape, uint32_t *columns);
/* The same as a packing of its own, of which all bytes are asked for at once. */
sb_status sb_pack_order(const sb_matrix *matrix, size_t first, size_t bytes, unsigned char *to);

/* Of a matrix that is not quantized: its values, row by row; and their bits in bfloat16, rounded.
 */
sb_status sb_pack_values(const sb_matrix *matrix, size_t first, size_t bytes, unsigned char *to);
sb_status sb_pack_bf16(const sb_matrix *matrix, size_t first, size_t bytes, unsigned char *to);

#endif
