/* weights.h - binds every tensor of a checkpoint to its role, in place. */
#ifndef SB_MODEL_WEIGHTS_H
#define SB_MODEL_WEIGHTS_H

#include "ref/base/status.h"
#include "ref/container/checkpoint.h"
#include "ref/formats/matrix.h"
#include "ref/model/config.h"
#include "ref/model/declared.h"
#include "ref/model/detect.h"
#include "ref/model/names.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SB_DISAGREEMENTS = 4 };

typedef struct sb_expert {
    sb_matrix gate, up; /* (I, H) */
    sb_matrix down;     /* (H, I) */
} sb_expert;

/* One decoder layer: w[SB_ROLE_...].data is NULL for roles that the layer does not have. Vectors
 * are (1, n); conv1d is (C, kw), and F32 if the file has it quantized. Row maps give the
 * projections of Qwen3-Next the roles of Qwen3.5. */
typedef struct sb_layer {
    sb_matrix w[SB_ROLE_COUNT];
    sb_expert *experts;     /* (E), NULL in a layer with a dense MLP */
    float k_scale, v_scale; /* multipliers of an FP8 KV cache; 0: not in the file */
    unsigned char *taps;    /* of a quantized conv1d, which w[SB_ROLE_conv1d] points to; or NULL */
} sb_layer;

typedef struct sb_weights {
    sb_matrix embed_tokens, final_norm, lm_head;
    sb_layer *layers;             /* (L + mtp_layers): the MTP layers follow the trunk */
    sb_matrix mtp[SB_ROLE_COUNT]; /* mtp_fc, mtp_norm_embedding, mtp_norm_hidden, mtp_norm */
    sb_storage storage;           /* the storage of this checkpoint */
    size_t bound, ignored;        /* numbers of tensors: bound, and deliberately ignored (vision) */
    uint64_t bound_bytes, ignored_bytes;
    /* The linear layers in each container: their number, where every expert counts as a layer, and
     * their bytes. */
    struct sb_stored {
        size_t layers;
        uint64_t bytes;
    } stored[SB_CONTAINER_COUNT];
    /* The number of layers whose tensors differ from their declaration, and messages about
     * the first of these layers. */
    size_t disagreements;
    char disagreement[SB_DISAGREEMENTS][512];
    uint32_t *row_maps[4];   /* qkv, z, b, a of Qwen3-Next */
    unsigned char *fused_of; /* (layer_count) 1: the experts of the layer are stacks */
    uint32_t layer_count;
} sb_weights;

/* Binds all tensors. The checkpoint must stay open as long as the weights are used. Errors name the
 * tensor: missing, unexpected, wrong shape or wrong dtype. declared may be NULL: nothing is
 * declared. */
sb_status sb_weights_bind(const sb_checkpoint *checkpoint, const sb_config *config,
                          const sb_declared *declared, sb_weights **out, sb_error *err);
void sb_weights_free(sb_weights *weights);

#ifdef __cplusplus
}
#endif

#endif
