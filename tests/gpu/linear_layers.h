/* linear_layers.h - drawn matrices of every container, for the tests of linear kernels. */
#ifndef SB_TESTS_GPU_LINEAR_LAYERS_H
#define SB_TESTS_GPU_LINEAR_LAYERS_H

#include "ref/formats/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum layer_kind {
    LAYER_bf16,
    LAYER_f16, /* with values that bfloat16 can hold */
    LAYER_nvfp4_ct,
    LAYER_nvfp4_modelopt,
    LAYER_mxfp4,
    LAYER_mxfp8,
    LAYER_fp8_block,
    LAYER_fp8_channel,
    LAYER_fp8_tensor,
    LAYER_int8_channel,
    LAYER_gptq,         /* groups of 64, zero points of version 1 */
    LAYER_gptq_ordered, /* the same with a group index */
    LAYER_awq,          /* groups of 32 */
    LAYER_ct,           /* groups of 32, zero points along the rows */
    LAYER_ct8,          /* groups of 48, 8 bits */
    LAYER_pairs,        /* groups of 128 */
    LAYER_COUNT
} layer_kind;

const char *layer_name(layer_kind kind);

/* A matrix with its own memory. rows is a multiple of 8, cols of 16. */
typedef struct layer {
    sb_matrix matrix;
    unsigned char *data, *scales, *zeros, *index;
} layer;
int layer_draw(layer *l, layer_kind kind, uint32_t rows, uint32_t cols, uint64_t key);
void layer_free(layer *l);

#ifdef __cplusplus
}
#endif

#endif
