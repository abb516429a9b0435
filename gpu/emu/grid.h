/* grid.h - runs a kernel on the CPU, block by block, with a fiber for each thread.
 *
 * A seed decides the order of the blocks. It also decides which thread runs next whenever a thread
 * stops at a barrier, a collective or an atomic operation. A fault ends the launch with one line
 * that names kernel, block, thread and fault: docs/gpu.md. */
#ifndef SB_GPU_EMU_GRID_H
#define SB_GPU_EMU_GRID_H

#include <stddef.h>
#include <stdint.h>

#include <new>
#include <tuple>
#include <type_traits>

#include "gpu/base.h"
#include "gpu/emu/site.h"

struct alignas(4) uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned nx = 1, unsigned ny = 1, unsigned nz = 1) : x(nx), y(ny), z(nz)
    {
    }
};

/* The most bytes of shared memory and the most threads of a block on the target; the lanes of a
 * warp. */
enum { SB_EMU_SHARED_BYTES = 101376, SB_EMU_THREADS = 1024, SB_EMU_WARP = 32 };

struct sb_emu;
sb_emu *sb_emu_new(uint64_t seed); /* NULL: out of memory */
void sb_emu_free(sb_emu *emu);
void sb_emu_seed(sb_emu *emu, uint64_t seed); /* Y-3: "the same seed gives the same order" */

/* Switches the history of accesses on or off (Y-14). The default is on. Call this function between
 * launches, before the buffers of the next launch are opened. */
void sb_emu_history(sb_emu *emu, bool kept);

/* The number of switches from one thread to another since sb_emu_new. */
uint64_t sb_emu_switches(const sb_emu *emu);

/* Counts later launches in `counts` (count.h, Y-15); NULL: stops counting. */
struct sb_emu_counts;
void sb_emu_count(sb_emu *emu, sb_emu_counts *counts);

struct sb_emu_launch {
    const char *kernel;
    dim3 grid, block;
    size_t shared;                 /* bytes of dynamic shared memory */
    void (*body)(const void *all); /* calls the kernel with its arguments */
    const void *all;
    bool dependent; /* Y-16: "may begin while the launches before it still run" */
};

sb_status sb_emu_run(sb_emu *emu, const sb_emu_launch *launch, sb_error *err);

/* A kernel and its arguments, by value. */
template <class... P> struct sb_emu_arguments {
    void (*kernel)(P...);
    std::tuple<P...> values;

    static void run(const void *all)
    {
        const sb_emu_arguments *it = static_cast<const sb_emu_arguments *>(all);
        std::apply(it->kernel, it->values);
    }
};

/* Runs the kernel; or, if `record` is not NULL, stores the launch in the record (record.h). */
struct sb_emu_record;
void *sb_emu_keep(sb_emu_record *record, const sb_emu_launch *launch, size_t bytes, sb_error *err);

template <class... P, class... A>
sb_status sb_emu_start(sb_emu *emu, sb_emu_record *record, const char *name, void (*kernel)(P...),
                       dim3 grid, dim3 block, size_t shared, bool dependent, sb_error *err,
                       const A &...args)
{
    using arguments = sb_emu_arguments<P...>;
    static_assert(std::is_trivially_destructible_v<arguments>, "nobody destroys what is kept");
    const arguments given = {kernel, std::tuple<P...>(static_cast<P>(args)...)};
    const sb_emu_launch launch = {name, grid, block, shared, arguments::run, &given, dependent};
    if (!record)
        return sb_emu_run(emu, &launch, err);
    void *const kept = sb_emu_keep(record, &launch, sizeof given, err);
    if (kept)
        new (kept) arguments(given);
    return kept ? SB_OK : SB_ERR_MEMORY;
}
template <class... P, class... A>
sb_status sb_emu_call(sb_emu *emu, const char *name, void (*kernel)(P...), dim3 grid, dim3 block,
                      size_t shared, sb_error *err, const A &...args)
{
    return sb_emu_start(emu, nullptr, name, kernel, grid, block, shared, false, err, args...);
}

/* --- primitives of CUDA, for the running thread ----------------------------------------------- */

/* Ends the launch with this message. */
[[noreturn]] void sb_emu_fail(const char *format, ...) SB_PRINTF(1, 2);

void sb_emu_block_barrier(sb_emu_site site);                            /* __syncthreads */
unsigned sb_emu_block_count(bool predicate, sb_emu_site site);          /* __syncthreads_count */
void sb_emu_named_barrier(int id, int threads, bool wait, sb_emu_site); /* bar.sync, bar.arrive */
void sb_emu_progress(bool changed); /* reports whether an atomic operation has changed a value */
void sb_emu_pause();                /* lets another thread run */
void sb_emu_launch_wait(sb_emu_site site);

#endif
