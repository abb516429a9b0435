/* clock.h - what a thread knows of the others: which of their steps happened before its own.
 *
 * Every thread counts its steps; one ends where it releases something (a barrier, an arrival). A
 * clock holds, of every thread, the last step that is known to be over. All of it begins anew when
 * a barrier of the whole block is passed, which is an epoch. */
#ifndef SB_GPU_EMU_CLOCK_H
#define SB_GPU_EMU_CLOCK_H

#include <stdint.h>

struct sb_emu_clock {
    uint64_t epoch;       /* of another epoch: it knows nothing */
    uint32_t first, last; /* the threads [first, last) that may be known of */
    uint32_t *step;       /* storage of the owner's */
};

/* The last known step of a thread, 0: none. */
uint32_t sb_emu_known(const sb_emu_clock *clock, uint64_t epoch, uint32_t thread);
void sb_emu_learn(sb_emu_clock *clock, uint64_t epoch, uint32_t thread, uint32_t step);
void sb_emu_join(sb_emu_clock *into, uint64_t epoch, const sb_emu_clock *from);

#endif
