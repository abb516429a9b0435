/* clock.h - vector clocks: for each thread, which steps of other threads happened before.
 *
 * Every thread counts its steps; a step ends at a release (a barrier, an arrival). A clock stores,
 * for every thread, the last step that is known to be over. A barrier of the whole block begins a
 * new epoch, in which all clocks are empty. */
#ifndef SB_GPU_EMU_CLOCK_H
#define SB_GPU_EMU_CLOCK_H

#include <stdint.h>

struct sb_emu_clock {
    uint64_t epoch;       /* if not the current epoch, the clock is empty */
    uint32_t first, last; /* only threads [first, last) may have an entry */
    uint32_t *step;       /* storage of the clock's owner */
};

/* Returns the last known step of a thread; 0: no step is known. */
uint32_t sb_emu_known(const sb_emu_clock *clock, uint64_t epoch, uint32_t thread);
void sb_emu_learn(sb_emu_clock *clock, uint64_t epoch, uint32_t thread, uint32_t step);
void sb_emu_join(sb_emu_clock *into, uint64_t epoch, const sb_emu_clock *from);

#endif
