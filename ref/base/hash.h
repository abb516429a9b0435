/* hash.h - the digest: XXH3-128 of little-endian bytes, printed as 32 hex digits (canonical order).
 */
#ifndef SB_BASE_HASH_H
#define SB_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sb_digest {
    char hex[33]; /* 32 lower-case digits, most significant first, and a NUL */
} sb_digest;

typedef struct sb_hash sb_hash;

sb_hash *sb_hash_new(void); /* NULL if out of memory */
void sb_hash_free(sb_hash *hash);
void sb_hash_bytes(sb_hash *hash, const void *data, size_t bytes);
void sb_hash_u64(sb_hash *hash, uint64_t value); /* 8 bytes, little-endian */
void sb_hash_f32(sb_hash *hash, const float *values,
                 size_t count); /* 4 bytes each, little-endian */
sb_digest sb_hash_end(const sb_hash *hash);

/* XXH3-64: a key for finding equal bytes, not a digest. */
uint64_t sb_hash_key(const void *data, size_t bytes);

/* The digest of an array of float32: D-1 of the specification. */
sb_digest sb_digest_f32(const float *values, size_t count);

#ifdef __cplusplus
}
#endif

#endif
