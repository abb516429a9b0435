/* clock.cc - vector clocks over a range of threads of a block. */
#include "gpu/emu/clock.h"

#include <string.h>

uint32_t sb_emu_known(const sb_emu_clock *clock, uint64_t epoch, uint32_t thread)
{
    const bool inside = clock->epoch == epoch && thread >= clock->first && thread < clock->last;
    return inside ? clock->step[thread] : 0;
}

/* Extends the range to contain [first, last); new entries are empty. */
static void widen(sb_emu_clock *clock, uint64_t epoch, uint32_t first, uint32_t last)
{
    if (clock->epoch != epoch) {
        clock->epoch = epoch;
        clock->first = first;
        clock->last = first;
    }
    if (first < clock->first) {
        memset(clock->step + first, 0, (clock->first - first) * sizeof(uint32_t));
        clock->first = first;
    }
    if (last > clock->last) {
        memset(clock->step + clock->last, 0, (last - clock->last) * sizeof(uint32_t));
        clock->last = last;
    }
}

void sb_emu_learn(sb_emu_clock *clock, uint64_t epoch, uint32_t thread, uint32_t step)
{
    widen(clock, epoch, thread, thread + 1);
    if (clock->step[thread] < step)
        clock->step[thread] = step;
}

void sb_emu_join(sb_emu_clock *into, uint64_t epoch, const sb_emu_clock *from)
{
    if (from->epoch != epoch)
        return;
    widen(into, epoch, from->first, from->last);
    for (uint32_t i = from->first; i < from->last; i++)
        if (into->step[i] < from->step[i])
            into->step[i] = from->step[i];
}
