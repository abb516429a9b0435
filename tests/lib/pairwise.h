/* pairwise.h - a pairwise cover: each pair of values of two factors occurs in at least one case.
 * The cases depend only on the factors and the name of a stream. */
#ifndef SB_TESTS_LIB_PAIRWISE_H
#define SB_TESTS_LIB_PAIRWISE_H

#include <stddef.h>

enum { PAIRWISE_FACTORS = 10, PAIRWISE_VALUES = 40 };

typedef struct pairwise_factor {
    const char *name;
    const char *const *values;
    size_t count;
} pairwise_factor;

typedef struct pairwise_case {
    size_t value[PAIRWISE_FACTORS];
} pairwise_case;

/* Whether a case is possible; NULL: all are. A pair is left out if none of 40 drawn cases with it
 * is possible. */
typedef int (*pairwise_allowed)(const pairwise_case *c);

/* Draws at most `room` cases and returns their number. Each one adds at least one new pair. *pairs
 * gets the number of pairs; may be NULL. */
size_t pairwise_cover(const pairwise_factor *factors, size_t count, const char *stream,
                      pairwise_allowed allowed, pairwise_case *cases, size_t room, size_t *pairs);

/* Each value of each factor occurs in some case. There are as many cases as the longest factor has
 * values. */
size_t pairwise_each(const pairwise_factor *factors, size_t count, pairwise_allowed allowed,
                     pairwise_case *cases, size_t room);

#endif
