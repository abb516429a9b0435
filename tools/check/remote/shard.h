/* shard.h - reads a shard's header and small numbers, and writes them as a stub. */
#ifndef SB_REMOTE_SHARD_H
#define SB_REMOTE_SHARD_H

#include "tools/check/remote/http.h"

/* Writes the stub of a shard to path. A file that is small enough is written whole. */
sb_status sb_remote_shard(sb_http *http, sb_http_file *file, const char *path, sb_error *err);

#endif
