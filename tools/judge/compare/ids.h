/* ids.h - compares two runs that have only tokens: the first place where they part, and which of
 * them is right there.
 *
 * The reference is fed the tokens that both have in common. Where the runs part, a token whose
 * logit is within the noise of rounding of the largest could be right (T-44). */
#ifndef SB_COMPARE_IDS_H
#define SB_COMPARE_IDS_H

#include "ref/run/session.h"
#include "tools/judge/compare/verdict.h"

/* One sequence on both sides, the prompt first. */
typedef struct sb_ids_pair {
    const uint32_t *tokens[2];
    size_t count[2];
} sb_ids_pair;

typedef struct sb_ids_options {
    const sb_knobs *knobs; /* NULL: profile exact */
    size_t perturbed;      /* N of envelope.h */
    uint64_t seed;
    const char *name[2]; /* names of the sides, for messages */
    size_t prompt;       /* tokens of the prompt; 0: not known, and no common token is judged */
} sb_ids_options;

typedef struct sb_ids_verdict {
    size_t common;      /* tokens before the first difference */
    int parts;          /* 1: the tokens differ there; 0: the shorter side ends there */
    uint32_t tokens[2]; /* the tokens that differ */
    uint32_t top;       /* the token of the reference's largest logit */
    double below[2];    /* distance of each token's logit below that of `top` */
    double margin, envelope;
    int could[2]; /* the side could be right */
    sb_verdict verdict;
    char words[SB_WORDS];
} sb_ids_verdict;

/* out (count): one per pair. verdicts receives a row for every judged token, the first failure, and
 * the overall verdict. */
sb_status sb_ids_compare(const sb_model *model, const sb_ids_options *options,
                         const sb_ids_pair *pairs, size_t count, sb_ids_verdict *out,
                         sb_verdicts *verdicts, sb_error *err);

#endif
