#include "ref/state/drafter.h"

#include <stdlib.h>

#include "ref/base/mem.h"

size_t sb_drafter_kv_size(const sb_drafter_state *e)
{
    return (size_t)e->entries * e->kv_heads * e->head_dim;
}

size_t sb_drafter_pending_size(const sb_drafter_state *e)
{
    return (size_t)e->states * e->width;
}

sb_status sb_drafter_state_new(const sb_drafter_state *sizes, sb_drafter_state **out, sb_error *err)
{
    sb_drafter_state *e = sb_alloc(1, sizeof *e);
    if (e) {
        *e = *sizes;
        e->keys = sb_alloc(sb_drafter_kv_size(e) + 1, sizeof *e->keys);
        e->values = sb_alloc(sb_drafter_kv_size(e) + 1, sizeof *e->values);
        e->pending = sb_alloc(sb_drafter_pending_size(e), sizeof *e->pending);
    }
    if (!e || !e->keys || !e->values || !e->pending) {
        sb_drafter_state_free(e);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the entries of a drafter");
    }
    *out = e;
    return SB_OK;
}

void sb_drafter_state_free(sb_drafter_state *e)
{
    if (!e)
        return;
    free(e->keys);
    free(e->values);
    free(e->pending);
    free(e);
}

/* D-13: "over the number of entries as an unsigned 64-bit integer, K (entries, nKV, hd) and V
 * likewise, and the states (n, Ht) of the last token" */
sb_status sb_drafter_state_digest(const sb_drafter_state *e, sb_digest *digest, sb_error *err)
{
    sb_hash *hash = sb_hash_new();
    if (!hash)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a digest");
    sb_hash_u64(hash, e->entries);
    sb_hash_f32(hash, e->keys, sb_drafter_kv_size(e));
    sb_hash_f32(hash, e->values, sb_drafter_kv_size(e));
    sb_hash_f32(hash, e->pending, sb_drafter_pending_size(e));
    *digest = sb_hash_end(hash);
    sb_hash_free(hash);
    return SB_OK;
}
