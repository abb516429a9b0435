/* count.h - what kernels do, counted: launches, bytes of global memory, operations of warps.
 *
 *     sb_emu_counts counts = {};
 *     sb_emu_count(emu, &counts);
 *     ... launches, whose buffers sb_emu_region_counted has registered ...
 *     sb_emu_counted(&counts, "sb_add_kernel", "out").written
 */
#ifndef SB_GPU_EMU_COUNT_H
#define SB_GPU_EMU_COUNT_H

#include "gpu/emu/grid.h"
#include "gpu/emu/memory.h"

/* Of one kernel: what is a buffer, an operation of warps (once for all its lanes), or NULL: the
 * kernel itself. times: accesses of threads, operations, launches. An atomic operation reads and
 * writes. */
struct sb_emu_tally {
    const char *kernel, *what;
    uint64_t times, read, written; /* bytes */
};

/* Filled from the first on. A launch that would need more of them fails. */
enum { SB_EMU_TALLIES = 96 };
struct sb_emu_counts {
    sb_emu_tally tally[SB_EMU_TALLIES];
};

/* What was counted; of what never was, zeros. kernel NULL: of all of them together. */
sb_emu_tally sb_emu_counted(const sb_emu_counts *counts, const char *kernel, const char *what);

/* For gpu/emu, where something is to be counted: of the kernel that runs. */
sb_status sb_emu_count_launch(sb_emu *emu);
void sb_emu_count_operation(sb_emu *emu, const char *name);
void sb_emu_count_access(sb_emu *emu, const char *buffer, size_t bytes, sb_emu_access access);

#endif
