/* checkpoint.h - a published checkpoint, a folder or a single file, as one set of tensors.
 *
 * A folder contains model.safetensors.index.json and the shards that the index names, or only
 * model.safetensors. Every *.safetensors in the folder must belong to the checkpoint. A file that
 * the index does not name is an error, because such files usually mean stale or lost tensors.
 * metadata.total_size of the index is never compared, because published folders have other sums
 * there, or 0. */
#ifndef SB_CONTAINER_CHECKPOINT_H
#define SB_CONTAINER_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/container/index.h"
#include "ref/container/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sb_checkpoint sb_checkpoint;

/* Opens a folder (with or without a trailing '/') or a single safetensors file. Reads only headers
 * and maps the data. */
sb_status sb_checkpoint_open(const char *path, sb_checkpoint **out, sb_error *err);
void sb_checkpoint_close(sb_checkpoint *checkpoint);

/* The tensors, sorted bytewise by name. find returns NULL for an unknown name. */
size_t sb_checkpoint_count(const sb_checkpoint *checkpoint);
const sb_tensor *sb_checkpoint_at(const sb_checkpoint *checkpoint, size_t i);
const sb_tensor *sb_checkpoint_find(const sb_checkpoint *checkpoint, const char *name);

/* The names of the files, without a folder, sorted bytewise. */
size_t sb_checkpoint_shards(const sb_checkpoint *checkpoint);
const char *sb_checkpoint_shard_name(const sb_checkpoint *checkpoint, uint32_t shard);

const char *
sb_checkpoint_path(const sb_checkpoint *checkpoint); /* as given, without trailing '/' */
const char *sb_checkpoint_folder(const sb_checkpoint *checkpoint); /* the folder of config.json */

/* The "__metadata__" of a shard's file: the number of pairs, pair i in bytewise order of keys, and
 * the value of one key, or NULL. */
size_t sb_checkpoint_metadata_count(const sb_checkpoint *checkpoint, uint32_t shard);
const sb_metadata_pair *sb_checkpoint_metadata_at(const sb_checkpoint *checkpoint, uint32_t shard,
                                                  size_t i);
const char *sb_checkpoint_metadata(const sb_checkpoint *checkpoint, uint32_t shard,
                                   const char *key);

/* Offset of the tensor's first byte in its file, for messages. */
uint64_t sb_checkpoint_offset(const sb_checkpoint *checkpoint, const sb_tensor *tensor);

/* True if the tensor is in a stub (stub.h) that lacks some of its bytes: its data must not be read,
 * unless it is a single number. */
int sb_checkpoint_in_stub(const sb_checkpoint *checkpoint, const sb_tensor *tensor);

/* The sum of the tensors' bytes. sb_checkpoint_declared_bytes returns 1 and sets the total of the
 * index if the index has an integer total. */
uint64_t sb_checkpoint_bytes(const sb_checkpoint *checkpoint);
int sb_checkpoint_declared_bytes(const sb_checkpoint *checkpoint, uint64_t *declared);

/* The index of the folder, or NULL. */
const sb_index *sb_checkpoint_index(const sb_checkpoint *checkpoint);

#ifdef __cplusplus
}
#endif

#endif
