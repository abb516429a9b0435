/* grid.cc - launches, the order of threads, barriers. */
#include "gpu/emu/count.h"
#include "gpu/emu/thread.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/emu/words.h"

__thread sb_emu *sb_emu_now;
__thread sb_emu_thread *sb_emu_self;
__thread bool sb_emu_early;
__thread uint3 threadIdx, blockIdx;
__thread dim3 blockDim, gridDim;

/* --- the emulator ----------------------------------------------------------------------------- */
static bool allocate(sb_emu *emu)
{
    const size_t cells = SB_EMU_SHARED_BYTES / 4;
    emu->arena_state = static_cast<uint8_t *>(sb_alloc(SB_EMU_SHARED_BYTES, 1));
    emu->arena_cell = static_cast<sb_emu_cell *>(sb_alloc(cells, sizeof(sb_emu_cell)));
    emu->arena_rest = static_cast<sb_emu_rest *>(sb_alloc(cells, sizeof(sb_emu_rest)));
    emu->thread = static_cast<sb_emu_thread *>(sb_alloc(SB_EMU_THREADS, sizeof(sb_emu_thread)));
    emu->ready = static_cast<uint32_t *>(sb_alloc(SB_EMU_THREADS, sizeof(uint32_t)));
    void *arena = nullptr; /* aligned for the widest access */
    if (posix_memalign(&arena, 1024, SB_EMU_SHARED_BYTES) != 0)
        arena = nullptr;
    emu->arena = static_cast<char *>(arena);
    return emu->arena && emu->arena_state && emu->arena_cell && emu->arena_rest && emu->thread &&
           emu->ready;
}

sb_emu *sb_emu_new(uint64_t seed)
{
    sb_emu *emu = static_cast<sb_emu *>(sb_alloc(1, sizeof(sb_emu)));
    if (!emu)
        return nullptr;
    if (!allocate(emu)) {
        sb_emu_free(emu);
        return nullptr;
    }
    sb_emu_seed(emu, seed);
    emu->history = true;
    return emu;
}

void sb_emu_seed(sb_emu *emu, uint64_t seed)
{
    emu->key = seed ? sb_rng_key(seed, "gpu/emu") : 0;
    emu->draws = 0;
}

uint64_t sb_emu_switches(const sb_emu *emu)
{
    return emu->switches;
}

void sb_emu_history(sb_emu *emu, bool kept)
{
    emu->history = kept;
}

/* --- stopping and continuing threads ---------------------------------------------------------- */
static sb_fiber *fiber_of(sb_emu *emu, const sb_emu_thread *thread)
{
    return thread ? &emu->fibers.fiber[thread->index] : &emu->fibers.home;
}

static void becomes(sb_emu_thread *thread)
{
    sb_emu_self = thread;
    sb_emu_early = thread && thread->early;
    if (thread)
        threadIdx = thread->place;
}

/* Ends the running fiber, after a failure or when it is no longer needed. */
[[noreturn]] static void leave()
{
    sb_emu *emu = sb_emu_now;
    sb_emu_thread *self = sb_emu_self;
    self->ran = false;
    becomes(nullptr);
    sb_fiber_leave(fiber_of(emu, self), &emu->fibers.home);
}

void sb_emu_wait()
{
    sb_emu *emu = sb_emu_now;
    sb_emu_thread *self = sb_emu_self, *next = sb_emu_next(emu);
    if (next == self)
        return;
    emu->switches++;
    becomes(next);
    sb_fiber_switch(fiber_of(emu, self), fiber_of(emu, next));
    if (emu->status != SB_OK)
        leave();
}

void sb_emu_pause()
{
    sb_emu_wake(sb_emu_self);
    sb_emu_now->gives_way = true;
    sb_emu_wait();
}

void sb_emu_blame(const sb_emu_thread *thread, const char *text)
{
    sb_emu *emu = sb_emu_now;
    char where[160] = "";
    if (thread->site.file)
        snprintf(where, sizeof where, " (its last call: %s at %s:%d)", thread->what,
                 thread->site.file, thread->site.line);
    emu->status =
        sb_fail(emu->err, SB_ERR_DIFF, "kernel %s, block (%u,%u,%u), thread (%u,%u,%u): %s%s",
                emu->launch->kernel, emu->place.x, emu->place.y, emu->place.z, thread->place.x,
                thread->place.y, thread->place.z, text, where);
}

void sb_emu_fail(const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sb_emu_blame(sb_emu_self, text);
    leave();
}

void sb_emu_fail_of(const sb_emu_thread *thread, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sb_emu_blame(thread, text);
    leave();
}

void sb_emu_out_of_memory(const char *what)
{
    sb_emu *emu = sb_emu_now;
    emu->status = sb_fail(emu->err, SB_ERR_MEMORY, "out of memory for %s", what);
    leave();
}

/* Y-9: "repeats atomic operations that change nothing" */
void sb_emu_progress(bool changed)
{
    sb_emu *emu = sb_emu_now;
    emu->idle = changed ? 0 : emu->idle + 1;
    if (emu->idle >= 1u << 24)
        sb_emu_fail("16777216 atomic operations in a row have changed nothing: the value that they "
                    "wait for does not come");
}

void sb_emu_launch_wait(sb_emu_site site)
{
    sb_emu_self->what = "sb_launch_wait";
    sb_emu_self->site = site;
    sb_emu_self->early = sb_emu_early = false;
}

/* --- a block ---------------------------------------------------------------------------------- */
/* The loop of a fiber: it runs the same thread of every block of every launch. */
static void thread_runs()
{
    sb_emu *emu = sb_emu_now;
    sb_fiber_arrived(&emu->fibers);
    sb_emu_self->ran = true;
    for (;;) {
        emu->launch->body(emu->launch->all);
        /* Y-16: "Each thread waits before it returns" */
        if (sb_emu_early)
            sb_emu_fail("returns without sb_launch_wait, in a dependent launch");
        sb_emu_returns();
        emu->returned++;
        sb_emu_self->waiting = SB_EMU_RETURNED;
        sb_emu_wait();
    }
}

static void begin_thread(sb_emu *emu, uint32_t i, uint3 place)
{
    sb_emu_thread *t = &emu->thread[i];
    const sb_emu_copies copies = {t->copies.copy, 0, t->copies.capacity};
    const bool ran = t->ran;
    if (!ran)
        sb_fiber_begin(&emu->fibers, i, thread_runs);
    *t = sb_emu_thread();
    t->index = i;
    t->place = place;
    t->copies = copies;
    t->step = 1;
    t->clock.step = emu->steps + i * sb_emu_clock_row(emu->threads);
    t->ran = ran;
    t->early = emu->launch->dependent;
    sb_emu_wake(t);
}

/* Ends all fibers wherever they stopped. The caller has set emu->status to a failure. */
static void end_fibers(sb_emu *emu)
{
    for (uint32_t i = 0; i < emu->fibers.count; i++) {
        sb_emu_thread *t = &emu->thread[i];
        if (t->ran) {
            becomes(t);
            sb_fiber_switch(&emu->fibers.home, fiber_of(emu, t));
        }
        t->ran = false;
    }
}

static void run_block(sb_emu *emu)
{
    blockIdx = emu->place;
    emu->block_epoch = ++emu->epoch;
    emu->returned = emu->mbarriers = 0;
    sb_emu_nobody(emu);
    emu->arrays = 0;
    emu->arena_used = 0;
    emu->idle = 0;
    memset(emu->warp_waiting, 0, sizeof emu->warp_waiting);
    for (uint32_t i = 0; i < SB_EMU_BARRIERS; i++)
        emu->barrier[i].arrived = 0;
    const dim3 block = emu->launch->block;
    uint3 place = {0, 0, 0};
    for (uint32_t i = 0; i < emu->threads; i++) {
        begin_thread(emu, i, place);
        const bool row_ends = ++place.x == block.x;
        place.x = row_ends ? 0 : place.x;
        const bool plane_ends = row_ends && ++place.y == block.y;
        place.y = plane_ends ? 0 : place.y;
        place.z += plane_ends;
    }
    sb_emu_thread *first = sb_emu_next(emu);
    becomes(first);
    sb_fiber_switch(&emu->fibers.home, fiber_of(emu, first));
    if (emu->status == SB_OK && emu->returned < emu->threads)
        sb_emu_report_stuck(emu);
    if (emu->status == SB_OK)
        sb_emu_block_ends();
    if (emu->status != SB_OK)
        end_fibers(emu);
}

/* --- a launch --------------------------------------------------------------------------------- */
static uint64_t volume(dim3 d)
{
    return static_cast<uint64_t>(d.x) * d.y * d.z;
}

static sb_status check_launch(const sb_emu_launch *launch, sb_error *err)
{
    const uint64_t threads = volume(launch->block), blocks = volume(launch->grid);
    if (sb_emu_now)
        return sb_fail(err, SB_ERR_USAGE, "kernel %s: a launch within a launch", launch->kernel);
    if (threads < 1 || threads > SB_EMU_THREADS || launch->block.z > 64)
        return sb_fail(err, SB_ERR_USAGE, "kernel %s: a block of %llu threads, expected 1 to %d",
                       launch->kernel, static_cast<unsigned long long>(threads), SB_EMU_THREADS);
    if (blocks < 1 || blocks > INT32_MAX || launch->grid.y > 65535 || launch->grid.z > 65535)
        return sb_fail(err, SB_ERR_USAGE, "kernel %s: a grid of %ux%ux%u blocks", launch->kernel,
                       launch->grid.x, launch->grid.y, launch->grid.z);
    if (launch->shared > SB_EMU_SHARED_BYTES)
        return sb_fail(err, SB_ERR_USAGE,
                       "kernel %s: %zu bytes of shared memory, expected at most %d", launch->kernel,
                       launch->shared, SB_EMU_SHARED_BYTES);
    return SB_OK;
}

/* Allocates the clocks of `threads` threads, of barriers and of mbarriers. */
sb_status sb_emu_clocks(sb_emu *emu, uint32_t threads)
{
    const size_t row = sb_emu_clock_row(threads);
    const size_t rows = threads + 1 + SB_EMU_BARRIERS + 2 * SB_EMU_MBARRIERS;
    free(emu->steps);
    emu->steps = static_cast<uint32_t *>(sb_alloc(rows * row, sizeof(uint32_t)));
    if (!emu->steps)
        return sb_fail(emu->err, SB_ERR_MEMORY, "out of memory for the clocks of a block");
    uint32_t *next = emu->steps + threads * row;
    emu->scratch = {0, 0, 0, next};
    for (uint32_t i = 0; i < SB_EMU_BARRIERS; i++)
        emu->barrier[i].clock = {0, 0, 0, next += row};
    for (uint32_t i = 0; i < SB_EMU_MBARRIERS; i++) {
        emu->mbarrier[i].coming = {0, 0, 0, next += row};
        emu->mbarrier[i].passed = {0, 0, 0, next += row};
    }
    return SB_OK;
}

/* Ends fibers that are no longer needed. */
static void retire(sb_emu *emu)
{
    sb_emu *before = sb_emu_now;
    sb_emu_now = emu;
    emu->status = SB_ERR_SKIPPED;
    end_fibers(emu);
    sb_emu_now = before;
}

static sb_status prepare(sb_emu *emu, const sb_emu_launch *launch, sb_error *err)
{
    const uint32_t threads = static_cast<uint32_t>(volume(launch->block));
    if (threads > emu->fibers.count) {
        retire(emu);
        sb_fiber_close(&emu->fibers);
        sb_status status = sb_fiber_open(&emu->fibers, threads, err);
        if (status != SB_OK)
            return status;
    }
    emu->err = err;
    emu->launch = launch;
    emu->status = SB_OK;
    sb_status status = threads == emu->threads ? SB_OK : sb_emu_clocks(emu, threads);
    emu->threads = status == SB_OK ? threads : 0;
    return status;
}

/* Y-2: "blocks run one after the other, in an order that is drawn" */
static void run_blocks(sb_emu *emu, uint32_t *order)
{
    const dim3 grid = emu->launch->grid;
    const uint32_t blocks = static_cast<uint32_t>(volume(grid));
    for (uint32_t i = 0; i < blocks; i++)
        order[i] = i;
    for (uint32_t i = 0; i < blocks && emu->status == SB_OK; i++) {
        const uint32_t chosen = i + sb_emu_draw(emu, blocks - i), block = order[chosen];
        order[chosen] = order[i];
        emu->place = {block % grid.x, block / grid.x % grid.y, block / grid.x / grid.y};
        run_block(emu);
    }
}

sb_status sb_emu_run(sb_emu *emu, const sb_emu_launch *launch, sb_error *err)
{
    sb_status status = check_launch(launch, err);
    if (status == SB_OK)
        status = prepare(emu, launch, err);
    if (status == SB_OK && emu->counts)
        status = sb_emu_count_launch(emu);
    if (status != SB_OK)
        return status;
    uint32_t *order =
        static_cast<uint32_t *>(sb_alloc(static_cast<size_t>(volume(launch->grid)), 4));
    if (!order)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the order of blocks");
    blockDim = launch->block;
    gridDim = launch->grid;
    emu->launch_epoch = emu->epoch + 1;
    sb_emu_now = emu;
    run_blocks(emu, order);
    sb_emu_now = nullptr;
    becomes(nullptr);
    free(order);
    return emu->status;
}

void sb_emu_free(sb_emu *emu)
{
    if (!emu)
        return;
    retire(emu);
    for (uint32_t i = 0; emu->thread && i < SB_EMU_THREADS; i++)
        free(emu->thread[i].copies.copy);
    for (uint32_t i = 0; i < SB_EMU_MBARRIERS; i++)
        free(emu->mbarrier[i].copies.copy);
    sb_fiber_close(&emu->fibers);
    free(emu->thread);
    free(emu->ready);
    free(emu->steps);
    free(emu->arena);
    free(emu->arena_state);
    free(emu->arena_cell);
    free(emu->arena_rest);
    free(emu);
}
