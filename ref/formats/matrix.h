/* matrix.h - a weight matrix as stored: bytes in place, never a dequantized copy.
 *
 * "A stored weight has an exact real value, and no operation ever uses a rounded copy of
 * it" */
#ifndef SB_FORMATS_MATRIX_H
#define SB_FORMATS_MATRIX_H

#include <stddef.h>
#include <stdint.h>

#include "ref/formats/containers.h"
#include "ref/formats/formats.h"

/* The layout of the codes of a matrix. */
typedef enum sb_packing {
    SB_PACKING_rows,  /* row by row, element j of a row at bit j * bits, low nibble first */
    SB_PACKING_gptq,  /* I32 [K bits/32, N]: the words of a row run down a column */
    SB_PACKING_awq,   /* I32 [K, N bits/32]: neighbouring rows share a word, interleaved */
    SB_PACKING_pairs, /* U8 [N/2, K]: row 2i in the low nibble, row 2i+1 in the high nibble */
} sb_packing;

/* The layout of the zero points. */
typedef enum sb_zeros {
    SB_ZEROS_none,    /* sb_quant.zero for every element */
    SB_ZEROS_gptq_v1, /* I32 [G, N bits/32], each word minus 0x11111111 or 0x01010101 */
    SB_ZEROS_gptq_v2, /* as v1, without the subtraction */
    SB_ZEROS_awq,     /* I32 [G, N bits/32], interleaved like the codes */
    SB_ZEROS_rows,    /* I32 [N bits/32, G]: packed along the rows (compressed-tensors) */
} sb_zeros;

/* A factor of a whole tensor, stored as a multiplier or as a divisor. */
typedef enum sb_factor_kind { SB_NO_FACTOR, SB_MULTIPLIER, SB_DIVISOR } sb_factor_kind;
typedef struct sb_factor {
    sb_factor_kind kind;
    float value;
} sb_factor;

/* The factor as a multiplier or as a divisor. If the file stores the other kind, the result is a
 * binary32 reciprocal. */
static inline float sb_factor_multiplier(sb_factor factor)
{
    return factor.kind == SB_DIVISOR ? 1.0f / factor.value : factor.value;
}

static inline float sb_factor_divisor(sb_factor factor)
{
    return factor.kind == SB_DIVISOR ? factor.value : 1.0f / factor.value;
}

/* The quantization parameters between codes and values. All zero: not quantized. */
typedef struct sb_quant {
    const unsigned char *scales; /* NULL: the matrix is not quantized */
    sb_format scale_format;
    uint32_t block_rows, block_cols; /* elements that share a scale */
    uint64_t scale_row, scale_col;   /* distance between neighbouring scales, in scales */
    uint32_t groups;                 /* scales along a row, K / block_cols rounded up */
    sb_packing packing;
    uint32_t stored_rows; /* N of the stored tensor, for some packings */
    sb_zeros zeros;
    const unsigned char *zero_points;
    int32_t zero;
    const unsigned char *group_index; /* (K) I32: the group of each column; NULL: k / block_cols */
    sb_factor factor;                 /* of the weights */
    sb_factor input;                  /* of the activations that this layer quantizes */
    uint8_t code_bits; /* declared bits of I8 codes, if fewer; 0: all bits of the format */
    float origin;      /* the factor that a conversion replaced by its reciprocal; 0: none */
    sb_container container;
} sb_quant;

/* Row i of the matrix is stored row first_row + (row_map ? row_map[i] : i), of cols elements. With
 * row_map, permuted storage (the interleaved projections of Qwen3-Next) reads like plain storage.
 * Vectors are matrices of one row. The matrix does not own the bytes. */
typedef struct sb_matrix {
    const unsigned char *data;
    sb_format format; /* of the codes */
    uint32_t rows;
    uint32_t cols;
    const uint32_t *row_map; /* (rows) or NULL */
    uint32_t first_row;
    sb_quant quant;
} sb_matrix;

static inline int sb_matrix_quantized(const sb_matrix *matrix)
{
    return matrix->quant.scales != NULL;
}

static inline uint64_t sb_matrix_stored_row(const sb_matrix *matrix, uint32_t row)
{
    return matrix->first_row + (uint64_t)(matrix->row_map ? matrix->row_map[row] : row);
}

#endif
