/* pack.h - weights of linear layers in the order in which kernels read them (linear_shape.h).
 *
 * Nothing is rounded: a weight is code times scale, or (code + base) times scale, exactly as in
 * sb_matrix_wide. SB_ERR_UNSUPPORTED: the codes are not exact in bfloat16. */
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

/* Writes bytes [first, first + bytes) of all tiles, both multiples of shape.tile_bytes. */
sb_status sb_pack_linear(const sb_matrix *matrix, size_t first, size_t bytes, unsigned char *to);

/* The matrix column at each of the 64 `chunks` places; SB_NO_COLUMN: none. */
sb_status sb_pack_columns(const sb_matrix *matrix, const sb_linear_shape &shape, uint32_t *columns);
/* The same as an sb_gpu_pack; all bytes are requested in one call. */
sb_status sb_pack_order(const sb_matrix *matrix, size_t first, size_t bytes, unsigned char *to);

/* For a matrix that is not quantized: its values, row by row; and the same rounded to bfloat16, as
 * bits.
 */
sb_status sb_pack_values(const sb_matrix *matrix, size_t first, size_t bytes, unsigned char *to);
sb_status sb_pack_bf16(const sb_matrix *matrix, size_t first, size_t bytes, unsigned char *to);

#endif
