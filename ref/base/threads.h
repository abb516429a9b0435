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

/* Whether so many products are worth a parallel region, which costs as much as some 10^5. */
static inline int sb_worth_threads(double products)
{
    return products > 1e6;
}

#endif
