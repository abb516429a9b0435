#include "gpu/op/memory_fit.h"

#include <stdio.h>
#include <string.h>

sb_status sb_gpu_available(const char *path, uint64_t *bytes, sb_error *err)
{
    char line[256];
    unsigned long long kib = 0;
    bool found = false;
    FILE *f = fopen(path, "r");
    if (!f)
        return sb_fail(err, SB_ERR_IO, "%s cannot be read", path);
    while (!found && fgets(line, sizeof line, f))
        found = sscanf(line, "MemAvailable: %llu kB", &kib) == 1;
    fclose(f);
    if (!found || kib > UINT64_MAX / 1024)
        return sb_fail(err, SB_ERR_INPUT, "%s has no MemAvailable", path);
    *bytes = static_cast<uint64_t>(kib) * 1024;
    return SB_OK;
}

/* Memory reserved for states, caches, buffers of ops and the runtime. */
static const uint64_t beside = 1ull << 30;

static unsigned long long tenths(uint64_t bytes) /* of a GB */
{
    return bytes / 100000000;
}

sb_status sb_gpu_fits(uint64_t weights, uint64_t available, sb_error *err)
{
    if (available >= beside && weights <= available - beside)
        return SB_OK;
    const unsigned long long w = tenths(weights), a = tenths(available);
    return sb_fail(err, SB_ERR_MEMORY,
                   "the weights have %llu.%llu GB, but only %llu.%llu GB of memory are available, "
                   "and a run needs another 1 GB for itself",
                   w / 10, w % 10, a / 10, a % 10);
}
