/* generate.h - a run as run and golden do it: the prompt in one call, then round after round. */
#ifndef SB_CLI_GENERATE_H
#define SB_CLI_GENERATE_H

#include "ref/run/round.h"
#include "tools/cli/request.h"

/* What one sequence gave. */
typedef struct sb_generated {
    uint32_t *tokens;  /* (count) */
    sb_digest *logits; /* (count) of the row that gave the token */
    size_t count;
    sb_round *rounds; /* (round_count): what gave all tokens but the first */
    size_t round_count, round_room;
    int speculative; /* the rounds were asked for; else each has no drafts */
    /* The state after all tokens but the last have been fed. */
    sb_digest target, mtp;
    uint64_t fed;     /* positions in it */
    int has_mtp;      /* it has a head, and `mtp` is set */
    uint64_t entries; /* of the head */
} sb_generated;

/* Gets the sequences in their order. */
typedef sb_status (*sb_generated_fn)(void *ctx, size_t sequence, const sb_generated *generated,
                                     sb_error *err);

/* Runs all sequences of the request. */
sb_status sb_generate(const sb_model *model, const sb_request *request, sb_generated_fn take,
                      void *ctx, sb_error *err);

#endif
