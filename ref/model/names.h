/* names.h - which tensors a model has, under which names and shapes: one enumeration for reading
 * and for writing (M-5). */
#ifndef SB_MODEL_NAMES_H
#define SB_MODEL_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/model/config.h"

typedef enum sb_role {
#define SB_TENSOR(role, scope, name, rank, d0, d1, d2) SB_ROLE_##role,
#include "ref/model/tensors.def"
#undef SB_TENSOR
    SB_ROLE_COUNT
} sb_role;

/* How a checkpoint stores what the configuration does not say. */
typedef struct sb_storage {
    const char *prefix;    /* "model.", "model.language_model.", "language_model.model." */
    int fused_experts;     /* trunk experts as 3-D tensors, or one tensor per expert */
    int fused_mtp_experts; /* the same of the MTP layers */
    int has_mtp;           /* mtp.* present */
} sb_storage;

enum { SB_NAME_MAX = 256, SB_NO_EXPERT = 0x7fffffff };

/* One expected tensor. layer counts 0..L-1 in the trunk, L.. for MTP layers; root tensors have L.
 */
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
 * Stops at the first status that is not SB_OK and returns it. */
sb_status sb_each_tensor(const sb_config *config, const sb_storage *storage, sb_expected_fn visit,
                         void *ctx, sb_error *err);

/* The same where layers differ: fused_of says of each, the MTP layers behind the trunk, whether its
 * experts are fused. NULL: as storage says. */
sb_status sb_each_tensor_mixed(const sb_config *config, const sb_storage *storage,
                               const unsigned char *fused_of, sb_expected_fn visit, void *ctx,
                               sb_error *err);

/* What tensor names of the text model may begin with (M-6); none before a longer one that it
 * begins. */
enum { SB_TEXT_PREFIXES = 3 };
extern const char *const sb_text_prefixes[SB_TEXT_PREFIXES];

/* The name after its prefix, as tensors.def has it. */
const char *sb_role_name(sb_role role);

#endif
