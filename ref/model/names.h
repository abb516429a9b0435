/* names.h - the names and shapes of all tensors of a model: one enumeration for reading and writing
 * (M-5). */
#ifndef SB_MODEL_NAMES_H
#define SB_MODEL_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/model/config.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sb_role {
#define SB_TENSOR(role, scope, name, rank, d0, d1, d2) SB_ROLE_##role,
#include "ref/model/tensors.def"
#undef SB_TENSOR
    SB_ROLE_COUNT
} sb_role;

/* The storage choices of a checkpoint that are not in its configuration. */
typedef struct sb_storage {
    const char *prefix;    /* "model.", "model.language_model.", "language_model.model." */
    int fused_experts;     /* 1: the first experts of the trunk are 3-D tensors; 0: one for each */
    int fused_mtp_experts; /* the same for experts of the MTP layers */
    int has_mtp;           /* mtp.* tensors exist */
} sb_storage;

enum { SB_NAME_MAX = 256, SB_NO_EXPERT = 0x7fffffff };

/* One expected tensor. layer is 0..L-1 in the trunk and L.. in MTP layers. Root tensors have L. */
typedef struct sb_expected {
    char name[SB_NAME_MAX];
    sb_role role;
    uint32_t layer;
    uint32_t expert; /* SB_NO_EXPERT unless the tensor belongs to one expert */
    unsigned rank;
    uint64_t shape[3];
} sb_expected;

typedef sb_status (*sb_expected_fn)(void *ctx, const sb_expected *tensor, sb_error *err);

/* Calls visit for every tensor of the model in storage order: embedding, layers, norm, head, MTP.
 * Stops at the first status other than SB_OK and returns it. */
sb_status sb_each_tensor(const sb_config *config, const sb_storage *storage, sb_expected_fn visit,
                         void *ctx, sb_error *err);

/* As sb_each_tensor, for layers with different storage: fused_of[i] is 1 if the experts of layer i
 * are fused, where MTP layers follow the trunk. NULL: as in `storage`. */
sb_status sb_each_tensor_mixed(const sb_config *config, const sb_storage *storage,
                               const unsigned char *fused_of, sb_expected_fn visit, void *ctx,
                               sb_error *err);

/* The possible prefixes of tensor names of the text model (M-6). A longer prefix comes before a
 * shorter prefix with which it starts. */
enum { SB_TEXT_PREFIXES = 3 };
extern const char *const sb_text_prefixes[SB_TEXT_PREFIXES];

/* The name without its prefix, as in tensors.def. */
const char *sb_role_name(sb_role role);

#ifdef __cplusplus
}
#endif

#endif
