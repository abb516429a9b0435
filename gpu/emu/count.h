/* count.h - counts of launches, bytes of global memory, and operations of warps.
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

/* Counts of distinct bytes. */
struct sb_emu_unlike {
    uint64_t read, written;
};

/* A count of one kernel. `what` is a buffer, an operation of warps (counted once for all lanes), or
 * NULL for the kernel itself. `times` are accesses of threads, operations, or launches. An atomic
 * operation counts as a read and a write. */
struct sb_emu_tally {
    const char *kernel, *what;
    uint64_t times, read, written; /* bytes */
    uint64_t narrow;               /* bytes read in accesses of less than 16 */
    sb_emu_unlike launch, block;   /* each byte counts once per launch, or once per block */
};

/* The most tallies; they are filled in order. A launch that needs more fails. */
enum { SB_EMU_TALLIES = 224 };
struct sb_emu_counts {
    sb_emu_tally tally[SB_EMU_TALLIES];
    uint8_t found[64]; /* a cache of tally indices, hashed by the address of `what` */
};

/* Returns the count of `what`; zeros if nothing was counted. kernel NULL: the sum over all kernels.
 */
sb_emu_tally sb_emu_counted(const sb_emu_counts *counts, const char *kernel, const char *what);

/* For gpu/emu only: these functions count for the running kernel. */
sb_status sb_emu_count_launch(sb_emu *emu);
void sb_emu_count_operation(sb_emu *emu, const char *name);
void sb_emu_count_access(sb_emu *emu, const sb_emu_spot *spot, size_t bytes, sb_emu_access access);

#endif
