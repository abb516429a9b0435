/* detect.h - finds out how one linear layer is stored, from its tensors alone. */
#ifndef SB_MODEL_DETECT_H
#define SB_MODEL_DETECT_H

#include "ref/base/status.h"
#include "ref/container/checkpoint.h"
#include "ref/formats/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sb_model_part {
#define SB_PART(suffix) SB_PART_##suffix,
#include "ref/model/parts.def"
#undef SB_PART
    SB_PART_COUNT
} sb_model_part;

const char *sb_part_suffix(sb_model_part part); /* "weight_scale" */

/* True if a layer in this container may have the part. */
int sb_container_takes(sb_container container, sb_model_part part);

/* True if its codes are integers in words of 32 bits. */
int sb_container_has_words(sb_container container);

/* A layer as found in the files. A stack of experts is one tensor [E, N, K] with scales [E,
 * ...]. */
typedef struct sb_found {
    sb_container container;
    const sb_tensor *part[SB_PART_COUNT]; /* NULL: absent */
    uint32_t experts;                     /* E of a stack; 0: a single layer */
    int zeros_open;   /* GPTQ zero points of unknown version (v1 or v2): read as v1 */
    int unjudged;     /* found by sb_detect_unjudged, or sb_detect_headers */
    int headers_only; /* found by sb_detect_headers: zeros and groups are unknown */
    sb_matrix matrix; /* the layer, or expert 0 of a stack */
} sb_found;

/* Finds layer `name` (without a suffix: "...self_attn.q_proj", "...mlp.experts.gate_up_proj").
 * experts is 0 or the E of a stack; rows and cols are those of the configuration, or 0 to take them
 * from the tensors. SB_ERR_INPUT names a tensor that is missing, superfluous, or of a wrong shape,
 * dtype or value. SB_ERR_UNSUPPORTED names a known form of storage that is not supported. If no
 * tensor of the layer exists, the container is SB_CONTAINER_COUNT, and this is not an error. */
sb_status sb_detect(const sb_checkpoint *checkpoint, const char *name, uint32_t experts,
                    uint64_t rows, uint64_t cols, sb_found *found, sb_error *err);

/* As sb_detect, but does not check the factors of weights and inputs, which may be infinite, NaN or
 * negative. Used by checks that judge the factors themselves. Such a layer must not be used for
 * computing. */
sb_status sb_detect_unjudged(const sb_checkpoint *checkpoint, const char *name, uint32_t experts,
                             uint64_t rows, uint64_t cols, sb_found *found, sb_error *err);

/* As sb_detect_unjudged, but reads only headers and single numbers of the payload. The zero points
 * and group indices of GPTQ and AWQ, which are spread over the files, are not read. */
sb_status sb_detect_headers(const sb_checkpoint *checkpoint, const char *name, uint32_t experts,
                            sb_found *found, sb_error *err);

/* Sets *out to the matrix of expert e of a stack. */
sb_status sb_found_expert(const sb_checkpoint *checkpoint, const sb_found *found, uint32_t e,
                          sb_matrix *matrix, sb_error *err);

/* The folder from which the layer was overlaid (overlay.h), or NULL. */
const char *sb_found_origin(const sb_checkpoint *checkpoint, const sb_found *found);

/* If the name of a tensor ends in the suffix of a part: returns 1 and writes the name of its layer
 * to `layer` (size bytes). Else returns 0. "P.weight_scale" gives "P". */
int sb_layer_of(const char *tensor, char *layer, size_t size);

#ifdef __cplusplus
}
#endif

#endif
