/* async.h - asynchronous copies: cp.async and its groups, bulk copies and their mbarriers.
 *
 * A copy is carried out as late as possible, when a thread waits for it. Until then its destination
 * is poisoned. */
#ifndef SB_GPU_EMU_ASYNC_H
#define SB_GPU_EMU_ASYNC_H

#include "gpu/emu/grid.h"
#include "gpu/emu/pointer.h"

void sb_emu_cp_async(const sb_emu_spot *to, const sb_emu_spot *from, uint32_t bytes, uint32_t read,
                     sb_emu_site site);
void sb_emu_cp_async_commit();
void sb_emu_cp_async_wait(uint32_t left, sb_emu_site site); /* all groups except the last `left` */
void sb_emu_cp_async_wait_all(sb_emu_site site);            /* also the copies of the open group */

void sb_emu_mbarrier_init(const sb_emu_spot *at, uint32_t count, sb_emu_site site);
void sb_emu_mbarrier_arrive(const sb_emu_spot *at, uint32_t bytes, sb_emu_site site);
void sb_emu_mbarrier_wait(const sb_emu_spot *at, uint32_t parity, sb_emu_site site);
void sb_emu_bulk_copy(const sb_emu_spot *to, const sb_emu_spot *from, uint32_t bytes,
                      const sb_emu_spot *mbarrier, sb_emu_site site);

/* --- the interface of kernels (as in gpu/native/cuda.h) --------------------------------------- */

/* Copies N = 4, 8 or 16 bytes. Only the first `read` bytes are read; the others become zero. */
template <int N, class T, class U>
void sb_cp_async(sb_shared<T> to, sb_global<U> from, uint32_t read = N,
                 sb_emu_site site = sb_emu_site::here())
{
    static_assert(N == 4 || N == 8 || N == 16, "cp.async copies 4, 8 or 16 bytes");
    sb_emu_cp_async(&to.spot, &from.spot, N, read, site);
}
inline void sb_cp_async_commit()
{
    sb_emu_cp_async_commit();
}
template <int LEFT> void sb_cp_async_wait(sb_emu_site site = sb_emu_site::here())
{
    sb_emu_cp_async_wait(LEFT, site);
}
inline void sb_cp_async_wait_all(sb_emu_site site = sb_emu_site::here())
{
    sb_emu_cp_async_wait_all(site);
}

/* Initializes the mbarrier for `count` arrivals in each phase. Only one thread calls this; a fence
 * and a barrier must follow. */
inline void sb_mbarrier_init(sb_shared<uint64_t> at, uint32_t count,
                             sb_emu_site site = sb_emu_site::here())
{
    sb_emu_mbarrier_init(&at.spot, count, site);
}
inline void sb_mbarrier_arrive(sb_shared<uint64_t> at, sb_emu_site site = sb_emu_site::here())
{
    sb_emu_mbarrier_arrive(&at.spot, 0, site);
}
/* Arrives, and announces `bytes` bytes of bulk copies in this phase. */
inline void sb_mbarrier_arrive_expect(sb_shared<uint64_t> at, uint32_t bytes,
                                      sb_emu_site site = sb_emu_site::here())
{
    sb_emu_mbarrier_arrive(&at.spot, bytes, site);
}
/* Waits until the phase of this parity is over; the first phase has parity 0. */
inline void sb_mbarrier_wait(sb_shared<uint64_t> at, uint32_t parity,
                             sb_emu_site site = sb_emu_site::here())
{
    sb_emu_mbarrier_wait(&at.spot, parity, site);
}
/* Starts a copy of `bytes` bytes, a multiple of 16. Source and destination are aligned to 16 bytes.
 */
template <class T, class U>
void sb_bulk_copy(sb_shared<T> to, sb_global<U> from, uint32_t bytes, sb_shared<uint64_t> mbarrier,
                  sb_emu_site site = sb_emu_site::here())
{
    sb_emu_bulk_copy(&to.spot, &from.spot, bytes, &mbarrier.spot, site);
}
/* Orders earlier writes of threads, including the initialization of an mbarrier, before bulk
 * copies. Hardware needs this fence. */
inline void sb_fence_async()
{
}

#endif
