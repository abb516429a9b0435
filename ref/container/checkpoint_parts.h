/* checkpoint_parts.h - the parts of a checkpoint, for the sources that open one. */
#ifndef SB_CONTAINER_CHECKPOINT_PARTS_H
#define SB_CONTAINER_CHECKPOINT_PARTS_H

#include "ref/container/checkpoint.h"
#include "ref/container/index.h"

#define SB_SINGLE_NAME "model.safetensors"
#define SB_INDEX_NAME "model.safetensors.index.json"
#define SB_SUFFIX ".safetensors"

typedef struct sb_shard {
    char *name;
    char *folder; /* folder of the checkpoint from which the shard was overlaid; NULL: own shard */
    sb_safetensors file;
} sb_shard;

struct sb_checkpoint {
    char *path;
    char *folder;
    sb_shard *shards;
    size_t shard_count;
    sb_tensor *tensors; /* of all shards, sorted by name */
    size_t count;
    uint64_t bytes;
    int has_index;
    sb_index index;
    char **names; /* names of tensors that an overlay renamed (overlay.h) */
    size_t name_count;
};

/* Sets the members `path` (without trailing slashes) and `folder` (the folder of config.json). */
sb_status sb_checkpoint_set_paths(const char *path, int folder, sb_checkpoint *checkpoint,
                                  sb_error *err);

/* Opens the next shard; the array must have room for it. */
sb_status sb_checkpoint_add_shard(sb_checkpoint *checkpoint, const char *path, const char *name,
                                  sb_error *err);

/* Puts the tensors of all shards into one list, sorted by name and shard. */
sb_status sb_checkpoint_merge(sb_checkpoint *checkpoint, sb_error *err);

#endif
