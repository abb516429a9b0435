/* check_all.h - how much is tested: what takes long, too, with CHECK_ALL=1 in the environment; and
 * where SAMEBIT_CASES is small, less, as under the sanitizers, who ask how and not how often. */
#ifndef SB_TESTS_LIB_CHECK_ALL_H
#define SB_TESTS_LIB_CHECK_ALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static inline bool check_all(void)
{
    const char *all = getenv("CHECK_ALL");
    return all && strcmp(all, "1") == 0;
}

static inline bool check_few(void)
{
    const char *cases = getenv("SAMEBIT_CASES");
    return cases && strtoul(cases, NULL, 10) < 100000;
}

/* Whether number i of a list is looked at: of `make check`, one in `of`. */
static inline bool check_some(size_t i, size_t of)
{
    return check_all() || i % of == 0;
}

#endif
