/* digest.h - the digests of tensors and of a whole checkpoint (D-1, G-5). */
#ifndef SB_CONTAINER_DIGEST_H
#define SB_CONTAINER_DIGEST_H

#include "ref/base/hash.h"
#include "ref/container/checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Computes the digest of D-1. Fails only with SB_ERR_MEMORY. */
sb_status sb_tensor_digest(const sb_tensor *tensor, sb_digest *digest, sb_error *err);

/* A shape as text without blanks: "[2,3]", "[]". The function returns room->text. */
typedef struct sb_shape_text {
    char text[SB_MAX_RANK * 21 + 3];
} sb_shape_text;
const char *sb_shape_show(const sb_tensor *tensor, sb_shape_text *room);

/* Adds a tensor with its digest to the digest of a checkpoint. Must be called for every tensor, in
 * the order of names. */
void sb_digest_add(sb_hash *all, const char *name, const char *dtype, unsigned rank,
                   const uint64_t *shape, const sb_digest *digest);

/* The checkpoint digest of G-5: names, dtypes, shapes and bytes, independent of shards. Reads the
 * whole checkpoint. */
sb_status sb_checkpoint_digest(const sb_checkpoint *checkpoint, sb_digest *digest, sb_error *err);

#ifdef __cplusplus
}
#endif

#endif
