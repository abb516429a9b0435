/* check_all.h - whether what takes long is tested, too: CHECK_ALL=1 in the environment. */
#ifndef SB_TESTS_LIB_CHECK_ALL_H
#define SB_TESTS_LIB_CHECK_ALL_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool check_all(void)
{
    const char *all = getenv("CHECK_ALL");
    return all && strcmp(all, "1") == 0;
}

#endif
