/* sample.h - the sampler: from logits to probabilities to a token (section P of docs/spec.md).
 *
 * A draw is a pure function of the logits, the settings and the place at which it is made: there is
 * no generator whose state would depend on what was drawn before, on drafts or on a batch.
 *
 * P-14: "What is drawn at one position reads random words of that position alone" - so plain
 * sampling and both ways of accepting drafts can be mixed from one position to the next.
 *
 * In mode `match` of a speculative round there is nothing to compute beside the draw itself:
 * P-11: "a draft is accepted exactly when it is the token that P-10 draws". */
#ifndef SB_RUN_SAMPLE_H
#define SB_RUN_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

typedef struct sb_sampling {
    uint64_t seed;     /* of the run */
    uint64_t sequence; /* index of the sequence in the run */
    float temperature; /* 0: greedy */
    uint32_t top_k;    /* 0: all */
    float top_p;       /* 1: all */
    float min_p;       /* 0: all */
} sb_sampling;

/* SB_ERR_USAGE where a setting is outside of the range of P-1. */
sb_status sb_sampling_check(const sb_sampling *s, sb_error *err);

/* Settings, and scratch for V tokens: one call at a time. */
typedef struct sb_sampler sb_sampler;

sb_status sb_sampler_new(const sb_sampling *s, uint32_t vocab, sb_sampler **out, sb_error *err);
void sb_sampler_free(sb_sampler *sampler);
const sb_sampling *sb_sampler_settings(const sb_sampler *sampler);

/* What a random word is for; the number is that of the word in its block (P-8). */
typedef enum sb_purpose {
    SB_DRAW_token,   /* the target's own draw */
    SB_DRAW_draft,   /* a draft, where its distribution is kept */
    SB_DRAW_accept,  /* whether that draft is accepted */
    SB_DRAW_residual /* the token in the place of one that is not */
} sb_purpose;

/* The steps of a draw that hold the randomness: u of P-9 and g of P-10. */
float sb_sample_uniform(const sb_sampling *s, uint32_t token, uint64_t position,
                        sb_purpose purpose);
float sb_sample_gumbel(const sb_sampling *s, uint32_t token, uint64_t position, sb_purpose purpose);

/* P-1: SB_ERR_NUMERIC where a logit of (rows, V) is not finite. */
sb_status sb_sample_check(const float *logits, size_t rows, uint32_t vocab, sb_error *err);

/* p (V) after temperature, top_k, top_p and min_p; 0 for what is cut. Temperature 0: 1 for the
 * greedy token. SB_ERR_NUMERIC where a logit is not finite. */
sb_status sb_sample_probabilities(sb_sampler *sampler, const float *logits, float *p,
                                  sb_error *err);

/* The token that is drawn from p (V) for `position`, the index that it will have in the sequence;
 * 0 if no p is above 0. */
uint32_t sb_sample_pick(const sb_sampler *sampler, const float *p, uint64_t position,
                        sb_purpose purpose);

/* Both in one call. */
sb_status sb_sample_draw(sb_sampler *sampler, const float *logits, uint64_t position,
                         sb_purpose purpose, uint32_t *token, sb_error *err);

/* Mode `residual`: whether a draft (below V) that was drawn from q (V) is accepted where the target
 * has p (V), and the token that is drawn in its place where it is not. */
int sb_sample_accepts(const sb_sampler *sampler, const float *p, const float *q, uint32_t draft,
                      uint64_t position);
uint32_t sb_sample_residual(const sb_sampler *sampler, const float *p, const float *q,
                            uint64_t position);

#endif
