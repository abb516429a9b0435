/* memory.h - the memory of emulated kernels: which bytes have a value, and which threads accessed
 * them last.
 *
 * A region is one buffer of global memory or one array of shared memory. Kernels access it only
 * through checked pointers (pointer.h), which call these functions for every access. */
#ifndef SB_GPU_EMU_MEMORY_H
#define SB_GPU_EMU_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "gpu/base.h"

/* WATCHED is for inputs whose accesses are counted: this state disables the fast path of pointers.
 */
enum sb_emu_state : uint8_t { SB_EMU_UNSET, SB_EMU_SET, SB_EMU_COMING, SB_EMU_WATCHED };

/* One access: its thread, step and epoch. Bit i of `mask` means byte i of the word. */
struct sb_emu_touch {
    uint64_t epoch;
    uint32_t step;
    uint16_t thread;
    uint8_t mask; /* 0: no access */
    uint8_t more; /* only in sb_emu_cell::writer: which parts of `rest` are in use (sb_emu_more) */
};

/* The history of four bytes: the last writer of each byte, the last atomic operation, the last two
 * readers. Most words need only the cell, which is small, so that the cells stay in the caches of
 * the host. sb_emu_rest holds the remaining history: writers of some of the bytes, the atomic
 * operation and the second reader. */
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
    sb_emu_cell *cell; /* one per word; NULL: no race is possible, or races are not checked */
    sb_emu_rest *rest; /* one per word */
    uint64_t *last;    /* two per byte: the epochs of the last counted read and write */
    bool shared;
    bool input;   /* all bytes have values, and kernels do not write them */
    bool brought; /* an input that the host may change between launches */
};

/* True until the running thread has called sb_launch_wait in a dependent launch (Y-16). */
extern __thread bool sb_emu_early;

enum sb_emu_access { SB_EMU_READ, SB_EMU_WRITE, SB_EMU_ATOMIC };

/* The use of a buffer: INPUT has values, and kernels only read it; INOUT has values; OUTPUT has
 * none at first. */
enum sb_emu_use { SB_EMU_INPUT, SB_EMU_INOUT, SB_EMU_OUTPUT };

/* Registers a buffer of the caller; buffer and name must outlive the region. With _plain there is
 * no history (Y-14). _counted also counts accesses to an input (Y-15). */
sb_status sb_emu_region_open(sb_emu_region *region, const char *name, void *base, size_t bytes,
                             sb_emu_use use, sb_error *err);
sb_status sb_emu_region_plain(sb_emu_region *region, const char *name, void *base, size_t bytes,
                              sb_emu_use use, sb_error *err);
sb_status sb_emu_region_counted(sb_emu_region *region, const char *name, void *base, size_t bytes,
                                sb_emu_use use, sb_error *err);
void sb_emu_region_close(sb_emu_region *region);

/* Returns the first byte without a value, from `from` on, or the size of the region. */
size_t sb_emu_unset(const sb_emu_region *region, size_t from);

/* The target of a checked pointer. `at`, `low` and `high` count bytes from the base of the region;
 * the pointer may access [low, high). */
struct sb_emu_spot {
    sb_emu_region *region;
    int64_t at, low, high;
};

/* True if an access is within the range and aligned to `align`, a power of two. */
static inline bool sb_emu_inside(const sb_emu_spot &spot, size_t bytes, size_t align)
{
    return spot.region && spot.at >= spot.low &&
           static_cast<int64_t>(bytes) <= spot.high - spot.at &&
           (static_cast<size_t>(spot.at) & (align - 1)) == 0;
}

/* The fast path, for N bytes within the range, in a region without a history. For a read:
 * sb_emu_has_values is true if all N bytes have values. For a write: sb_emu_may_change is true if
 * no copy to these bytes is in flight. If true, no further check is needed. */
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

/* Checks an access of the running thread and returns its address. A fault ends the launch. */
void *sb_emu_reach(const sb_emu_spot *spot, size_t bytes, size_t align, sb_emu_access access);

/* For accesses by `__ldg`: fails if the region may be written while the kernel runs. */
void sb_emu_read_only(const sb_emu_spot *spot);

/* The parts of sb_emu_reach that asynchronous copies need: _range checks only the range, and _check
 * does all other checks. _set_state sets the state of bytes. _mark makes `thread` the only writer
 * of whole words. */
void *sb_emu_range(const sb_emu_spot *spot, size_t bytes, size_t align, const char *what);
void sb_emu_check(const sb_emu_spot *spot, size_t bytes, sb_emu_access access);
void sb_emu_set_state(const sb_emu_spot *spot, size_t bytes, sb_emu_state state);
void sb_emu_mark(const sb_emu_spot *spot, size_t bytes, uint32_t thread, uint32_t step);

#endif
