/* threads.h - whether a loop is worth sharing out among threads (pool.h). */
#ifndef SB_BASE_THREADS_H
#define SB_BASE_THREADS_H

#include "ref/base/pool.h"

/* Work is counted in products of a stored weight and an input. One value elsewhere costs about as
 * much as so many: */
static const double SB_COST_state = 4;    /* of a state that is decayed, read and added to */
static const double SB_COST_rounded = 16; /* that is normalised, quantized or summed, and rounded */
static const double SB_COST_exponential = 64; /* that goes through silu, a sigmoid or the like */

/* Whether so many products are worth more than one thread. Sharing out costs as much as some 10^4
 * where the other threads are awake, and more than 10^5 where they sleep or others have the
 * processors. */
static inline int sb_worth_threads(double products)
{
    return products > 2e5;
}

#endif
