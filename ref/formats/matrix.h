/* matrix.h - a weight matrix as it is stored: bytes in place, never a dequantized copy.
 *
 * "A stored weight has an exact real value, and no operation ever uses a rounded copy of it"
 */
#ifndef SB_FORMATS_MATRIX_H
#define SB_FORMATS_MATRIX_H

#include "ref/formats/containers.h"
#include "ref/formats/format.h"

/* How the codes of a matrix lie in its bytes. */
typedef enum sb_packing {
    SB_PACKING_rows,  /* row by row, element j of a row at bit j * bits, low nibble first */
    SB_PACKING_gptq,  /* I32 [K bits/32, N]: the words of a row run down a column */
    SB_PACKING_awq,   /* I32 [K, N bits/32]: neighbouring rows share a word, interleaved */
    SB_PACKING_pairs, /* U8 [N/2, K]: row 2i in the low nibble, row 2i+1 in the high one */
} sb_packing;

/* How the zero points lie in theirs. */
typedef enum sb_zeros {
    SB_ZEROS_none,    /* sb_quant.zero for every element */
    SB_ZEROS_gptq_v1, /* I32 [G, N bits/32], each word less 0x11111111 or 0x01010101 */
    SB_ZEROS_gptq_v2, /* the same without the subtraction */
    SB_ZEROS_awq,     /* I32 [G, N bits/32], interleaved as the codes are */
    SB_ZEROS_rows,    /* I32 [N bits/32, G]: packed along the rows (compressed-tensors) */
} sb_zeros;

/* A number that a whole tensor shares, in one of the two directions in which files hold it. */
typedef enum sb_factor_kind { SB_NO_FACTOR, SB_MULTIPLIER, SB_DIVISOR } sb_factor_kind;
typedef struct sb_factor {
    sb_factor_kind kind;
    float value;
} sb_factor;

/* The factor in either direction: the one that a file does not have is a binary32 reciprocal. */
static inline float sb_factor_multiplier(sb_factor factor)
{
    return factor.kind == SB_DIVISOR ? 1.0f / factor.value : factor.value;
}

static inline float sb_factor_divisor(sb_factor factor)
{
    return factor.kind == SB_DIVISOR ? factor.value : 1.0f / factor.value;
}

/* What stands between a code and its value. All zero: nothing does. */
typedef struct sb_quant {
    const unsigned char *scales; /* NULL: the matrix is not quantized */
    sb_format scale_format;
    uint32_t block_rows, block_cols; /* elements that share a scale */
    uint64_t scale_row, scale_col;   /* distance of neighbouring scales, in scales */
    uint32_t groups;                 /* scales along a row, K / block_cols rounded up */
    sb_packing packing;
    uint32_t stored_rows; /* N of the stored tensor, which packing may need */
    sb_zeros zeros;
    const unsigned char *zero_points;
    int32_t zero;
    const unsigned char *group_index; /* (K) I32: the group of each column; NULL: k / block_cols */
    sb_factor factor;                 /* of the weights */
    sb_factor input;                  /* of the activations that this layer quantizes */
    uint8_t code_bits; /* of I8 codes, if fewer are declared; 0: all of the format's */
    float origin;      /* the factor that a conversion replaced by its reciprocal; 0: none */
    sb_container container;
} sb_quant;

/* Row i of the matrix is stored row first_row + (row_map ? row_map[i] : i), of cols elements.
 * row_map makes a permuted storage (Qwen3-Next's interleaved projections) read like the plain one;
 * vectors are matrices of one row. The bytes belong to somebody else. */
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

/* First byte of row i of a plain matrix. */
static inline const unsigned char *sb_matrix_row_bytes(const sb_matrix *matrix, uint32_t row)
{
    return matrix->data +
           sb_matrix_stored_row(matrix, row) * matrix->cols * sb_format_bytes(matrix->format);
}

/* The exact values of row i of a plain matrix. */
static inline void sb_matrix_row(const sb_matrix *matrix, uint32_t row, float *values)
{
    sb_decode(matrix->format, sb_matrix_row_bytes(matrix, row), matrix->cols, values);
}

#endif
