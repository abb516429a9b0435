/* threads.h - decides if a loop is worth sharing out among threads (pool.h). */
#ifndef SB_BASE_THREADS_H
#define SB_BASE_THREADS_H

#include "ref/base/pool.h"

/* The unit of work is one product of a stored weight and an input. The constants are the costs of
 * other work in this unit: `state` for an element of a state that is decayed, read and added to;
 * `rounded` for a value that is normalised, quantized or summed, and rounded; `exponential` for a
 * value of silu, a sigmoid or a similar function. */
static const double SB_COST_state = 4;
static const double SB_COST_rounded = 16;
static const double SB_COST_exponential = 64;

/* True if this number of products is worth more than one thread. Starting a loop on all threads
 * costs as much as about 10^4 products if the other threads are awake. It costs more than 10^5 if
 * they sleep or other processes use the processors. */
static inline int sb_worth_threads(double products)
{
    return products > 2e5;
}

#endif
