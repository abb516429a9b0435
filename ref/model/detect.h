/* detect.h - how one linear layer is stored, from its tensors alone. */
#ifndef SB_MODEL_DETECT_H
#define SB_MODEL_DETECT_H

#include "ref/base/status.h"
#include "ref/container/checkpoint.h"
#include "ref/formats/matrix.h"

typedef enum sb_model_part {
#define SB_PART(suffix) SB_PART_##suffix,
#include "ref/model/parts.def"
#undef SB_PART
    SB_PART_COUNT
} sb_model_part;

const char *sb_part_suffix(sb_model_part part); /* "weight_scale" */

/* Whether a layer stored as this may have the part. */
int sb_container_takes(sb_container container, sb_model_part part);

/* What was found of a layer. A stack of experts is one tensor [E, N, K] with scales [E, ...]. */
typedef struct sb_found {
    sb_container container;
    const sb_tensor *part[SB_PART_COUNT]; /* NULL: not there */
    uint32_t experts;                     /* E, or 0 of a layer of its own */
    int zeros_open;   /* GPTQ zero points that do not say whether they are v1 or v2: read as v1 */
    int unjudged;     /* found by sb_detect_unjudged, or sb_detect_headers */
    int headers_only; /* found by sb_detect_headers: zeros and groups are not known */
    sb_matrix matrix; /* the layer; of a stack expert 0 */
} sb_found;

/* Finds layer `name` (without a suffix: "...self_attn.q_proj", "...mlp.experts.gate_up_proj").
 * experts is 0 or the E of a stack; rows and cols are what the configuration asks for, or 0 to take
 * them from the tensors. SB_ERR_INPUT names the tensor that is missing, superfluous, or has a wrong
 * shape, dtype or value; SB_ERR_UNSUPPORTED what is known and not read. A layer of which there is
 * no tensor at all has container SB_CONTAINER_COUNT and is no error. */
sb_status sb_detect(const sb_checkpoint *checkpoint, const char *name, uint32_t experts,
                    uint64_t rows, uint64_t cols, sb_found *found, sb_error *err);

/* The same without an opinion on the factors of weights and inputs: they are what the file has, an
 * infinity, a NaN, or a negative number among them. For a check, which has one; nothing can be
 * computed with such a layer. */
sb_status sb_detect_unjudged(const sb_checkpoint *checkpoint, const char *name, uint32_t experts,
                             uint64_t rows, uint64_t cols, sb_found *found, sb_error *err);

/* The same from headers, and of the payload only single numbers: the zero points and group indices
 * of GPTQ and AWQ, which lie all over the files, are not looked at. */
sb_status sb_detect_headers(const sb_checkpoint *checkpoint, const char *name, uint32_t experts,
                            sb_found *found, sb_error *err);

/* Expert e of a stack. */
sb_status sb_found_expert(const sb_checkpoint *checkpoint, const sb_found *found, uint32_t e,
                          sb_matrix *matrix, sb_error *err);

/* The folder that the layer was laid over from (overlay.h), or NULL. */
const char *sb_found_origin(const sb_checkpoint *checkpoint, const sb_found *found);

/* The layer that a tensor belongs to, if its name ends in a part's suffix: 1 and the name of the
 * layer in `layer` (size bytes), else 0. "P.weight_scale" gives "P". */
int sb_layer_of(const char *tensor, char *layer, size_t size);

#endif
