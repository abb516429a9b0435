/* sample.h - the sampler: from logits to probabilities to a token (section P of docs/spec.md).
 *
 * A draw is a pure function of the logits, the settings and the position. There is no generator
 * state that depends on earlier draws, on drafts or on the batch.
 *
 * P-14: "A draw at a position reads random words of that position alone" - so plain sampling and
 * both ways of accepting drafts can be mixed from one position to the next.
 *
 * Mode `match` of a speculative round computes nothing but the draw. P-11: "a draft is accepted
 * exactly when it is the token that P-10 draws". */
#ifndef SB_RUN_SAMPLE_H
#define SB_RUN_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sb_sampling {
    uint64_t seed;     /* seed of the run */
    uint64_t sequence; /* index of the sequence in the run */
    float temperature; /* 0: greedy */
    uint32_t top_k;    /* 0: all */
    float top_p;       /* 1: all */
    float min_p;       /* 0: all */
} sb_sampling;

/* SB_ERR_USAGE if a setting is outside the range of P-1. */
sb_status sb_sampling_check(const sb_sampling *s, sb_error *err);

/* Settings, and scratch for V tokens. Runs one call at a time. */
typedef struct sb_sampler sb_sampler;

sb_status sb_sampler_new(const sb_sampling *s, uint32_t vocab, sb_sampler **out, sb_error *err);
void sb_sampler_free(sb_sampler *sampler);
const sb_sampling *sb_sampler_settings(const sb_sampler *sampler);

/* The purpose of a random word. The value of the enumerator is the index of the word in its block
 * (P-8). */
typedef enum sb_purpose {
    SB_DRAW_token,   /* the target's own draw */
    SB_DRAW_draft,   /* a draft whose distribution is kept */
    SB_DRAW_accept,  /* the acceptance of that draft */
    SB_DRAW_residual /* the token that replaces a rejected draft */
} sb_purpose;

/* The random numbers of a draw: u of P-9 and g of P-10. */
float sb_sample_uniform(const sb_sampling *s, uint32_t token, uint64_t position,
                        sb_purpose purpose);
float sb_sample_gumbel(const sb_sampling *s, uint32_t token, uint64_t position, sb_purpose purpose);

/* P-1: SB_ERR_NUMERIC if one of the logits (rows, V) is not finite. */
sb_status sb_sample_check(const float *logits, size_t rows, uint32_t vocab, sb_error *err);

/* Computes p (V) after temperature, top_k, top_p and min_p; tokens that are cut off get 0. At
 * temperature 0 the greedy token gets 1. SB_ERR_NUMERIC if a logit is not finite. */
sb_status sb_sample_probabilities(sb_sampler *sampler, const float *logits, float *p,
                                  sb_error *err);

/* Draws a token from p (V). `position` is its future index in the sequence. Returns token 0 if no p
 * is above 0. */
uint32_t sb_sample_pick(const sb_sampler *sampler, const float *p, uint64_t position,
                        sb_purpose purpose);

/* sb_sample_probabilities and sb_sample_pick in one call. */
sb_status sb_sample_draw(sb_sampler *sampler, const float *logits, uint64_t position,
                         sb_purpose purpose, uint32_t *token, sb_error *err);

/* Mode `residual`, for a draft (below V) that was drawn from q (V) while the target has p (V).
 * sb_sample_accepts is true if the draft is accepted. sb_sample_residual draws the token that
 * replaces a rejected draft. */
int sb_sample_accepts(const sb_sampler *sampler, const float *p, const float *q, uint32_t draft,
                      uint64_t position);
uint32_t sb_sample_residual(const sb_sampler *sampler, const float *p, const float *q,
                            uint64_t position);

#ifdef __cplusplus
}
#endif

#endif
