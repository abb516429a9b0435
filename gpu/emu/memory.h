/* memory.h - memory that emulated kernels see: which bytes have a value, and who touched them last.
 *
 * A region is one buffer of global memory or one array of shared memory. A kernel reaches it only
 * by checked pointers (pointer.h), which come here with every access. */
#ifndef SB_GPU_EMU_MEMORY_H
#define SB_GPU_EMU_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "gpu/base.h"

/* WATCHED is the state of inputs whose accesses are counted: no access passes by what looks at it.
 */
enum sb_emu_state : uint8_t { SB_EMU_UNSET, SB_EMU_SET, SB_EMU_COMING, SB_EMU_WATCHED };

/* One access to the bytes `mask` of a word: by which step of which thread, in which epoch. */
struct sb_emu_touch {
    uint64_t epoch;
    uint32_t step;
    uint16_t thread;
    uint8_t mask; /* 0: there is none */
    uint8_t more; /* of a cell's writer: which parts of the rest count */
};

/* The history of four bytes: the last writer of each, the last atomic operation, the last two
 * readers. What most words have stands in the cell, so that it stays in the caches of the host;
 * further writers, of some of the bytes, the atomic operation and the other reader in the rest. */
struct sb_emu_cell {
    sb_emu_touch writer, reader;
};
enum sb_emu_more : uint8_t { SB_EMU_WRITERS = 1, SB_EMU_CHANGED = 2, SB_EMU_READERS = 4 };
struct sb_emu_rest {
    sb_emu_touch writer[3], atomic, reader;
};

struct sb_emu_region {
    const char *name;
    char *base;
    size_t bytes;
    uint8_t *state;    /* an sb_emu_state per byte; NULL: an input */
    sb_emu_cell *cell; /* one per word; NULL: there is nothing to race for, or races are not looked
                        * for */
    sb_emu_rest *rest; /* one per word */
    uint64_t *last;    /* two per byte: the epochs of its last read and write that were counted */
    bool shared;
    bool input;   /* all of it has values, and nothing writes it */
    bool brought; /* an input that the host gives between launches, and gives again */
};

/* The thread that runs has not waited for the launch before its own (Y-16). */
extern __thread bool sb_emu_early;

enum sb_emu_access { SB_EMU_READ, SB_EMU_WRITE, SB_EMU_ATOMIC };

/* What a kernel may do with a buffer: only read it, or also write it; and whether the host has
 * given it values. */
enum sb_emu_use { SB_EMU_INPUT, SB_EMU_INOUT, SB_EMU_OUTPUT };

/* Registers a buffer of the caller's, which the region does not own; its name lives as long. The
 * second has no history (Y-14); of the third also accesses of an input are counted (Y-15). */
sb_status sb_emu_region_open(sb_emu_region *region, const char *name, void *base, size_t bytes,
                             sb_emu_use use, sb_error *err);
sb_status sb_emu_region_plain(sb_emu_region *region, const char *name, void *base, size_t bytes,
                              sb_emu_use use, sb_error *err);
sb_status sb_emu_region_counted(sb_emu_region *region, const char *name, void *base, size_t bytes,
                                sb_emu_use use, sb_error *err);
void sb_emu_region_close(sb_emu_region *region);

/* The first byte from `from` on that has no value, or the size of the region. */
size_t sb_emu_unset(const sb_emu_region *region, size_t from);

/* Where a checked pointer points: bytes from the base of its region, of which it may use [low,
 * high). */
struct sb_emu_spot {
    sb_emu_region *region;
    int64_t at, low, high;
};

/* Is it within the range, and at an address that `align`, a power of two, divides? */
static inline bool sb_emu_inside(const sb_emu_spot &spot, size_t bytes, size_t align)
{
    return spot.region && spot.at >= spot.low &&
           static_cast<int64_t>(bytes) <= spot.high - spot.at &&
           (static_cast<size_t>(spot.at) & (align - 1)) == 0;
}

/* Whether an access of a simple kind, to N bytes within the range, is one that nothing has to be
 * looked up for: a read of bytes that have values, or a write where no copy is on its way, in a
 * region without a history. */
template <size_t N> inline bool sb_emu_has_values(const sb_emu_spot &spot)
{
    uint8_t set[N];
    memset(set, SB_EMU_SET, N);
    return !spot.region->cell && memcmp(spot.region->state + spot.at, set, N) == 0;
}
template <size_t N> inline bool sb_emu_may_change(const sb_emu_spot &spot)
{
    uint8_t state[N], coming = 0;
    if (spot.region->cell || !spot.region->state)
        return false;
    memcpy(state, spot.region->state + spot.at, N);
    for (size_t i = 0; i < N; i++)
        coming |= state[i];
    return (coming & SB_EMU_COMING) == 0;
}

/* Checks an access of the running thread and returns the address; does not return from a fault. */
void *sb_emu_reach(const sb_emu_spot *spot, size_t bytes, size_t align, sb_emu_access access);

/* Fails where the region may be written while the kernel runs: of an access by `__ldg`. */
void sb_emu_read_only(const sb_emu_spot *spot);

/* The parts of it that asynchronous copies need: the range alone; the rest; a state for the bytes;
 * and `thread` as the writer of whole words, in the place of whoever was before. */
void *sb_emu_range(const sb_emu_spot *spot, size_t bytes, size_t align, const char *what);
void sb_emu_check(const sb_emu_spot *spot, size_t bytes, sb_emu_access access);
void sb_emu_set_state(const sb_emu_spot *spot, size_t bytes, sb_emu_state state);
void sb_emu_mark(const sb_emu_spot *spot, size_t bytes, uint32_t thread, uint32_t step);

#endif
