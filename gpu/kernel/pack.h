/* pack.h - weights of linear layers in the order in which kernels read them (linear_shape.h).
 *
 * Nothing is rounded: a weight is code times scale, or (code + base) times scale, with the exact
 * value of sb_matrix_wide. SB_ERR_UNSUPPORTED: the codes are not exact in bfloat16. */
#ifndef SB_KERNEL_PACK_H
#define SB_KERNEL_PACK_H

#include "gpu/base.h"
#include "gpu/kernel/linear_shape.h"
#include "ref/formats/matrix.h"

enum : uint32_t { SB_NO_COLUMN = 0xffffffffu };

sb_status sb_pack_shape(const sb_matrix *matrix, sb_linear_shape *shape);

inline size_t sb_pack_tiles(const sb_linear_shape &shape)
{
    return (static_cast<size_t>(shape.rows) + SB_TILE_ROWS - 1) / SB_TILE_ROWS;
}

/* Writes bytes [first, first + bytes) of all tiles. `first` and `bytes` are multiples of
 * shape.tile_bytes. */
sb_status sb_pack_linear(const sb_matrix *matrix, size_t first, size_t bytes, unsigned char *to);

/* Writes the matrix column at each of the 64 chunks places; SB_NO_COLUMN: padding. */
sb_status sb_pack_columns(const sb_matrix *matrix, const sb_linear_shape &shape, uint32_t *columns);
/* sb_pack_columns in the form of an sb_gpu_pack. All bytes must be requested in one call. */
sb_status sb_pack_order(const sb_matrix *matrix, size_t first, size_t bytes, unsigned char *to);

/* For a matrix that is not quantized: _values writes its values, row by row; _bf16 writes the bits
 * of the values rounded to bfloat16. */
sb_status sb_pack_values(const sb_matrix *matrix, size_t first, size_t bytes, unsigned char *to);
sb_status sb_pack_bf16(const sb_matrix *matrix, size_t first, size_t bytes, unsigned char *to);

#endif
