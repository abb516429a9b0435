/* remote.h - the options --remote and --remote-cache, and the place of a checkpoint that may be on
 * a server. */
#ifndef SB_CLI_REMOTE_H
#define SB_CLI_REMOTE_H

#include "ref/base/status.h"
#include "tools/check/read/check.h"

typedef struct sb_remote_wish {
    int remote;
    const char *cache;
} sb_remote_wish;

/* Rows of a table of options. */
#define SB_OPT_REMOTE(wish)                                                                        \
    {"remote",    0,                                                                               \
     SB_OPT_FLAG, &(wish)->remote,                                                                 \
     NULL,        "read headers and small files over HTTP: CKPT may be a hub id or an address"},   \
    {                                                                                              \
        "remote-cache", 0, SB_OPT_STRING, &(wish)->cache, "DIR",                                   \
            "folder in which --remote keeps them (~/.cache/samebit/remote)"                        \
    }

/* The path of the files that an operand names: as it is if it exists; with --remote read from a
 * server; else looked up in the cache of the hub. The caller frees *path. */
sb_status sb_place_of(const char *text, const sb_remote_wish *wish, char **path, sb_error *err);

/* For check --sample: reads the values that a check with these options needs of options->path, if
 * sb_place_of has read it from a server as `text`. */
sb_status sb_place_sample(const char *text, const sb_remote_wish *wish,
                          const sb_check_options *options, sb_error *err);

#endif
