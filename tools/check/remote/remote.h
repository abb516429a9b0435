/* remote.h - a checkpoint on a server, kept here as a folder with its small files, its index, and
 * the headers of its shards as stubs (ref/container/stub.h): enough to judge its structure.
 *
 * The folder appears complete or not at all. That of a commit of the hub is used again. */
#ifndef SB_REMOTE_REMOTE_H
#define SB_REMOTE_REMOTE_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

/* The file of the folder that says where it came from, and the size and ETag of each file. */
#define SB_REMOTE_RECORD ".samebit-remote.json"

typedef struct sb_remote_options {
    const char *cache; /* NULL: the usual folder */
    void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total);
} sb_remote_options;

typedef struct sb_remote_result {
    char *folder;   /* the caller frees it */
    int was_there;  /* nothing was read but the list of files */
    uint64_t read;  /* bytes that were read */
    uint64_t whole; /* bytes of all files */
} sb_remote_result;

/* text: a hub id, or an address (place.h). From here on, the process may open stubs. */
sb_status sb_remote_fetch(const char *text, const sb_remote_options *options, sb_remote_result *out,
                          sb_error *err);

#endif
