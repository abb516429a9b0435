/* sampler_row.h - one row of logits behind a declared sampler: which tokens it can draw, and how
 * often (T-95).
 *
 * Each logit is an interval, because the sampler rounds, and because the logits of the engine may
 * not be recorded. */
#ifndef SB_COMPARE_SAMPLER_ROW_H
#define SB_COMPARE_SAMPLER_ROW_H

#include "ref/base/status.h"
#include "tools/judge/trace/sampling.h"

/* How often each token occurred before the row. */
typedef struct sb_token_counts {
    const uint32_t *tokens; /* (count) the tokens up to this row; the first `prompt` were given */
    size_t count, prompt;
} sb_token_counts;

/* A sampler with all its settings; value: by sb_setting. */
typedef struct sb_settings {
    double value[SB_SETTINGS];
    const char *steps; /* a row of samplers.def */
    int generated;
    double rounding;
    int more;     /* tokens that top_p keeps beyond the right ones; below 0: fewer */
    int absolute; /* min_p is compared with the probability itself */
    int times;    /* how often the penalties are applied */
} sb_settings;

/* What a sampler that is declared has; settings that are not declared are off. */
sb_settings sb_settings_of(const sb_step_sampling *declared, const sb_sampler_order *order);

typedef struct sb_sampler_row sb_sampler_row; /* scratch for V tokens */

sb_status sb_sampler_row_new(size_t vocab, sb_sampler_row **out, sb_error *err);
void sb_sampler_row_free(sb_sampler_row *row);

/* Whether a sampler can draw a token: no correct one can, rounding decides, every one can. */
typedef enum sb_support { SB_SUPPORT_out, SB_SUPPORT_open, SB_SUPPORT_in } sb_support;

/* Reads a row of V finite logits; two of them may approach each other by `pair` (0: the logits are
 * the engine's own). Then says for each token whether the sampler can draw it. */
void sb_sampler_row_judge(sb_sampler_row *row, const sb_step_sampling *declared,
                          const float *logits, double pair, const sb_token_counts *counts);

/* Of the row that was judged last. */
sb_support sb_sampler_row_support(const sb_sampler_row *row, uint32_t token);

/* An upper bound of the token's probability. 1 if nothing is known. */
double sb_sampler_row_most(const sb_sampler_row *row, uint32_t token);

/* The number of tokens that every correct sampler, and that some correct sampler can draw. */
size_t sb_sampler_row_least_count(const sb_sampler_row *row);
size_t sb_sampler_row_most_count(const sb_sampler_row *row);

/* Bounds of the sum of the probabilities of the tokens before this one, and of those up to and with
 * it: by falling logit, or by id. */
typedef struct sb_share {
    double before_least, before_most, with_least, with_most;
} sb_share;
sb_share sb_sampler_row_share(const sb_sampler_row *row, uint32_t token, int by_id);

/* Bounds of the logit after penalties, divided by the temperature. */
void sb_sampler_row_scaled(const sb_sampler_row *row, uint32_t token, double *least, double *most);

/* How many tokens are surely above this one. */
size_t sb_sampler_row_above(const sb_sampler_row *row, uint32_t token);

/* Sorts the tokens by their logits after the penalties of these settings, without any interval. */
void sb_sampler_row_order(sb_sampler_row *row, const sb_settings *settings, const float *logits,
                          const sb_token_counts *counts);

/* The distribution (V) of a sampler with these settings, whose penalties must be those of the
 * order. */
void sb_sampler_row_point(sb_sampler_row *row, const sb_settings *settings, double *p);

/* The token at a place, from 0, of the order; and its inverse. */
uint32_t sb_sampler_row_at(const sb_sampler_row *row, size_t place);
size_t sb_sampler_row_place(const sb_sampler_row *row, uint32_t token);

#endif
