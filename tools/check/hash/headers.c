#include "tools/check/hash/headers.h"

#include <string.h>

#include "tools/check/hash/manifest.h"

static sb_status digest_of(const sb_checkpoint *c, sb_digest *digest, sb_error *err)
{
    sb_digest none;
    sb_hash *all = sb_hash_new();
    if (!all)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a digest");
    memset(none.hex, '-', 32);
    none.hex[32] = '\0';
    for (size_t i = 0; i < sb_checkpoint_count(c); i++) {
        const sb_tensor *t = sb_checkpoint_at(c, i);
        sb_digest_add(all, t->name, sb_dtype_name(t->dtype), t->rank, t->shape, &none);
    }
    *digest = sb_hash_end(all);
    sb_hash_free(all);
    return SB_OK;
}

sb_status sb_headers_print(const sb_checkpoint *c, FILE *out, sb_error *err)
{
    sb_digest digest;
    sb_status status = digest_of(c, &digest, err);
    if (status)
        return status;
    fprintf(out, "samebit-headers 1\n");
    for (size_t i = 0; i < sb_checkpoint_count(c); i++) {
        const sb_tensor *t = sb_checkpoint_at(c, i);
        sb_shape_text shape;
        fprintf(out, "tensor %s %s ", sb_dtype_name(t->dtype), sb_shape_show(t, &shape));
        sb_manifest_print_name(t->name, out);
    }
    fprintf(out, "headers %s\n", digest.hex);
    return SB_OK;
}

sb_status sb_headers_json(const sb_checkpoint *c, json_t *document, sb_error *err)
{
    sb_digest digest;
    json_t *tensors = json_array();
    sb_status status = digest_of(c, &digest, err);
    for (size_t i = 0; i < sb_checkpoint_count(c) && !status; i++) {
        const sb_tensor *t = sb_checkpoint_at(c, i);
        json_t *shape = json_array();
        for (unsigned d = 0; d < t->rank; d++)
            json_array_append_new(shape, json_integer((json_int_t)t->shape[d]));
        json_array_append_new(tensors, json_pack("{s:s,s:s,s:o}", "name", t->name, "dtype",
                                                 sb_dtype_name(t->dtype), "shape", shape));
    }
    json_object_set_new(document, "tensors", tensors);
    if (!status)
        json_object_set_new(document, "headers", json_string(digest.hex));
    return status;
}
