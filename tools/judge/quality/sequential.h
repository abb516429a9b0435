/* sequential.h - a sequential test of a claim about a rate (L-4). */
#ifndef SB_QUALITY_SEQUENTIAL_H
#define SB_QUALITY_SEQUENTIAL_H

#include <stdint.h>

typedef enum sb_claim { SB_CLAIM_open, SB_CLAIM_holds, SB_CLAIM_broken } sb_claim;
const char *sb_claim_name(sb_claim claim);

/* Wald's test of "at most p0" against "at least p1". alpha: probability of calling a true claim
 * broken; beta: probability of passing a broken one. p0 = 0 is "never". */
typedef struct sb_sequential {
    double p0, p1, alpha, beta;
    uint64_t seen, hits;
    double likelihood; /* the logarithm of the likelihood ratio */
    sb_claim claim;    /* final once decided */
} sb_sequential;

/* L-4: "p1 is one in a thousand, and both errors are 1 in 100" */
sb_sequential sb_never(void);

/* 0 <= p0 < p1 < 1, 0 < alpha, beta < 1. */
sb_sequential sb_sequential_of(double p0, double p1, double alpha, double beta);

/* Adds one observation. */
void sb_sequential_see(sb_sequential *test, int hit);

/* The number of further observations without a hit until a decision; 0 if decided. */
uint64_t sb_sequential_more(const sb_sequential *test);

/* The rate that `seen` observations without a hit exclude, with error probability beta; 1 before
 * the first observation. After a hit: the upper end of the 95 % interval of the rate. */
double sb_sequential_rate(const sb_sequential *test);

#endif
