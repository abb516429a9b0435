/* hub_files.h - the files of a folder, with what the hub recorded when they were downloaded: the
 * hash under which it stores them, and their commit. */
#ifndef SB_CHECK_HUB_FILES_H
#define SB_CHECK_HUB_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "ref/container/checkpoint.h"

/* The source of a hash: the name of the blob in the cache, or the metadata of a download into a
 * folder. */
typedef enum sb_hub_witness { SB_HUB_BLOB, SB_HUB_METADATA, SB_HUB_WITNESSES } sb_hub_witness;

/* Hashes are lower-case hexadecimal digits: 64 for SHA-256, 40 for SHA-1; "": unknown. */
enum { SB_HUB_SHA1 = 40, SB_HUB_SHA256 = 64, SB_HUB_NO_SHARD = 0x7fffffff };

typedef struct sb_hub_file {
    char *name; /* the file's own name, without the folder */
    char *path;
    uint64_t size;
    /* shard of the checkpoint; SB_HUB_NO_SHARD: not a shard, or one that cannot be read */
    uint32_t shard;
    int is_payload; /* 1 if the name ends in .safetensors */
    char hash[SB_HUB_WITNESSES][SB_HUB_SHA256 + 1];
    char commit[SB_HUB_SHA1 + 1];
} sb_hub_file;

typedef struct sb_hub_files {
    sb_hub_file *rows; /* sorted by name */
    size_t count, room;
} sb_hub_files;

/* The files with a record of the hub: those of the folder, or only the file that is the checkpoint.
 * Empty if the folder cannot be listed. SB_ERR_MEMORY. */
sb_status sb_hub_files_list(const sb_checkpoint *checkpoint, sb_hub_files *out, sb_error *err);
void sb_hub_files_free(sb_hub_files *files);

#endif
