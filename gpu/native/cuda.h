/* cuda.h - for nvcc: those names of gpu/emu that CUDA does not have.
 *
 * Pointers are plain, and nothing is checked. In PTX, addresses in shared memory have 32 bits.
 */
#ifndef SB_GPU_NATIVE_CUDA_H
#define SB_GPU_NATIVE_CUDA_H

#include <stdint.h>

#include "gpu/base.h"

template <class T> using sb_global = T *;
template <class T> using sb_shared = T *;

template <class U, class T> __host__ __device__ __forceinline__ U *sb_cast(T *p)
{
    return reinterpret_cast<U *>(p);
}
template <class T, class I> __host__ __device__ __forceinline__ T *sb_part(T *p, I)
{
    return p;
}

#define SB_SHARED(type, name, count) __shared__ __align__(128) type name[count]
#define SB_SHARED_DYNAMIC(type, name)                                                              \
    extern __shared__ __align__(128) unsigned char sb_dynamic_bytes[];                             \
    type *const name = reinterpret_cast<type *>(sb_dynamic_bytes)

__device__ __forceinline__ uint32_t sb_shared_address(const void *p)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

/* Nothing writes weights while kernels run, and a block reads them once, so these loads bypass the
 * first-level cache. Volatile: the loads keep their place and order. They are ordinary loads: ptxas
 * moves loads of the read-only path (.nc) behind griddepcontrol.wait, where they cannot overlap
 * with the launch before (Y-64). */
__device__ __forceinline__ uint4 sb_load_weight(const uint4 *at)
{
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at));
    return v;
}

/* The value at `at`, or 0 without a read. A predicate and no branch, so that several of these loads
 * can be in flight. */
__device__ __forceinline__ uint32_t sb_load_if(bool there, const uint32_t *at)
{
    uint32_t v;
    asm volatile("{.reg .pred p; setp.ne.u32 p, %1, 0; mov.b32 %0, 0;"
                 "@p ld.global.b32 %0, [%2];}"
                 : "=r"(v)
                 : "r"(static_cast<uint32_t>(there)), "l"(at));
    return v;
}
__device__ __forceinline__ uint2 sb_load_if(bool there, const uint2 *at)
{
    uint2 v;
    asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; mov.b32 %0, 0; mov.b32 %1, 0;"
                 "@p ld.global.v2.b32 {%0, %1}, [%3];}"
                 : "=r"(v.x), "=r"(v.y)
                 : "r"(static_cast<uint32_t>(there)), "l"(at));
    return v;
}

/* --- barriers of some warps ------------------------------------------------------------------- */
__device__ __forceinline__ void sb_barrier_sync(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void sb_barrier_arrive(int id, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* --- cp.async --------------------------------------------------------------------------------- */
template <int N, class T, class U>
__device__ __forceinline__ void sb_cp_async(T *to, const U *from, uint32_t read = N)
{
    static_assert(N == 4 || N == 8 || N == 16, "cp.async copies 4, 8 or 16 bytes");
    if constexpr (N == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sb_shared_address(to)),
                     "l"(from), "r"(read)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(sb_shared_address(to)),
                     "l"(from), "n"(N), "r"(read)
                     : "memory");
}
__device__ __forceinline__ void sb_cp_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int LEFT> __device__ __forceinline__ void sb_cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
__device__ __forceinline__ void sb_cp_async_wait_all()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* --- mbarriers and bulk copies ---------------------------------------------------------------- */
__device__ __forceinline__ void sb_mbarrier_init(uint64_t *at, uint32_t count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sb_shared_address(at)), "r"(count)
                 : "memory");
}
__device__ __forceinline__ void sb_mbarrier_arrive(uint64_t *at)
{
    asm volatile("{ .reg .b64 phase;\n"
                 "  mbarrier.arrive.shared::cta.b64 phase, [%0]; }" ::"r"(sb_shared_address(at))
                 : "memory");
}
__device__ __forceinline__ void sb_mbarrier_arrive_expect(uint64_t *at, uint32_t bytes)
{
    asm volatile("{ .reg .b64 phase;\n"
                 "  mbarrier.arrive.expect_tx.shared::cta.b64 phase, [%0], %1; }" ::"r"(
                     sb_shared_address(at)),
                 "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void sb_mbarrier_wait(uint64_t *at, uint32_t parity)
{
    uint32_t over;
    do {
        asm volatile("{ .reg .pred over;\n"
                     "  mbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\n"
                     "  selp.u32 %0, 1, 0, over; }"
                     : "=r"(over)
                     : "r"(sb_shared_address(at)), "r"(parity)
                     : "memory");
    } while (!over);
}
template <class T, class U>
__device__ __forceinline__ void sb_bulk_copy(T *to, const U *from, uint32_t bytes,
                                             uint64_t *mbarrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(sb_shared_address(to)),
                 "l"(from), "r"(bytes), "r"(sb_shared_address(mbarrier))
                 : "memory");
}
__device__ __forceinline__ void sb_fence_async()
{
    asm volatile("fence.mbarrier_init.release.cluster;\n"
                 "fence.proxy.async;" ::
                     : "memory");
}

/* --- dependent launches (Y-16) ---------------------------------------------------------------- */
/* With SB_JITTER each warp sleeps for up to 4 us, another time in each call. So launches overlap in
 * other ways, and a read or a write on the wrong side of a wait is more likely to change a bit. */
__device__ __forceinline__ void sb_launch_jitter()
{
#ifdef SB_JITTER
    uint32_t h = static_cast<uint32_t>(clock64()) ^ (blockIdx.x * 2654435761u) ^ (threadIdx.x >> 5);
    h = (h ^ (h >> 15)) * 0x85ebca6bu;
    __nanosleep(h >> 20);
#endif
}
__device__ __forceinline__ void sb_launch_wait()
{
    sb_launch_jitter();
    asm volatile("griddepcontrol.wait;" ::: "memory");
    sb_launch_jitter();
}
__device__ __forceinline__ void sb_launch_ready()
{
    sb_launch_jitter();
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    sb_launch_jitter();
}

/* --- launches --------------------------------------------------------------------------------- */
struct sb_queue {
    cudaStream_t stream;
    sb_error *err;
    bool dependent = false;
    sb_launch_watch *watch = nullptr;
};

/* Requests dynamic shared memory beyond the default of a kernel. The limit is never lowered: a
 * graph may have been recorded with more. */
template <class... P> cudaError_t sb_native_shared(void (*kernel)(P...), size_t bytes)
{
    cudaFuncAttributes has = {};
    const cudaError_t status = bytes > 0 ? cudaFuncGetAttributes(&has, kernel) : cudaSuccess;
    if (status != cudaSuccess || static_cast<size_t>(has.maxDynamicSharedSizeBytes) >= bytes)
        return status;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(bytes));
}

/* Starts a kernel. */
template <class... P, class... A>
sb_status sb_native_call(const sb_queue *queue, const char *name, void (*kernel)(P...), dim3 grid,
                         dim3 block, size_t shared, const A &...args)
{
    cudaError_t status = sb_native_shared(kernel, shared);
    if (status == cudaSuccess) {
        cudaLaunchAttribute early = {};
        early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        early.val.programmaticStreamSerializationAllowed = 1;
        cudaLaunchConfig_t config = {};
        config.gridDim = grid;
        config.blockDim = block;
        config.dynamicSmemBytes = shared;
        config.stream = queue->stream;
        config.attrs = &early;
        config.numAttrs = queue->dependent;
        status = cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...);
    }
    return status == cudaSuccess
               ? SB_OK
               : sb_fail(queue->err, SB_ERR_IO, "kernel %s: %s", name, cudaGetErrorString(status));
}
#define SB_LAUNCH(queue, kernel, grid, block, shared, ...)                                         \
    sb_native_call(queue, sb_watched(queue, #kernel), kernel, grid, block, shared, __VA_ARGS__)

#endif
