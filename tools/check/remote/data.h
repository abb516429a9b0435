/* data.h - bytes of tensors of a checkpoint on a server, added to the stubs of its folder. */
#ifndef SB_REMOTE_DATA_H
#define SB_REMOTE_DATA_H

#include "tools/check/remote/remote.h"

/* A range of bytes of a shard. */
typedef struct sb_remote_range {
    const char *shard; /* its name in the folder */
    uint64_t at, bytes;
} sb_remote_range;

/* Reads the ranges that the folder does not have; text and folder are those of sb_remote_fetch.
 * *read: the number of bytes that were read. SB_ERR_INPUT if a file has changed since its header
 * was read. Each shard is complete or as before. */
sb_status sb_remote_data(const char *text, const sb_remote_options *options, const char *folder,
                         const sb_remote_range *ranges, size_t count, uint64_t *read,
                         sb_error *err);

#endif
