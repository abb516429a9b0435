/* quant_layer.h - quantized linear layers for tests: the drawn logical parts of a layer, and the
 * tensors that hold them. The packing does not use ref/formats/wide.c. */
#ifndef SB_TESTS_LIB_QUANT_LAYER_H
#define SB_TESTS_LIB_QUANT_LAYER_H

#include "ref/model/detect.h"
#include "tests/lib/checkpoint.h"

/* The naming of the tensors of a layer P: P.weight_scale, P_weight_scale or P_scale. */
typedef enum quant_names { NAMES_DOT, NAMES_LOW, NAMES_SHORT } quant_names;

/* The group of each column: k / block without a tensor, the same in a tensor, any, or a tensor of
 * -1. */
typedef enum quant_index { INDEX_NONE, INDEX_TRIVIAL, INDEX_ANY, INDEX_UNSET } quant_index;

typedef struct quant_spec {
    const char *name; /* of the layer; NULL: QUANT_NAME */
    sb_container container;
    uint32_t experts, rows, cols; /* experts 0: a single layer */
    unsigned bits;                /* of a code */
    uint32_t block[2];            /* rows and columns that share a scale */
    sb_dtype scale;
    unsigned scale_rank; /* 0: [], 1: [n], 2: [n, k], 4: [n, 1, k, 1] */
    int scale_shared;    /* one scale for all experts */
    sb_dtype factor;
    unsigned factor_rank; /* 0: [], 1: [1], 2: [1, 1]; E instead of 1 if each expert has its own
                           * factor */
    int factor_shared;
    int input; /* also a scale of the activations */
    int asymmetric, v2;
    quant_index index;
    quant_names names;
    int special; /* NaN, infinities, negative scales and zeros among codes and scales */
} quant_spec;

typedef struct quant_layer {
    quant_spec spec;
    test_folder folder;     /* the tensors */
    float *code;            /* (E, N, K): code minus zero point */
    float *scale;           /* (E, N, K): the block scale of each element; NaN where Q-5 demands
                             * it */
    sb_factor *factor;      /* (E) */
    sb_factor *input;       /* (E) */
    sb_zeros zeros;         /* the encoding of the zero points */
    sb_container container; /* the container that must be detected */
} quant_layer;

#define QUANT_NAME "model.layers.0.mlp.experts.gate_up_proj"

/* Values, tensors and names are a pure function of spec and seed. */
quant_layer quant_layer_draw(const quant_spec *spec, uint64_t seed);
void quant_layer_free(quant_layer *layer);

/* Writes the tensors as a checkpoint of one file, without flushing it to disk, and opens it. */
sb_checkpoint *quant_open(const test_folder *folder, const char *test);

/* The same, and detects the format of the layer's tensors. Fails the test if the result is
 * wrong. */
void quant_find(const quant_layer *layer, const char *test, sb_checkpoint **checkpoint,
                sb_found *found);

/* "container 4x32 of 3, ..." for messages, in a static buffer. */
const char *quant_spec_text(const quant_spec *spec);

/* The name of a part in this naming, in a static buffer. */
const char *quant_part_name(const quant_spec *spec, const char *suffix);

/* The variants of every container. */
const quant_spec *quant_variants(size_t *count);

#endif
