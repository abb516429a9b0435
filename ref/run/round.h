/* round.h - speculative rounds: draft, verify, accept, emit, and the way back (S-9). */
#ifndef SB_RUN_ROUND_H
#define SB_RUN_ROUND_H

#include "ref/run/sample.h"
#include "ref/run/session.h"

enum { SB_MAX_DRAFTS = 8 };

/* What a draft is held against. Without sampling both are the same. */
typedef enum sb_acceptance {
    SB_ACCEPT_match,   /* the row's own draw: the tokens are those of a run without drafts */
    SB_ACCEPT_residual /* the ratio of the two distributions: the tokens are as probable (P-13) */
} sb_acceptance;

typedef struct sb_round_options {
    const sb_sampling *sampling; /* NULL: greedy; copied */
    sb_acceptance acceptance;
    sb_rollback rollback;
} sb_round_options;

/* What one round is asked for. */
typedef struct sb_round_ask {
    uint32_t token;        /* the last one emitted, not yet fed */
    size_t drafts;         /* k, 0 .. SB_MAX_DRAFTS; 0 needs no head */
    const uint32_t *given; /* (drafts) drafts from elsewhere; NULL: the head proposes */
    int forced;            /* -1, or how many drafts are accepted, whatever the rows say */
    size_t limit;          /* at most so many tokens are emitted; 0: no limit */
} sb_round_ask;

typedef struct sb_round {
    uint64_t position; /* of the first row: where `token` stands */
    size_t drafted;
    uint32_t drafts[SB_MAX_DRAFTS];
    size_t accepted;                    /* 0 .. drafted; the bonus token is not counted */
    int forced;                         /* the ask said how many, and not the rows */
    size_t emitted;                     /* 1 .. accepted + 1, less where the limit cuts */
    uint32_t tokens[SB_MAX_DRAFTS + 1]; /* (emitted) */
    /* (drafted + 1) the token that each row gives; under residual, behind row `accepted`, its own
     * draw */
    uint32_t chosen[SB_MAX_DRAFTS + 1];
} sb_round;

typedef struct sb_rounds sb_rounds;

/* The rounds of one session, which must outlive them; NULL options: greedy, match, snapshots. */
sb_status sb_rounds_new(sb_session *session, const sb_round_options *options, sb_rounds **out,
                        sb_error *err);
void sb_rounds_free(sb_rounds *rounds);

/* One round. Afterwards all tokens but the last emitted have been fed. SB_ERR_USAGE: an ask that
 * does not fit. The session must be free of other business: no verify that is still to be cut. If
 * it fails, the state is what it was, or the session refuses further calls (S-4). */
sb_status sb_rounds_next(sb_rounds *rounds, const sb_round_ask *ask, sb_round *out, sb_error *err);

/* The token that `logits` (V) give for `position`, as a row of a round would: also for the first
 * token behind a prompt. */
sb_status sb_rounds_pick(sb_rounds *rounds, const float *logits, uint64_t position, uint32_t *token,
                         sb_error *err);

/* Logits (V) of the last round: of row 0 .. drafted, and of the head's proposal 0 .. drafted - 1
 * (NULL where drafts were given). */
const float *sb_rounds_logits(const sb_rounds *rounds, size_t row);
const float *sb_rounds_draft_logits(const sb_rounds *rounds, size_t draft);

#endif
