/* interval.h - confidence intervals of a rate, and of the difference of two rates.
 *
 * Uses only basic binary64 operations in a fixed order, so that every machine gives the same bits.
 */
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

/* Requires of > 0; for of = 0 the result is 0, 0, 1. */
sb_interval sb_rate_interval(const sb_rate *rate, double z);

/* first - second. */
sb_interval sb_rate_difference(const sb_rate *first, const sb_rate *second, double z);

/* The design effect of flags, or of small counts. The runs of flags, one per text, follow each
 * other; ends (run_count) has the end of each. */
double sb_design_effect(const unsigned char *flags, const size_t *ends, size_t run_count);

#endif
