#include "ref/run/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"

sb_status sb_model_open(const char *folder, sb_model **out, sb_error *err)
{
    sb_model *model = sb_alloc(1, sizeof *model);
    char *config_path = NULL;
    sb_status status = SB_ERR_MEMORY;
    if (!model)
        return sb_fail(err, status, "out of memory");
    status = sb_checkpoint_open(folder, &model->checkpoint, err);
    if (!status) {
        config_path = sb_path_join(sb_checkpoint_folder(model->checkpoint), "config.json");
        status = config_path ? sb_config_load(config_path, &model->config, err)
                             : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    }
    if (!status)
        status = sb_weights_bind(model->checkpoint, &model->config, &model->weights, err);
    free(config_path);
    if (status) {
        sb_model_close(model);
        return status;
    }
    *out = model;
    return SB_OK;
}

void sb_model_close(sb_model *model)
{
    if (!model)
        return;
    sb_weights_free(model->weights);
    if (model->checkpoint)
        sb_checkpoint_close(model->checkpoint);
    free(model);
}

/* G-5: "for every tensor in order of its name: name, dtype and shape as text, and the digest of its
 * bytes; and it does not depend on shards or on the order in the file" */
sb_status sb_checkpoint_digest(const sb_checkpoint *checkpoint, sb_digest *digest, sb_error *err)
{
    sb_hash *all = sb_hash_new();
    sb_status status = all ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for a digest");
    for (size_t i = 0; !status && i < sb_checkpoint_count(checkpoint); i++) {
        const sb_tensor *t = sb_checkpoint_at(checkpoint, i);
        char shape[256] = "";
        for (unsigned d = 0; d < t->rank; d++)
            snprintf(shape + strlen(shape), sizeof shape - strlen(shape), " %llu",
                     (unsigned long long)t->shape[d]);
        sb_hash *one = sb_hash_new();
        if (!one) {
            status = sb_fail(err, SB_ERR_MEMORY, "out of memory for a digest");
            break;
        }
        sb_hash_bytes(one, t->data, (size_t)t->bytes);
        sb_digest bytes = sb_hash_end(one);
        sb_hash_free(one);
        sb_hash_bytes(all, t->name, strlen(t->name) + 1);
        sb_hash_bytes(all, sb_dtype_name(t->dtype), strlen(sb_dtype_name(t->dtype)));
        sb_hash_bytes(all, shape, strlen(shape) + 1);
        sb_hash_bytes(all, bytes.hex, 32);
    }
    if (!status)
        *digest = sb_hash_end(all);
    sb_hash_free(all);
    return status;
}
