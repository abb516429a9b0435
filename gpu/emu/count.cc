/* count.cc - counts of kernels, in a list. The list is short, so it is searched linearly. */
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

/* Finds or adds the tally of `what` for the running kernel. NULL: too many tallies. */
static sb_emu_tally *tally_of(const sb_emu *emu, const char *what)
{
    sb_emu_counts *counts = emu->counts;
    const char *kernel = emu->launch->kernel;
    uint8_t *found = &counts->found[reinterpret_cast<uintptr_t>(what) / 4 % sizeof counts->found];
    if (counts->tally[*found].kernel == kernel && counts->tally[*found].what == what)
        return &counts->tally[*found];
    for (uint8_t i = 0; i < SB_EMU_TALLIES; i++) {
        sb_emu_tally &tally = counts->tally[i];
        if (!tally.kernel)
            tally = {kernel, what, 0, 0, 0, 0, {}, {}};
        if (!same(tally.kernel, kernel) || !same(tally.what, what))
            continue;
        *found = i;
        return &tally;
    }
    return nullptr;
}

/* Like tally_of, but called by a thread of the kernel. Adds one to the tally's `times`. */
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

/* Counts the bytes that this launch accesses for the first time, and those that this block accesses
 * for the first time. */
static void count_unlike(const sb_emu *emu, uint64_t *last, size_t bytes, uint64_t *in_launch,
                         uint64_t *in_block)
{
    for (size_t i = 0; i < bytes; i++) {
        *in_launch += last[2 * i] < emu->launch_epoch;
        *in_block += last[2 * i] < emu->block_epoch;
        last[2 * i] = emu->epoch;
    }
}

void sb_emu_count_access(sb_emu *emu, const sb_emu_spot *spot, size_t bytes, sb_emu_access access)
{
    sb_emu_tally *tally = tally_within(emu, spot->region->name);
    uint64_t *last = spot->region->last ? spot->region->last + 2 * spot->at : nullptr;
    if (access != SB_EMU_WRITE) {
        tally->read += bytes;
        tally->narrow += bytes < 16 ? bytes : 0;
        if (last)
            count_unlike(emu, last, bytes, &tally->launch.read, &tally->block.read);
    }
    if (access != SB_EMU_READ) {
        tally->written += bytes;
        if (last)
            count_unlike(emu, last + 1, bytes, &tally->launch.written, &tally->block.written);
    }
}

sb_emu_tally sb_emu_counted(const sb_emu_counts *counts, const char *kernel, const char *what)
{
    sb_emu_tally sum = {kernel, what, 0, 0, 0, 0, {}, {}};
    for (const sb_emu_tally &tally : counts->tally) {
        if (!tally.kernel || (kernel && !same(tally.kernel, kernel)) || !same(tally.what, what))
            continue;
        sum.times += tally.times;
        sum.read += tally.read;
        sum.written += tally.written;
        sum.narrow += tally.narrow;
        sum.launch.read += tally.launch.read;
        sum.launch.written += tally.launch.written;
        sum.block.read += tally.block.read;
        sum.block.written += tally.block.written;
    }
    return sum;
}
