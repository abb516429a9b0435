/* near_logprobs.h - compares log-probabilities of a row, of all ids or some, with the logits of the
 * reference: their errors, the probability of the ids that are not listed, and a lower bound of the
 * divergence. T-60 to T-64 of docs/tolerances.md. */
#ifndef SB_COMPARE_NEAR_LOGPROBS_H
#define SB_COMPARE_NEAR_LOGPROBS_H

#include <stddef.h>

/* The recorded row. */
typedef struct sb_near_row {
    const float *ids;    /* (count); NULL: value i belongs to id i, and count is V */
    const float *values; /* (count) */
    size_t count;
    double step, floor; /* logprob_limits of the file; without them 0 and -infinity */
} sb_near_row;

/* The logits of the reference, with their sum. */
typedef struct sb_near_ours {
    const float *logits; /* (V) */
    size_t V;
    double log_sum; /* sb_near_log_sum of the logits */
} sb_near_ours;

/* T-60: the largest distance of the true number from value i. sb_near_at_floor: 1 if the true
 * number may be any number below value i. */
double sb_near_step(const sb_near_row *row, size_t i);
int sb_near_at_floor(const sb_near_row *row, size_t i);

/* The id of value i; V if the id is invalid. */
size_t sb_near_id(const sb_near_row *row, size_t V, size_t i);

/* T-61: the largest error / allowed of all values, where allowed is `pair` plus the step of the
 * value; infinity for a value that is not finite or an invalid id. */
typedef struct sb_near_errors {
    double ratio;
    size_t at;
    double error, allowed; /* at this value */
    size_t not_finite;
} sb_near_errors;
sb_near_errors sb_near_logprobs(const sb_near_ours *ours, const sb_near_row *row, double pair);

/* T-62: the total probability of the ids that are not listed: in the reference, and 1 minus the
 * listed probabilities. */
typedef struct sb_near_rest {
    double ours;
    /* 1 minus the listed probabilities; least <= most; most < 0: they sum to more than 1 */
    double least, most;
} sb_near_rest;
sb_near_rest sb_near_left(const sb_near_ours *ours, const sb_near_row *row);

/* T-64: a lower bound of the divergence of the two distributions. */
double sb_near_kl_least(const sb_near_ours *ours, const sb_near_row *row);

#endif
