/* checkpoint.h - a published checkpoint as one set of tensors: a folder or a single file.
 *
 * A folder holds model.safetensors.index.json and the shards it names, or model.safetensors alone.
 * Every *.safetensors in the folder must be accounted for: a file that nothing names is the usual
 * origin of stale or lost tensors, so it is an error and not ignored. metadata.total_size of the
 * index is never compared: published folders carry sums of other things, or 0. */
#ifndef SB_CONTAINER_CHECKPOINT_H
#define SB_CONTAINER_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/container/index.h"
#include "ref/container/safetensors.h"

typedef struct sb_checkpoint sb_checkpoint;

/* Opens a folder (with or without a trailing '/') or a single safetensors file. Only headers are
 * read; the data is mapped. */
sb_status sb_checkpoint_open(const char *path, sb_checkpoint **out, sb_error *err);
void sb_checkpoint_close(sb_checkpoint *checkpoint);

/* Tensors, sorted bytewise by name. find gives NULL for a name that is not there. */
size_t sb_checkpoint_count(const sb_checkpoint *checkpoint);
const sb_tensor *sb_checkpoint_at(const sb_checkpoint *checkpoint, size_t i);
const sb_tensor *sb_checkpoint_find(const sb_checkpoint *checkpoint, const char *name);

/* Files, sorted bytewise by name: plain names without a folder. */
size_t sb_checkpoint_shards(const sb_checkpoint *checkpoint);
const char *sb_checkpoint_shard_name(const sb_checkpoint *checkpoint, uint32_t shard);

const char *sb_checkpoint_path(const sb_checkpoint *checkpoint);   /* as given, less trailing '/' */
const char *sb_checkpoint_folder(const sb_checkpoint *checkpoint); /* where config.json stands */

/* What the file of a shard carries as "__metadata__", sorted bytewise by key; and the value of one
 * key, or NULL. */
size_t sb_checkpoint_metadata_count(const sb_checkpoint *checkpoint, uint32_t shard);
const sb_metadata_pair *sb_checkpoint_metadata_at(const sb_checkpoint *checkpoint, uint32_t shard,
                                                  size_t i);
const char *sb_checkpoint_metadata(const sb_checkpoint *checkpoint, uint32_t shard,
                                   const char *key);

/* Offset of the tensor's first byte in its file, for messages. */
uint64_t sb_checkpoint_offset(const sb_checkpoint *checkpoint, const sb_tensor *tensor);

/* Sum of the tensors' bytes; and 1 and what the index declares, if it declares an integer. */
uint64_t sb_checkpoint_bytes(const sb_checkpoint *checkpoint);
int sb_checkpoint_declared_bytes(const sb_checkpoint *checkpoint, uint64_t *declared);

/* The index of the folder, or NULL. */
const sb_index *sb_checkpoint_index(const sb_checkpoint *checkpoint);

#endif
