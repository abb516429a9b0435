/* layers.h - every linear layer of a checkpoint, whatever the model: found by names and shapes. */
#ifndef SB_MODEL_LAYERS_H
#define SB_MODEL_LAYERS_H

#include "ref/model/detect.h"

/* Called for each layer in order of its name ("...self_attn.q_proj", "...mlp.experts.gate_up_proj"
 * of a stack). A status that is not SB_OK ends the walk. */
typedef sb_status (*sb_layer_fn)(void *ctx, const char *name, const sb_found *found, sb_error *err);

/* A layer is what has tensors of parts.def; of plain ones only matrices and stacks of experts
 * count, no norms and convolutions. Embeddings are read as layers, too. Zero points that do not say
 * which convention they follow go by config.json and its like. Fails as sb_detect and, for
 * such layers, sb_declared_load do. */
sb_status sb_each_layer(const sb_checkpoint *checkpoint, sb_layer_fn visit, void *ctx,
                        sb_error *err);

/* Whether a tensor makes a layer: 1, the name of the layer, and the E of a stack or 0. 0 for
 * vectors, convolutions, and what has no part's name; layers have parts that make none, too. */
int sb_tensor_layer(const sb_tensor *tensor, char *layer, size_t size, uint32_t *experts);

/* Only the names of those layers, each once, and the E of a stack or 0; no tensor is looked into.
 */
typedef sb_status (*sb_layer_name_fn)(void *ctx, const char *name, uint32_t experts, sb_error *err);
sb_status sb_each_layer_name(const sb_checkpoint *checkpoint, sb_layer_name_fn visit, void *ctx,
                             sb_error *err);

/* One matrix that is used on its own. */
typedef struct sb_piece {
    char name[SB_MAX_TENSOR_NAME + 32]; /* "...mlp.experts.5.gate_proj" */
    const sb_found *found;              /* what it is a part of */
    uint32_t expert;
    sb_matrix matrix;
} sb_piece;

typedef sb_status (*sb_piece_fn)(void *ctx, const sb_piece *piece, sb_error *err);

/* The matrices of a layer: itself, or of a stack those of each expert, under the names that they
 * have one by one. M-7 says which rows of gate_up_proj are which. */
sb_status sb_each_piece(const sb_checkpoint *checkpoint, const char *name, const sb_found *found,
                        sb_piece_fn visit, void *ctx, sb_error *err);

/* "mlp.experts.gate_proj" of "model.language_model.layers.3.mlp.experts.5.gate_proj": without what
 * counts and what all names have. Returns kind. */
char *sb_layer_kind(const char *name, char *kind, size_t size);

#endif
