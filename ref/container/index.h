/* index.h - model.safetensors.index.json: the shard of every tensor. */
#ifndef SB_CONTAINER_INDEX_H
#define SB_CONTAINER_INDEX_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SB_MAX_SHARDS = 10000 };

typedef struct sb_index_entry {
    const char *tensor;
    const char *shard_name;
    uint32_t shard; /* position in sb_index.shards */
} sb_index_entry;

typedef struct sb_index_shard {
    const char *name;
    size_t tensors; /* the number of tensors that the index assigns to the shard */
} sb_index_shard;

typedef struct sb_index {
    json_t *document;        /* owns all strings */
    sb_index_entry *entries; /* sorted bytewise by tensor */
    size_t count;
    sb_index_shard *shards; /* sorted bytewise by name */
    size_t shard_count;
    int has_total; /* metadata.total_size is an unsigned integer */
    uint64_t total;
} sb_index;

/* Parses and checks the text of an index. `file` names the index in messages. */
sb_status sb_index_parse(const char *text, size_t n, const char *file, sb_index *out,
                         sb_error *err);
sb_status sb_index_load(const char *path, sb_index *out, sb_error *err);
void sb_index_free(sb_index *index);

/* True if a shard of the index has this name. */
int sb_index_has_shard(const sb_index *index, const char *name);

#ifdef __cplusplus
}
#endif

#endif
