/* threads.h - how many threads a parallel region would have that starts here, and whether to start
 * one. */
#ifndef SB_BASE_THREADS_H
#define SB_BASE_THREADS_H

#include <omp.h>
#include <stddef.h>

/* omp_get_max_threads() does not say that a region inside others has one thread where no more of
 * them may share out work. */
static inline size_t sb_threads_here(void)
{
    return omp_get_active_level() >= omp_get_max_active_levels() ? 1
                                                                 : (size_t)omp_get_max_threads();
}

/* Work is counted in products of a stored weight and an input. One value elsewhere costs about as
 * much as so many: */
enum {
    SB_COST_state = 4,       /* of a state that is decayed, read and added to */
    SB_COST_rounded = 16,    /* that is normalised, quantized or summed, and rounded */
    SB_COST_exponential = 64 /* that goes through silu, a sigmoid or the like */
};

/* Whether so many products are worth a parallel region. It costs as much as some 10^4 where the
 * other threads are awake, and more than 10^5 where they sleep or others have the processors. */
static inline int sb_worth_threads(double products)
{
    return products > 2e5;
}

#endif
