/* ids.h - two runs of which nothing is known but their tokens: the first place where they part, and
 * which of them is right there.
 *
 * The reference is fed what both have in common. Where they part, a token that the noise of
 * rounding lets stand beside the largest logit could be right (T-44). */
#ifndef SB_COMPARE_IDS_H
#define SB_COMPARE_IDS_H

#include "ref/run/session.h"
#include "tools/compare/verdict.h"

/* One sequence as both sides have it, the prompt first. */
typedef struct sb_ids_pair {
    const uint32_t *tokens[2];
    size_t count[2];
} sb_ids_pair;

typedef struct sb_ids_options {
    const sb_knobs *knobs; /* NULL: profile exact */
    size_t perturbed;      /* N of envelope.h */
    uint64_t seed;
    const char *name[2]; /* of the sides, for messages */
    size_t prompt;       /* tokens that both were given; 0: not known, and then nothing that both
                          * have in common is judged */
} sb_ids_options;

typedef struct sb_ids_verdict {
    size_t common;      /* tokens before the first difference */
    int parts;          /* there is one; else the shorter side ends there */
    uint32_t tokens[2]; /* behind them */
    uint32_t top;       /* the reference's */
    double below[2];    /* how far each stands below it, in logits */
    double margin, envelope;
    int could[2]; /* it could be right */
    sb_verdict verdict;
    char words[SB_WORDS];
} sb_ids_verdict;

/* out (count): one per pair. verdicts gets a row for every token that was judged, the first
 * failure, and the verdict of all. */
sb_status sb_ids_compare(const sb_model *model, const sb_ids_options *options,
                         const sb_ids_pair *pairs, size_t count, sb_ids_verdict *out,
                         sb_verdicts *verdicts, sb_error *err);

#endif
