/* thread.h - the state of an emulated block; for gpu/emu only. */
#ifndef SB_GPU_EMU_THREAD_H
#define SB_GPU_EMU_THREAD_H

#include "gpu/emu/clock.h"
#include "gpu/emu/fiber.h"
#include "gpu/emu/grid.h"
#include "gpu/emu/memory.h"
#include "gpu/emu/warp.h"

enum sb_emu_waiting : uint8_t {
    SB_EMU_READY,
    SB_EMU_BARRIER,
    SB_EMU_WARP_OP,
    SB_EMU_MBARRIER,
    SB_EMU_RETURNED
};
enum { SB_EMU_BARRIERS = 16, SB_EMU_MBARRIERS = 64, SB_EMU_STATICS = 32 };

/* The number of entries of a clock: one for each thread, and one for the bulk copies of each
 * mbarrier. So a thread that waits for one mbarrier is not ordered after the copies of other
 * mbarriers. */
static inline size_t sb_emu_clock_row(uint32_t threads)
{
    return static_cast<size_t>(threads) + SB_EMU_MBARRIERS;
}

/* An asynchronous copy that was started but not carried out yet. */
struct sb_emu_copy {
    sb_emu_spot to, from;
    uint32_t bytes, read; /* the bytes behind `read` become zero */
    uint64_t group;       /* for cp.async: the number of its group */
};

struct sb_emu_copies {
    sb_emu_copy *copy;
    uint32_t count, capacity;
};

struct sb_emu_thread {
    uint32_t index;
    uint3 place;
    sb_emu_waiting waiting;
    bool ran;         /* its fiber has started and has not ended */
    bool early;       /* in a dependent launch, before sb_launch_wait */
    sb_emu_site site; /* the last call that could wait */
    const char *what; /* the name of this call */
    uint32_t barrier; /* the barrier that the thread waits for */
    uint32_t mask;    /* mask of the collective that the thread waits in; box: its operands */
    void *box;
    sb_emu_operation *operation;
    void (*apply)(uint32_t mask, void *const *boxes);
    uint32_t parity; /* parity of the mbarrier phase that the thread waits for */
    uint32_t step;
    sb_emu_clock clock;
    sb_emu_copies copies; /* cp.async of the thread in flight */
    uint64_t group;       /* the number of the open group */
};

struct sb_emu_barrier {
    uint32_t arrived, wanted, count,
        first; /* count: true predicates; first: first thread to come */
    sb_emu_clock clock;
};

struct sb_emu_mbarrier {
    int64_t at; /* the place of the mbarrier in shared memory */
    uint32_t count, pending, phase;
    int64_t expected;            /* bytes of bulk copies still to come */
    sb_emu_clock coming, passed; /* clocks of the current phase, and of completed phases */
    sb_emu_copies copies;
};

struct sb_emu_array {
    const void *tag; /* identifies the declaration; NULL: dynamic shared memory */
    sb_emu_region region;
};

struct sb_emu {
    uint64_t key, draws, switches;
    uint32_t idle; /* atomic operations in a row that changed nothing */
    sb_error *err;
    sb_status status;
    const sb_emu_launch *launch;
    uint3 place; /* the coordinates of the running block */
    sb_fiber_set fibers;
    sb_emu_thread *thread;
    uint32_t threads, returned;
    uint32_t answer; /* result of the last block barrier, valid until all threads are at the next */
    uint32_t *ready; /* a ring of threads that can run */
    uint32_t ready_first, readies;
    sb_emu_counts *counts; /* NULL: nothing is counted */
    bool history;          /* a history of accesses is kept */
    bool gives_way;        /* the running thread yields to another warp */
    uint32_t warps, warp,
        turn; /* mask of warps with threads that can run; current warp; its first lane */
    uint32_t lanes[SB_EMU_THREADS / SB_EMU_WARP]; /* the threads that can run, for each such warp */
    uint32_t *steps;                              /* storage of all clocks */
    sb_emu_clock scratch;
    uint32_t bulk_step; /* the last step of bulk copies; entry threads + i of a clock: mbarrier i */
    uint64_t epoch, block_epoch, launch_epoch;           /* now; first of block and of launch */
    uint32_t warp_waiting[SB_EMU_THREADS / SB_EMU_WARP]; /* lanes that wait in collectives */
    sb_emu_barrier barrier[SB_EMU_BARRIERS];
    sb_emu_mbarrier mbarrier[SB_EMU_MBARRIERS];
    uint32_t mbarriers;
    char *arena; /* shared memory; then its states and its history */
    uint8_t *arena_state;
    sb_emu_cell *arena_cell;
    sb_emu_rest *arena_rest;
    size_t arena_used;
    sb_emu_array array[SB_EMU_STATICS];
    uint32_t arrays;
};

/* The running emulator and its running thread, for this thread of the operating system. */
extern __thread sb_emu *sb_emu_now;
extern __thread sb_emu_thread *sb_emu_self;

/* Ends the launch because of a fault of another thread. */
[[noreturn]] void sb_emu_fail_of(const sb_emu_thread *thread, const char *format, ...)
    SB_PRINTF(2, 3);

/* Ends the launch for lack of memory, which is no fault of the kernel. */
[[noreturn]] void sb_emu_out_of_memory(const char *what);

/* Marks the launch as failed, with this thread and message. */
void sb_emu_blame(const sb_emu_thread *thread, const char *text);

/* order.cc. _draw draws a number below n. _nobody clears the set of threads that can run. _next
 * picks the next thread; NULL: no thread can run. */
uint32_t sb_emu_draw(sb_emu *emu, uint32_t n);
void sb_emu_nobody(sb_emu *emu);
sb_emu_thread *sb_emu_next(sb_emu *emu);

void sb_emu_wait(); /* stops the running thread until sb_emu_wake */
void sb_emu_wake(sb_emu_thread *thread);
/* _release adds the running thread's steps so far to `into`. _acquire adds the steps in `from` to
 * the clock of the running thread. */
void sb_emu_release(sb_emu_clock *into);
void sb_emu_acquire(const sb_emu_clock *from);
sb_status sb_emu_clocks(sb_emu *emu, uint32_t threads);

/* async.cc: called at the end of a thread, and of a block. If copies are still in flight, the
 * launch fails. */
void sb_emu_returns();
void sb_emu_block_ends();

/* report.cc: writes the message why no thread can continue. */
void sb_emu_report_stuck(sb_emu *emu);

#endif
