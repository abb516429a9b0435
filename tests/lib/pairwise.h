/* pairwise.h - a pairwise cover: each value of each factor meets each value of every other factor
 * in at least one case. The cases are a function of the factors and the name of a stream. */
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

/* Whether such a case can be; NULL: all can. A pair that no case of 40 draws allows stays out. */
typedef int (*pairwise_allowed)(const pairwise_case *c);

/* At most `room` cases, none of which is superfluous when it is drawn; how many there are. *pairs
 * (may be NULL): how many pairs there are. */
size_t pairwise_cover(const pairwise_factor *factors, size_t count, const char *stream,
                      pairwise_allowed allowed, pairwise_case *cases, size_t room, size_t *pairs);

/* Each value of each factor in some case: as many cases as the longest factor has values. */
size_t pairwise_each(const pairwise_factor *factors, size_t count, pairwise_allowed allowed,
                     pairwise_case *cases, size_t room);

#endif
