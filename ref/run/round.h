/* round.h - speculative rounds: draft, verify, accept, emit and roll back (S-9). */
#ifndef SB_RUN_ROUND_H
#define SB_RUN_ROUND_H

#include "ref/run/eagle3.h"
#include "ref/run/sample.h"
#include "ref/run/session.h"

enum {
    SB_MAX_DRAFTS = 8, /* on one path */
    SB_MAX_TREE = 64,  /* in a tree (S-16) */
};

/* The acceptance rule for drafts. Without sampling both rules are the same. */
typedef enum sb_acceptance {
    SB_ACCEPT_match,   /* accepts a draft equal to the row's own draw; gives the tokens of a run
                          without drafts */
    SB_ACCEPT_residual /* accepts by the ratio of both distributions; gives the same probabilities
                          (P-13) */
} sb_acceptance;

typedef struct sb_round_options {
    const sb_sampling *sampling; /* NULL: greedy; copied */
    sb_acceptance acceptance;
    sb_rollback rollback;
    const sb_eagle3 *drafter; /* NULL: the MTP head drafts; it must outlive the rounds */
} sb_round_options;

/* The distribution that a draft was drawn from: token ids[i] has the probability p[i], every other
 * token 0. */
typedef struct sb_draft_odds {
    const uint32_t *ids; /* (count) each below V, none twice */
    const float *p;      /* (count) from 0 to 1 */
    size_t count;
} sb_draft_odds;

/* The request for one round. */
typedef struct sb_round_ask {
    uint32_t token;        /* the last emitted token, which is not fed yet */
    size_t drafts;         /* k, 0 .. SB_MAX_DRAFTS, or SB_MAX_TREE; 0 needs no head */
    const uint32_t *given; /* (drafts) drafts of the caller; NULL: the head proposes drafts */
    const sb_draft_odds
        *odds; /* (drafts) of given drafts, which residual acceptance needs; or NULL */
    /* (drafts) for given drafts that are a tree (S-16): the draft that each draft follows, -1:
     * `token`; NULL: each draft follows the one before it */
    const int *parents;
    int forced;   /* -1, or the number of drafts that are accepted regardless of the rows */
    size_t limit; /* the largest number of tokens to emit; 0: no limit */
} sb_round_ask;

typedef struct sb_round {
    uint64_t position; /* of the first row, which is `token` */
    size_t drafted;
    uint32_t drafts[SB_MAX_TREE];
    int tree;                   /* 1: the drafts are a tree */
    int parents[SB_MAX_TREE];   /* (drafted) of a tree */
    size_t depth;               /* drafts on the longest path; `drafted` without a tree */
    size_t accepted;            /* 0 .. depth, without the bonus token */
    size_t path[SB_MAX_DRAFTS]; /* (accepted) the accepted drafts of a tree */
    int forced;                 /* 1: `accepted` comes from the request, not from the rows */
    size_t emitted;             /* accepted + 1; at most the limit if there is a limit */
    uint32_t tokens[SB_MAX_DRAFTS + 1]; /* (emitted) */
    /* (drafted + 1) the token that each row gives; under residual, the rows after row `accepted`
     * have their own draws. Row 1 + i of a tree is that of draft i. */
    uint32_t chosen[SB_MAX_TREE + 1];
} sb_round;

/* S-16: the largest number of drafts on a path of a tree; SB_ERR_USAGE if the parents are no tree
 * in the order of depth, or two drafts with the same parent are the same token. The message names
 * the draft. */
sb_status sb_tree_depth(const uint32_t *drafts, const int *parents, size_t n, size_t *depth,
                        sb_error *err);

typedef struct sb_rounds sb_rounds;

/* The rounds of one session, which must outlive them. options NULL: greedy, match, snapshots. With
 * a drafter the session is empty and keeps its states (eagle3.h). */
sb_status sb_rounds_new(sb_session *session, const sb_round_options *options, sb_rounds **out,
                        sb_error *err);
void sb_rounds_free(sb_rounds *rounds);

/* Call it after sb_session_reset. */
void sb_rounds_reset(sb_rounds *rounds);

/* Call it after each sb_session_feed with the tokens that were fed, before the next round. Without
 * a drafter it does nothing. */
sb_status sb_rounds_fed(sb_rounds *rounds, const uint32_t *tokens, size_t n, sb_error *err);

/* The entries of the drafter; NULL without one. */
sb_eagle3_drafts *sb_rounds_drafter(const sb_rounds *rounds);

/* Runs one round. Afterwards all emitted tokens except the last have been fed. SB_ERR_USAGE: an
 * invalid request. If the caller has called sb_session_verify itself, it must have called
 * sb_session_keep, too. After a failure either the state is unchanged, or the session refuses
 * further calls (S-4), or an EAGLE-3 drafter that lacks the entries of the round does. */
sb_status sb_rounds_next(sb_rounds *rounds, const sb_round_ask *ask, sb_round *out, sb_error *err);

/* Chooses the token for `position` from `logits` (V) as a round does for a row. Also used for the
 * first token after a prompt. */
sb_status sb_rounds_pick(sb_rounds *rounds, const float *logits, uint64_t position, uint32_t *token,
                         sb_error *err);

/* The row that judges the draft after `i` accepted drafts, and gives tokens[i] if the drafts end
 * there: the i-th row that was fed, or the i-th on the path of a tree; i <= accepted. */
size_t sb_round_row(const sb_round *round, size_t i);

/* Logits (V) of the last round: of row 0 .. drafted of the target (in a tree, row 1 + i is that of
 * draft i), and of draft 0 .. drafted - 1 of
 * the head (NULL if the head did not make the drafts). */
const float *sb_rounds_logits(const sb_rounds *rounds, size_t row);
const float *sb_rounds_draft_logits(const sb_rounds *rounds, size_t draft);

#endif
