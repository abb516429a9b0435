/* generate.h - a run as in the commands run and golden: the prompt in one call, then round after
 * round. */
#ifndef SB_CLI_GENERATE_H
#define SB_CLI_GENERATE_H

#include "ref/run/round.h"
#include "tools/cli/request.h"

/* The results of one sequence. */
typedef struct sb_generated {
    uint32_t *tokens;  /* (count) */
    sb_digest *logits; /* (count) of the row that the token comes from */
    size_t count;
    sb_round *rounds; /* (round_count): the rounds of all tokens except the first */
    size_t round_count, round_room;
    int speculative; /* drafts were requested; else no round has drafts */
    /* The state after feeding all tokens except the last. */
    sb_digest target, mtp;
    uint64_t fed;     /* positions in the state */
    int has_mtp;      /* the state includes the MTP head, and `mtp` is set */
    uint64_t entries; /* MTP entries */
    int has_drafter;  /* an EAGLE-3 drafter has entries, and the next two are set */
    sb_digest drafter;
    uint64_t drafter_entries;
    int kernels;     /* the backend has kernels; the next two are about these */
    int stepped;     /* the calls were steps (stepped.h) */
    const char *why; /* why not, where they would be; "": no reason */
} sb_generated;

/* Called once per sequence, in their order. */
typedef sb_status (*sb_generated_fn)(void *ctx, size_t sequence, const sb_generated *generated,
                                     sb_error *err);

/* Runs all sequences of the request. */
sb_status sb_generate(const sb_model *model, const sb_request *request, sb_generated_fn take,
                      void *ctx, sb_error *err);

#endif
