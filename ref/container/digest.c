#include "ref/container/digest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static sb_status no_memory(sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for a digest");
}

const char *sb_shape_show(const sb_tensor *tensor, sb_shape_text *room)
{
    size_t used = 1;
    room->text[0] = '[';
    for (unsigned d = 0; d < tensor->rank; d++)
        used += (size_t)snprintf(room->text + used, sizeof room->text - used, "%s%" PRIu64,
                                 d ? "," : "", tensor->shape[d]);
    snprintf(room->text + used, sizeof room->text - used, "]");
    return room->text;
}

sb_status sb_tensor_digest(const sb_tensor *tensor, sb_digest *digest, sb_error *err)
{
    sb_hash *hash = sb_hash_new();
    if (!hash)
        return no_memory(err);
    sb_hash_bytes(hash, tensor->data, (size_t)tensor->bytes);
    *digest = sb_hash_end(hash);
    sb_hash_free(hash);
    return SB_OK;
}

/* G-5: "over every tensor in order of its name: over its name, dtype and shape as text, and the
 * digest of its bytes. So it does not depend on shards or on the order in the file" */
void sb_digest_add(sb_hash *all, const char *name, const char *dtype, unsigned rank,
                   const uint64_t *shape, const sb_digest *digest)
{
    char text[SB_MAX_RANK * 22 + 1] = "";
    for (unsigned d = 0; d < rank; d++)
        snprintf(text + strlen(text), sizeof text - strlen(text), " %" PRIu64, shape[d]);
    sb_hash_bytes(all, name, strlen(name) + 1);
    sb_hash_bytes(all, dtype, strlen(dtype));
    sb_hash_bytes(all, text, strlen(text) + 1);
    sb_hash_bytes(all, digest->hex, 32);
}

sb_status sb_checkpoint_digest(const sb_checkpoint *checkpoint, sb_digest *digest, sb_error *err)
{
    sb_hash *all = sb_hash_new();
    sb_status status = all ? SB_OK : no_memory(err);
    for (size_t i = 0; !status && i < sb_checkpoint_count(checkpoint); i++) {
        const sb_tensor *t = sb_checkpoint_at(checkpoint, i);
        sb_digest bytes;
        status = sb_tensor_digest(t, &bytes, err);
        if (!status)
            sb_digest_add(all, t->name, sb_dtype_name(t->dtype), t->rank, t->shape, &bytes);
    }
    if (!status)
        *digest = sb_hash_end(all);
    sb_hash_free(all);
    return status;
}
