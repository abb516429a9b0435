/* shard.h - reads a shard's header and small numbers, and writes them as a stub. */
#ifndef SB_REMOTE_SHARD_H
#define SB_REMOTE_SHARD_H

#include "ref/container/stub.h"
#include "tools/check/remote/http.h"

/* Writes the stub of a shard to path. A file that is small enough is written whole. */
sb_status sb_remote_shard(sb_http *http, sb_http_file *file, const char *path, sb_error *err);

/* Adds ranges of bytes, sorted by offset, to the stub at path. Nothing is read that it has; a file
 * that is whole stays as it is. *file is as it was when the header was read. */
sb_status sb_remote_shard_data(sb_http *http, sb_http_file *file, const char *path,
                               const sb_stub_piece *wanted, size_t count, sb_error *err);

#endif
