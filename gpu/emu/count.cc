/* count.cc - what kernels do, counted: in a list, for it is short. */
#include "gpu/emu/count.h"

#include <string.h>

#include "gpu/emu/thread.h"

void sb_emu_count(sb_emu *emu, sb_emu_counts *counts)
{
    emu->counts = counts;
}

static bool same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* NULL: there are too many. */
static sb_emu_tally *tally_of(const sb_emu *emu, const char *what)
{
    const char *kernel = emu->launch->kernel;
    for (sb_emu_tally &tally : emu->counts->tally) {
        if (!tally.kernel)
            tally = {kernel, what, 0, 0, 0};
        if (same(tally.kernel, kernel) && same(tally.what, what))
            return &tally;
    }
    return nullptr;
}

/* The same in a thread of the kernel. */
static sb_emu_tally *tally_within(const sb_emu *emu, const char *what)
{
    sb_emu_tally *tally = tally_of(emu, what);
    if (!tally)
        sb_emu_fail("more than %d things to count", static_cast<int>(SB_EMU_TALLIES));
    tally->times++;
    return tally;
}

sb_status sb_emu_count_launch(sb_emu *emu)
{
    sb_emu_tally *tally = tally_of(emu, nullptr);
    if (!tally)
        return sb_fail(emu->err, SB_ERR_USAGE, "kernel %s: more than %d things to count",
                       emu->launch->kernel, static_cast<int>(SB_EMU_TALLIES));
    tally->times++;
    return SB_OK;
}

void sb_emu_count_operation(sb_emu *emu, const char *name)
{
    tally_within(emu, name);
}

void sb_emu_count_access(sb_emu *emu, const char *buffer, size_t bytes, sb_emu_access access)
{
    sb_emu_tally *tally = tally_within(emu, buffer);
    tally->read += access != SB_EMU_WRITE ? bytes : 0;
    tally->written += access != SB_EMU_READ ? bytes : 0;
}

sb_emu_tally sb_emu_counted(const sb_emu_counts *counts, const char *kernel, const char *what)
{
    sb_emu_tally sum = {kernel, what, 0, 0, 0};
    for (const sb_emu_tally &tally : counts->tally) {
        if (!tally.kernel || (kernel && !same(tally.kernel, kernel)) || !same(tally.what, what))
            continue;
        sum.times += tally.times;
        sum.read += tally.read;
        sum.written += tally.written;
    }
    return sum;
}
