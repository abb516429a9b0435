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

/* Different bytes. */
struct sb_emu_unlike {
    uint64_t read, written;
};

/* Of one kernel: what is a buffer, an operation of warps (once for all its lanes), or NULL: the
 * kernel itself. times: accesses of threads, operations, launches. An atomic operation reads and
 * writes. */
struct sb_emu_tally {
    const char *kernel, *what;
    uint64_t times, read, written; /* bytes */
    uint64_t narrow;               /* of those read, in accesses of less than 16 */
    sb_emu_unlike launch, block;   /* a byte once in each launch, and once in each block */
};

/* Filled from the first on. A launch that would need more of them fails. */
enum { SB_EMU_TALLIES = 224 };
struct sb_emu_counts {
    sb_emu_tally tally[SB_EMU_TALLIES];
    uint8_t found[64]; /* where one was, by its name */
};

/* What was counted; of what never was, zeros. kernel NULL: of all of them together. */
sb_emu_tally sb_emu_counted(const sb_emu_counts *counts, const char *kernel, const char *what);

/* For gpu/emu, where something is to be counted: of the kernel that runs. */
sb_status sb_emu_count_launch(sb_emu *emu);
void sb_emu_count_operation(sb_emu *emu, const char *name);
void sb_emu_count_access(sb_emu *emu, const sb_emu_spot *spot, size_t bytes, sb_emu_access access);

#endif
