/* statistics.h - summaries of many tokens: docs/statistics.md.
 *
 * Sums are binary64 in the order of the data, with the functions of wide_fn.h: the same data give
 * the same digits on every machine. */
#ifndef SB_QUALITY_STATISTICS_H
#define SB_QUALITY_STATISTICS_H

#include "tools/judge/accept/interval.h"
#include "tools/judge/compare/verdict.h"
#include "tools/judge/quality/sequential.h"

/* L-1: "nearest rank" of the percentiles. All zero if count is 0. */
typedef struct sb_spread {
    size_t count;
    double mean, median, p90, p99, most;
} sb_spread;

/* SB_ERR_MEMORY if memory is out for sorting; SB_ERR_NUMERIC if a value is NaN. */
sb_status sb_spread_of(const double *values, size_t count, sb_spread *out);

/* L-3: a mean of small whole numbers and its 95 % interval. */
typedef struct sb_mean {
    size_t count;
    double mean, low, high;
} sb_mean;

/* counts: the runs are consecutive; ends (run_count) has the end of each. */
sb_mean sb_mean_of_counts(const unsigned char *counts, const size_t *ends, size_t run_count);

/* L-2: the largest logits of the two sides are at different tokens. */
typedef struct sb_flip {
    uint32_t sequence;
    uint64_t position;
    uint32_t top[2];
    double margin; /* between the reference's largest and second logit */
    sb_verdict verdict;
} sb_flip;

/* The statistics of one comparison. */
typedef struct sb_statistics {
    sb_spread kl;    /* of tokens with a known distribution, whole or in part */
    size_t kl_lower; /* number of them with only a lower bound of the KL */
    sb_rate agreement;
    sb_interval agreement_at; /* 95 %, L-2 */
    sb_flip *flips;
    size_t flip_count;
    sb_mean accepted[2]; /* reference, engine: per round with a draft, without bonus token */
    sb_sequential never; /* L-4: the token of the largest logit never differs */
} sb_statistics;

/* From the verdicts of a comparison; the tokens of a sequence must be consecutive. */
sb_status sb_statistics_of(const sb_verdicts *verdicts, sb_statistics *out, sb_error *err);
void sb_statistics_free(sb_statistics *statistics);

#endif
