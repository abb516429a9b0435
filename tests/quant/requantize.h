/* requantize.h - a BF16 layer of golden/quant/in through the quantizers of tools/make. */
#ifndef SB_TESTS_QUANT_REQUANTIZE_H
#define SB_TESTS_QUANT_REQUANTIZE_H

#include "ref/container/checkpoint.h"
#include "tools/make/scheme.h"

typedef enum quantizer_view { VIEW_PLAIN, VIEW_ROW, VIEW_BLOCKS } quantizer_view;
typedef enum quantizer_partners { PARTNERS_SCHEME, PARTNERS_LINEAR } quantizer_partners;
typedef enum quantizer_known { KNOWN_NONE, KNOWN_ZEROS } quantizer_known;

/* A row of quantizers.def; NULL behind the last. */
typedef struct quantizer_row {
    const char *folder, *source;
    sb_scheme scheme;
    uint32_t group;
    sb_scale_rule rule;
    quantizer_view view;
    quantizer_partners partners;
    const char *only;
    size_t layers;
    quantizer_known known;
} quantizer_row;

const quantizer_row *quantizer_row_at(size_t i);

/* How a layer is computed; the planted mistakes change it. */
typedef struct formula {
    sb_factor_fn factor;
    void (*quantize)(const sb_band *band);
    sb_fused fused;
    quantizer_partners partners;
    sb_scale_rule rule;
    uint32_t group;
} formula;

formula formula_of(const quantizer_row *row);

/* A matrix of BF16 weights; free() them. Each expert of a stack has a name like a layer. */
typedef struct source_layer {
    float *weights; /* (rows, cols); NULL if there is no such layer */
    uint64_t rows, cols;
} source_layer;

source_layer source_layer_of(const sb_checkpoint *source, const char *module);

/* The bytes of the layer's tensors, by content: codes, scales, zeros and factor. */
typedef struct requantized {
    unsigned char *part[SB_CONTENT_kv + 1]; /* NULL: the scheme has none */
    uint64_t bytes[SB_CONTENT_kv + 1];
} requantized;

requantized requantize(const quantizer_row *row, const formula *how, const sb_checkpoint *source,
                       const char *module, const source_layer *layer);
void requantized_free(requantized *result);

#endif
