/* sequential.h - a claim about a rate, tested while observations come in (L-4). */
#ifndef SB_QUALITY_SEQUENTIAL_H
#define SB_QUALITY_SEQUENTIAL_H

#include <stdint.h>

typedef enum sb_claim { SB_CLAIM_open, SB_CLAIM_holds, SB_CLAIM_broken } sb_claim;
const char *sb_claim_name(sb_claim claim);

/* Wald's test of "at most p0" against "at least p1". alpha: of calling a claim broken that holds;
 * beta: of letting one pass that is broken. p0 = 0 is "never". */
typedef struct sb_sequential {
    double p0, p1, alpha, beta;
    uint64_t seen, hits;
    double likelihood; /* the logarithm of the ratio */
    sb_claim claim;    /* once decided it stays */
} sb_sequential;

/* L-4: "once in a thousand, and both errors 1 in 100" */
sb_sequential sb_never(void);

/* 0 <= p0 < p1 < 1, 0 < alpha, beta < 1. */
sb_sequential sb_sequential_of(double p0, double p1, double alpha, double beta);

/* One observation. */
void sb_sequential_see(sb_sequential *test, int hit);

/* How many more observations without a hit would decide it; 0 if it is decided. */
uint64_t sb_sequential_more(const sb_sequential *test);

/* The rate that would have shown itself in `seen` observations without a hit but for a chance of
 * beta; 1 before the first. Once there were hits: the upper end of their 95 % interval. */
double sb_sequential_rate(const sb_sequential *test);

#endif
