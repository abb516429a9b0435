/* near_logprobs.h - log-probabilities of a row, whole or of some ids, beside the logits of the
 * reference: how far they are off, what they leave over, and how far apart the distributions are
 * at least. T-60 to T-64 of docs/tolerances.md. */
#ifndef SB_COMPARE_NEAR_LOGPROBS_H
#define SB_COMPARE_NEAR_LOGPROBS_H

#include <stddef.h>

/* What was recorded of a row. */
typedef struct sb_near_row {
    const float *ids;    /* (count); NULL: value i is that of id i, and count is V */
    const float *values; /* (count) */
    size_t count;
    double step, floor; /* of logprob_limits; 0 and -infinity without */
} sb_near_row;

/* The logits of the reference, with their sum. */
typedef struct sb_near_ours {
    const float *logits; /* (V) */
    size_t V;
    double log_sum; /* sb_near_log_sum */
} sb_near_ours;

/* T-60: how far the number that value i stands for may lie from it, and whether it may be any below
 * it. */
double sb_near_step(const sb_near_row *row, size_t i);
int sb_near_at_floor(const sb_near_row *row, size_t i);

/* The id of value i; V if it is none. */
size_t sb_near_id(const sb_near_row *row, size_t V, size_t i);

/* T-61: the largest distance of a value from the reference's, as a share of what it may have, which
 * is `pair` and its step; infinity for a value that is not finite or an id that is none. */
typedef struct sb_near_errors {
    double ratio;
    size_t at;
    double error, allowed; /* there */
    size_t not_finite;
} sb_near_errors;
sb_near_errors sb_near_logprobs(const sb_near_ours *ours, const sb_near_row *row, double pair);

/* T-62: the probability of what is not listed: of the reference, and what the list leaves. */
typedef struct sb_near_rest {
    double ours;
    double least, most; /* of the list; least > most does not happen, most < 0: it sums to more */
} sb_near_rest;
sb_near_rest sb_near_left(const sb_near_ours *ours, const sb_near_row *row);

/* T-64: a divergence that the two have at least. */
double sb_near_kl_least(const sb_near_ours *ours, const sb_near_row *row);

#endif
