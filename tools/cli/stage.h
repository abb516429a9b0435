/* stage.h - copies the weights of a model to the device before the first token: in the order of the
 * files, each file once. Pages of files already read are offered back to the system. */
#ifndef SB_CLI_STAGE_H
#define SB_CLI_STAGE_H

#include "ref/run/backend.h"
#include "ref/run/model.h"

typedef struct sb_staged {
    size_t matrices, shards; /* shards: files whose pages the system took back */
    uint64_t bytes;          /* codes of the matrices in the files */
    uint64_t counted;        /* bytes to be packed, for which room was requested */
    uint64_t packed;         /* bytes actually packed */
} sb_staged;

/* sb_progress_bytes, or NULL. */
typedef void (*sb_stage_progress)(void *ctx, const char *what, uint64_t done, uint64_t total);

/* Copies the embedding and the weights of all linear layers, including the MTP head, packed as the
 * knobs require. Does nothing for a backend without kernels. out may be NULL. */
sb_status sb_stage(const sb_backend *backend, const sb_knobs *knobs, const sb_model *model,
                   sb_stage_progress progress, sb_staged *out, sb_error *err);

#endif
