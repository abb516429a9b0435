/* interval.h - how sure a rate is, and the difference of two.
 *
 * Basic operations of binary64 in a fixed order and nothing else, so that every machine gives the
 * same bits. */
#ifndef SB_ACCEPT_INTERVAL_H
#define SB_ACCEPT_INTERVAL_H

#include <stddef.h>
#include <stdint.h>

/* Standard deviations of a normal variable: two-sided 95 % and 99.9 %. */
#define SB_Z_SHOWN 1.959963984540054
#define SB_Z_DECIDES 3.290526731491894

typedef struct sb_rate {
    uint64_t accepted, of;
    double effect; /* design effect of E-3, at least 1 */
} sb_rate;

typedef struct sb_interval {
    double rate, low, high;
} sb_interval;

/* The square root of x >= 0. */
double sb_root64(double x);

/* Of a rate with of > 0; of 0 gives 0, 0, 1. */
sb_interval sb_rate_interval(const sb_rate *rate, double z);

/* first - second. */
sb_interval sb_rate_difference(const sb_rate *first, const sb_rate *second, double z);

/* The design effect of count flags, or small counts; runs of the same text follow each other, and
 * ends (run_count) tells where each ends. */
double sb_design_effect(const unsigned char *flags, const size_t *ends, size_t run_count);

#endif
