/* check_all.h - the extent of a test. With CHECK_ALL=1 in the environment, tests include the slow
 * cases. With a small SAMEBIT_CASES they run fewer cases: the sanitizers look for errors of memory
 * and not for rare values. */
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

/* Whether to test number i of a list. `make check` tests one in `of`. */
static inline bool check_some(size_t i, size_t of)
{
    return check_all() || i % of == 0;
}

#endif
