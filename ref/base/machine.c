/* The number of memory pages is not in POSIX. */
#define _DEFAULT_SOURCE
#include "ref/base/machine.h"

#include <sys/resource.h>
#include <unistd.h>

uint64_t sb_peak_resident(void)
{
#ifdef __APPLE__
    enum { UNIT = 1 };
#else
    enum { UNIT = 1024 };
#endif
    struct rusage used;
    return getrusage(RUSAGE_SELF, &used) == 0 ? (uint64_t)used.ru_maxrss * UNIT : 0;
}

uint64_t sb_machine_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (uint64_t)pages * (uint64_t)bytes : 0;
}
