/* layers.h - every linear layer of a checkpoint of any model, found by names and shapes. */
#ifndef SB_MODEL_LAYERS_H
#define SB_MODEL_LAYERS_H

#include "ref/model/detect.h"

/* Called for each layer in the order of names ("...self_attn.q_proj", or
 * "...mlp.experts.gate_up_proj" for a stack). A status other than SB_OK ends the walk. */
typedef sb_status (*sb_layer_fn)(void *ctx, const char *name, const sb_found *found, sb_error *err);

/* Visits the layers: modules with tensors of parts.def. Plain tensors count only if they are
 * matrices or stacks of experts, not norms or convolutions. Embeddings are visited, too. If zero
 * points do not show their convention, the declaration decides. Fails if sb_detect fails, or
 * sb_declared_load, which is called only for such zero points. */
sb_status sb_each_layer(const sb_checkpoint *checkpoint, sb_layer_fn visit, void *ctx,
                        sb_error *err);

/* If the tensor alone shows that a layer exists, returns 1 and sets the name of the layer, and the
 * E of a stack or 0. Returns 0 for vectors, for convolutions, and for names without the suffix of a
 * part. It also returns 0 for some parts of layers. */
int sb_tensor_layer(const sb_tensor *tensor, char *layer, size_t size, uint32_t *experts);

/* Visits the names of the layers that sb_tensor_layer finds, each once, with the E of a stack or 0.
 * Reads no tensor data. */
typedef sb_status (*sb_layer_name_fn)(void *ctx, const char *name, uint32_t experts, sb_error *err);
sb_status sb_each_layer_name(const sb_checkpoint *checkpoint, sb_layer_name_fn visit, void *ctx,
                             sb_error *err);

/* One matrix, a layer or one expert of a stack. */
typedef struct sb_piece {
    char name[SB_MAX_TENSOR_NAME + 32]; /* "...mlp.experts.5.gate_proj" */
    const sb_found *found;              /* the layer or stack that contains it */
    uint32_t expert;
    sb_matrix matrix;
} sb_piece;

typedef sb_status (*sb_piece_fn)(void *ctx, const sb_piece *piece, sb_error *err);

/* Visits the matrices of a layer: the layer itself, or the matrices of each expert of a stack, with
 * the names that they would have as single tensors. The rows of gate_up_proj are divided as in
 * M-7. */
sb_status sb_each_piece(const sb_checkpoint *checkpoint, const char *name, const sb_found *found,
                        sb_piece_fn visit, void *ctx, sb_error *err);

/* The name without its prefix and its numbers:
 * "model.language_model.layers.3.mlp.experts.5.gate_proj" gives "mlp.experts.gate_proj". Returns
 * kind. */
char *sb_layer_kind(const char *name, char *kind, size_t size);

#endif
