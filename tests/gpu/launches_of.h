/* launches_of.h - for tests: the number of launches of a kernel, over all its instances. */
#ifndef SB_TESTS_GPU_LAUNCHES_OF_H
#define SB_TESTS_GPU_LAUNCHES_OF_H

#include <string.h>

#include "gpu/emu/count.h"

inline uint64_t launches_of(const sb_emu_counts &counts, const char *kernel)
{
    uint64_t all = 0;
    for (const sb_emu_tally &tally : counts.tally)
        if (tally.kernel && !tally.what && strstr(tally.kernel, kernel))
            all += tally.times;
    return all;
}

#endif
