/* stage.h - the weights of a model are brought to where kernels run, all of them before the first
 * token: in the order of the files, each file once, and what was read of it is offered back. */
#ifndef SB_CLI_STAGE_H
#define SB_CLI_STAGE_H

#include "ref/run/backend.h"
#include "ref/run/model.h"

typedef struct sb_staged {
    size_t matrices, shards; /* shards: that the system took back */
    uint64_t bytes;          /* codes of the matrices in the files */
    uint64_t counted;        /* bytes that were to be packed: what room was asked for */
    uint64_t packed;         /* what they became */
} sb_staged;

/* sb_progress_bytes, or NULL. */
typedef void (*sb_stage_progress)(void *ctx, const char *what, uint64_t done, uint64_t total);

/* The embedding and the weights of all linear layers, the MTP head's among them, as the knobs want
 * them packed. Nothing for a backend without kernels. *out may be NULL. */
sb_status sb_stage(const sb_backend *backend, const sb_knobs *knobs, const sb_model *model,
                   sb_stage_progress progress, sb_staged *out, sb_error *err);

#endif
