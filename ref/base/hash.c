#include "ref/base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"

struct sb_hash {
    XXH3_state_t *state;
};

sb_hash *sb_hash_new(void)
{
    sb_hash *hash = sb_alloc(1, sizeof *hash);
    if (!hash)
        return NULL;
    hash->state = XXH3_createState(); /* XXH3 needs 64-byte alignment and provides it itself */
    if (!hash->state) {
        sb_hash_free(hash);
        return NULL;
    }
    XXH3_128bits_reset(hash->state);
    return hash;
}

void sb_hash_free(sb_hash *hash) /* NULL is fine */
{
    if (hash)
        XXH3_freeState(hash->state);
    free(hash);
}

void sb_hash_bytes(sb_hash *hash, const void *data, size_t bytes)
{
    XXH3_128bits_update(hash->state, data, bytes);
}

void sb_hash_u64(sb_hash *hash, uint64_t value)
{
    unsigned char bytes[8];
    sb_store_u64(bytes, value);
    sb_hash_bytes(hash, bytes, sizeof bytes);
}

/* D-1: "the little-endian bytes of its elements in row-major order" */
void sb_hash_f32(sb_hash *hash, const float *values, size_t count)
{
    unsigned char bytes[4096];
    while (count) {
        size_t part = count < sizeof bytes / 4 ? count : sizeof bytes / 4;
        for (size_t i = 0; i < part; i++)
            sb_store_u32(bytes + 4 * i, sb_bits_f32(values[i]));
        sb_hash_bytes(hash, bytes, 4 * part);
        values += part;
        count -= part;
    }
}

static sb_digest to_hex(XXH128_hash_t value)
{
    sb_digest digest;
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, value);
    for (size_t i = 0; i < 16; i++) {
        digest.hex[2 * i] = "0123456789abcdef"[canonical.digest[i] >> 4];
        digest.hex[2 * i + 1] = "0123456789abcdef"[canonical.digest[i] & 15];
    }
    digest.hex[32] = '\0';
    return digest;
}

sb_digest sb_hash_end(const sb_hash *hash)
{
    return to_hex(XXH3_128bits_digest(hash->state));
}

uint64_t sb_hash_key(const void *data, size_t bytes)
{
    return XXH3_64bits(data, bytes);
}

sb_digest sb_digest_f32(const float *values, size_t count)
{
    sb_hash on_stack;
    XXH3_state_t state;
    on_stack.state = &state;
    XXH3_128bits_reset(&state);
    sb_hash_f32(&on_stack, values, count);
    return sb_hash_end(&on_stack);
}
