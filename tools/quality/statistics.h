/* statistics.h - many tokens in a few numbers: docs/statistics.md.
 *
 * Sums are made in the order of the data, in binary64, and functions are those of wide_fn.h: the
 * same data gives the same digits on every machine. */
#ifndef SB_QUALITY_STATISTICS_H
#define SB_QUALITY_STATISTICS_H

#include "tools/accept/interval.h"
#include "tools/compare/verdict.h"
#include "tools/quality/sequential.h"

/* L-1: "nearest rank" of the percentiles. All zero if count is 0. */
typedef struct sb_spread {
    size_t count;
    double mean, median, p90, p99, most;
} sb_spread;

/* SB_ERR_MEMORY if there is no room to sort; SB_ERR_NUMERIC if a value is a NaN. */
sb_status sb_spread_of(const double *values, size_t count, sb_spread *out);

/* L-3: a mean of small whole numbers and its 95 % interval. */
typedef struct sb_mean {
    size_t count;
    double mean, low, high;
} sb_mean;

/* counts: runs follow each other, ends (run_count) tells where each ends. */
sb_mean sb_mean_of_counts(const unsigned char *counts, const size_t *ends, size_t run_count);

/* L-2: two largest logits that are not of the same token. */
typedef struct sb_flip {
    uint32_t sequence;
    uint64_t position;
    uint32_t top[2];
    double margin; /* of the reference's logits between its largest and the second */
    sb_verdict verdict;
} sb_flip;

/* Of one comparison. */
typedef struct sb_statistics {
    sb_spread kl;    /* of tokens whose distribution is known, whole or in part */
    size_t kl_lower; /* of so many of them only how large it is at least */
    sb_rate agreement;
    sb_interval agreement_at; /* 95 %, L-2 */
    sb_flip *flips;
    size_t flip_count;
    sb_mean
        accepted[2]; /* per round with a draft: reference, engine; the bonus token not counted */
    sb_sequential never; /* L-4: the largest logit is never another one */
} sb_statistics;

/* From the verdicts of a comparison, whose tokens of one sequence stand together. */
sb_status sb_statistics_of(const sb_verdicts *verdicts, sb_statistics *out, sb_error *err);
void sb_statistics_free(sb_statistics *statistics);

#endif
