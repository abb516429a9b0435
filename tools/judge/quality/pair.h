/* pair.h - two checkpoints of one architecture on one text: how much B's distributions, choices of
 * experts and drafts differ from A's, and the contribution of each layer.
 *
 * The models are walked layer by layer (ref/run/walk.h), so that the file of each is read once. In
 * parallel run mixtures: A with one layer of B. The difference between such a mixture and A is the
 * contribution of that layer. */
#ifndef SB_QUALITY_PAIR_H
#define SB_QUALITY_PAIR_H

#include "ref/ops/knobs.h"
#include "ref/run/model.h"
#include "tools/judge/quality/statistics.h"

typedef struct sb_pair_text {
    const uint32_t *ids;
    size_t count;
} sb_pair_text;

typedef struct sb_pair_options {
    const sb_knobs *knobs[2]; /* NULL: exact */
    size_t mixed_tokens;      /* the number of tokens for the contributions; 0: none */
    void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total); /* or NULL */
    void *progress_ctx;
} sb_pair_options;

/* A layer, or the part before or after all layers. */
typedef struct sb_pair_layer {
    char name[24];       /* "embed", "layers.3", "head" */
    double added;        /* relative, on the same input, per mixed token */
    double kl;           /* mean over the mixed tokens */
    uint64_t flips;      /* mixed tokens with another largest logit */
    uint64_t routed[2];  /* X-4, on the same input: experts that B keeps; of these, not kept by A */
    uint64_t drifted[2]; /* the same on B's own input, for all tokens */
} sb_pair_layer;

typedef struct sb_pair {
    size_t tokens, mixed; /* all tokens; those for the contributions */
    sb_spread kl;         /* */
    double *kl_at;        /* (tokens) of each, text after text */
    size_t *ends;         /* (texts) the number of tokens up to the end of each text */
    size_t texts;
    sb_rate agreement;
    sb_interval agreement_at;
    sb_flip *flips;
    size_t flip_count;
    sb_pair_layer *layers;
    size_t layer_count;  /* L + 2 */
    int has_drafts;      /* both have a head, and a draft has a token after it */
    size_t other_drafts; /* first drafts that differ */
    sb_rate drafts[2];   /* */
    sb_interval drafts_at[2], drafts_change; /* B minus A */
} sb_pair;

/* SB_ERR_INPUT if the two have different shapes; SB_ERR_NUMERIC if a value of one is not finite. */
sb_status sb_pair_measure(const sb_model *const models[2], const sb_pair_text *texts, size_t count,
                          const sb_pair_options *options, sb_pair *out, sb_error *err);
void sb_pair_free(sb_pair *pair);

/* Sorts layers by their contribution, the largest first: ranks (layer_count) are indices into
 * layers. */
void sb_pair_rank(const sb_pair *pair, size_t *ranks);

#endif
