/* measure.h - acceptance along a given text: the MTP head's proposals at every position, and the
 * target's choices. */
#ifndef SB_ACCEPT_MEASURE_H
#define SB_ACCEPT_MEASURE_H

#include "ref/run/round.h"
#include "tools/judge/accept/interval.h"

typedef struct sb_accept_text {
    const uint32_t *ids;
    size_t count;
    size_t first; /* the first token that begins a round, at least 1; 0 counts as 1 */
} sb_accept_text;

/* One position, and the round that would begin with its token. */
typedef struct sb_accept_row {
    size_t text;
    uint64_t position;
    uint32_t token;
    size_t drafted;
    uint32_t drafts[SB_MAX_TREE];     /* (drafted) */
    uint32_t target[SB_MAX_TREE + 1]; /* the target's choice in each row of the verify */
    float margin[SB_MAX_TREE + 1];    /* for each row, its largest logit minus the second */
    size_t accepted;
    int chosen; /* its token is the target's choice after the text before it */
} sb_accept_row;

typedef struct sb_accept_depth {
    sb_rate rate;         /* E-2: over all positions with a draft */
    uint64_t reached;     /* of these, positions where all drafts before this one are accepted */
    sb_interval interval; /* 95 % */
} sb_accept_depth;

/* E-6: the rounds of an engine that wrote the end of the text; E-16: that gave the answers. */
typedef struct sb_accept_chain {
    size_t texts;  /* texts that end with output of the target; E-16: all texts */
    uint64_t from; /* position of the first round of the first such text */
    uint64_t rounds, drafted, accepted;
    uint64_t by_depth[SB_MAX_DRAFTS]; /* [j]: rounds that accept more than j drafts */
} sb_accept_chain;

typedef struct sb_accept {
    size_t drafts;   /* K; with trees, on a path */
    size_t drafting; /* positions with a draft: all of them for the head */
    int uneven;      /* an n-gram or a file drafts: not K drafts everywhere */
    sb_accept_row *rows;
    size_t count;
    size_t *ends; /* (texts) rows up to the end of each text */
    size_t texts;
    uint64_t tokens; /* of all texts */
    sb_accept_depth depth[SB_MAX_DRAFTS];
    uint64_t accepted;    /* accepted drafts of all positions: the sum over depths */
    uint64_t chosen;      /* positions whose token is the target's choice */
    uint64_t most_common; /* positions at which the target chooses its most frequent token */
    uint32_t common_token;
    sb_accept_chain chain;
} sb_accept;

/* Sets ask->drafts and ask->given for the round that begins with token `at` of a text, of at most
 * ask->drafts drafts. so_far: the rows of all rounds before it. */
typedef sb_status (*sb_accept_propose)(void *ctx, size_t text, size_t at, const sb_accept *so_far,
                                       sb_round_ask *ask, sb_error *err);

typedef struct sb_accept_options {
    const sb_knobs *knobs;     /* NULL: exact */
    sb_accept_propose propose; /* or */
    const char *drafter;       /* the folder of a drafter; NULL, both: the head drafts */
    void *propose_ctx;
    size_t drafts; /* K, 1 .. SB_MAX_DRAFTS */
    int answered;  /* E-16: each text is an engine's answer from its `first` token on */
    void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total); /* or NULL */
    void *progress_ctx;
} sb_accept_options;

/* SB_ERR_USAGE without a head, unless `propose` or a drafter drafts. SB_ERR_INPUT without a
 * position (a text needs two tokens) or without a draft. Call sb_accept_free in any case. */
sb_status sb_accept_measure(const sb_model *model, const sb_accept_text *texts, size_t count,
                            const sb_accept_options *options, sb_accept *out, sb_error *err);
void sb_accept_free(sb_accept *accept);

#endif
