/* eagle3_tensors.h - the names and shapes of all tensors of an EAGLE-3 drafter: one list for
 * reading and checking (M-12). */
#ifndef SB_MODEL_EAGLE3_TENSORS_H
#define SB_MODEL_EAGLE3_TENSORS_H

#include "ref/container/checkpoint.h"
#include "ref/model/eagle3.h"
#include "ref/model/names.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sb_eagle3_part {
    SB_EAGLE3_fc,
    SB_EAGLE3_input_norm, /* with norm_before_fc: of all states together */
    SB_EAGLE3_fc_norm,    /* with fc_norm: one for each state */
    SB_EAGLE3_hidden_norm,
    SB_EAGLE3_layer, /* a tensor of the decoder layer; `role` says which */
    SB_EAGLE3_norm,
    SB_EAGLE3_embed_tokens, /* optional: else the target's */
    SB_EAGLE3_lm_head,      /* optional where every token is drafted: else the target's */
    SB_EAGLE3_d2t,          /* (Vd) I64, optional where every token is drafted */
    SB_EAGLE3_t2d,          /* (Vt) BOOL, optional */
} sb_eagle3_part;

typedef struct sb_eagle3_tensor {
    sb_eagle3_part part;
    sb_role role;   /* SB_ROLE_COUNT for what no other model has */
    uint32_t state; /* of fc_norm: the state that it norms */
    int optional;   /* 1: a drafter without it is complete */
    char name[64];
    unsigned rank;
    uint64_t shape[2];
} sb_eagle3_tensor;

typedef sb_status (*sb_eagle3_tensor_fn)(void *ctx, const sb_eagle3_tensor *tensor, sb_error *err);

/* Visits every tensor that the configuration implies, the optional ones too. layer: "midlayer." or
 * "layers.0.". Stops at the first status other than SB_OK and returns it. */
sb_status sb_eagle3_each_tensor(const sb_eagle3_config *config, const char *layer,
                                sb_eagle3_tensor_fn visit, void *ctx, sb_error *err);

/* "midlayer." if the checkpoint names its layer so, else "layers.0.". */
const char *sb_eagle3_layer_name(const sb_checkpoint *checkpoint);

#ifdef __cplusplus
}
#endif

#endif
