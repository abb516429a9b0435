/* cuda.h - the CUDA names of a kernel that is compiled as C++ and runs on the CPU. */
#ifndef SB_GPU_EMU_CUDA_H
#define SB_GPU_EMU_CUDA_H

#include "gpu/emu/array.h"
#include "gpu/emu/async.h"
#include "gpu/emu/atomic.h"
#include "gpu/emu/float.h"
#include "gpu/emu/grid.h"
#include "gpu/emu/lanes.h"
#include "gpu/emu/pointer.h"
#include "gpu/emu/vector.h"
#include "gpu/emu/warp.h"
#include "gpu/emu/words.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

enum { warpSize = SB_EMU_WARP };

inline void __syncthreads(sb_emu_site site = sb_emu_site::here())
{
    sb_emu_block_barrier(site);
}
inline int __syncthreads_count(int predicate, sb_emu_site site = sb_emu_site::here())
{
    return static_cast<int>(sb_emu_block_count(predicate != 0, site));
}
inline int __syncthreads_or(int predicate, sb_emu_site site = sb_emu_site::here())
{
    return sb_emu_block_count(predicate != 0, site) != 0;
}
inline int __syncthreads_and(int predicate, sb_emu_site site = sb_emu_site::here())
{
    return sb_emu_block_count(predicate == 0, site) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu, sb_emu_site site = sb_emu_site::here())
{
    sb_emu_sync_warp(mask, site);
}
/* Barriers 1 to 15, for a multiple of 32 threads: bar.sync and bar.arrive. */
inline void sb_barrier_sync(int id, int threads, sb_emu_site site = sb_emu_site::here())
{
    sb_emu_named_barrier(id, threads, true, site);
}
inline void sb_barrier_arrive(int id, int threads, sb_emu_site site = sb_emu_site::here())
{
    sb_emu_named_barrier(id, threads, false, site);
}
/* Threads run one at a time and see each other's writes at once. */
inline void __threadfence()
{
}
inline void __threadfence_block()
{
}

/* Y-16: "waits until these have ended". On the emulator these launches have always ended, but a
 * thread must not rely on this before the call. */
inline void sb_launch_wait(sb_emu_site site = sb_emu_site::here())
{
    sb_emu_launch_wait(site);
}
/* Y-16: this block no longer holds back the next launch. On the emulator this has no effect. */
inline void sb_launch_ready()
{
}

/* The destination of launches: the emulator, the message of the first failure, whether launches are
 * dependent, and the record. If `record` is not NULL, launches are recorded instead of run. */
struct sb_queue {
    sb_emu *emu;
    sb_error *err;
    bool dependent = false;
    sb_emu_record *record = nullptr;
    sb_launch_watch *watch = nullptr;
};

/* sb_status SB_LAUNCH(queue, kernel, grid, block, bytes of dynamic shared memory, arguments...) */
#define SB_LAUNCH(queue, kernel, grid, block, shared, ...)                                         \
    sb_emu_start((queue)->emu, (queue)->record, sb_watched(queue, #kernel), kernel, grid, block,   \
                 shared, (queue)->dependent, (queue)->err, __VA_ARGS__)

#endif
