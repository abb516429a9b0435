/* plant_gates.cu - kernels with properties that device_gates.sh must detect. They are compiled like
 * the kernels of the backend, and some have similar names. */
#include "gpu/native/cuda.h"

/* Has more values than fit into 32 registers. */
extern "C" __global__ void __launch_bounds__(1024) plant_spill(const uint32_t *in, uint32_t *out)
{
    uint32_t x[64];
#pragma unroll
    for (int i = 0; i < 64; i++)
        x[i] = in[i * 1024 + threadIdx.x];
    for (int round = 0; round < 3; round++)
#pragma unroll
        for (int i = 0; i < 64; i++)
            x[i] = x[i] * x[(i * 7 + 3) % 64] + x[(i + 31) % 64];
#pragma unroll
    for (int i = 0; i < 64; i++)
        out[i * 1024 + threadIdx.x] = x[i];
}

/* FP8 by way of f16, as sm_90 expands the instruction. */
extern "C" __global__ void plant_sb_w8a8(const uint32_t *in, float *out)
{
    float d[4] = {0, 0, 0, 0};
    uint32_t wide;
    asm volatile("cvt.rn.f16x2.e4m3x2 %0, %1;"
                 : "=r"(wide)
                 : "h"(static_cast<uint16_t>(in[threadIdx.x])));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(wide));
    out[threadIdx.x] = d[0];
}

/* Uses no matrix unit at all. */
extern "C" __global__ void plant_sb_w4a4(const uint32_t *in, uint32_t *out)
{
    out[threadIdx.x] = in[threadIdx.x] * 3;
}
extern "C" __global__ void plant_sb_linear_kernel(const uint32_t *in, uint32_t *out)
{
    out[threadIdx.x] = in[threadIdx.x] * 5;
}

/* The only one of these kernels that may be launched dependently. With SB_JITTER it sleeps. */
extern "C" __global__ void plant_waits(uint32_t *out)
{
    sb_launch_ready();
    sb_launch_wait();
    out[threadIdx.x] = 1;
}

/* Layers whose first loads stand before the wait in the source: on the read-only path, where ptxas
 * moves them behind it, and as ordinary loads. */
#define LAYER(name, path)                                                                          \
    extern "C" __global__ void name(const uint4 *in, const uint32_t *after, uint4 *out)            \
    {                                                                                              \
        uint4 v[8], sum = {0, 0, 0, 0};                                                            \
        _Pragma("unroll") for (int i = 0; i < 8; i++)                                              \
        {                                                                                          \
            if (i == 4)                                                                            \
                asm volatile("griddepcontrol.wait;" ::: "memory");                                 \
            asm volatile("ld.global" path ".L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"        \
                         : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w)                  \
                         : "l"(in + i * 256 + threadIdx.x));                                       \
        }                                                                                          \
        _Pragma("unroll") for (int i = 0; i < 8; i++)                                              \
        {                                                                                          \
            sum.x += v[i].x * after[0];                                                            \
            sum.y ^= v[i].y + v[i].z * v[i].w;                                                     \
        }                                                                                          \
        out[threadIdx.x] = sum;                                                                    \
    }
LAYER(plant_late_sb_linear_kernel, ".nc")
LAYER(plant_early_sb_linear_kernel, "")

/* 40 KiB; with 60 KiB more, they exceed the limit. */
extern "C" __global__ void plant_room(const uint32_t *in, uint32_t *out)
{
    __shared__ uint32_t room[10240];
    extern __shared__ uint32_t more[];
    for (uint32_t i = threadIdx.x; i < 10240; i += blockDim.x)
        room[i] = more[i] = in[i];
    __syncthreads();
    out[threadIdx.x] = room[in[threadIdx.x] % 10240] + more[in[threadIdx.x] % 10240];
}

/* One operation if contracted, otherwise two. */
extern "C" __global__ void plant_contracted(const float *in, float *out)
{
    out[threadIdx.x] = in[threadIdx.x] * in[threadIdx.x + 1] + in[threadIdx.x + 2];
}

/* A load of each width. The next operation needs the loaded bits, so that no load is moved. */
#define PLANT_LOAD(bytes, type)                                                                    \
    extern "C" __global__ void plant_load_##bytes(const type *in, type *out)                       \
    {                                                                                              \
        out[threadIdx.x] = in[threadIdx.x];                                                        \
    }
PLANT_LOAD(1, uint8_t)
PLANT_LOAD(2, int16_t)
PLANT_LOAD(4, float)
PLANT_LOAD(8, uint2)
PLANT_LOAD(16, uint4)
extern "C" __global__ void plant_load_32(const uint4 *in, uint64_t *out)
{
#if __CUDA_ARCH__ >= 1000
    uint64_t x[4];
    asm volatile("ld.global.v4.u64 {%0, %1, %2, %3}, [%4];"
                 : "=l"(x[0]), "=l"(x[1]), "=l"(x[2]), "=l"(x[3])
                 : "l"(in + threadIdx.x));
    out[threadIdx.x] = x[0] ^ x[1] ^ x[2] ^ x[3];
#else /* there is no such load */
    out[threadIdx.x] = in[threadIdx.x].x;
#endif
}
extern "C" __global__ void plant_load_either(const uint32_t *in, uint32_t *out)
{
    __shared__ uint32_t room[64];
    room[threadIdx.x] = threadIdx.x;
    __syncthreads();
    const uint32_t *from = blockIdx.x ? in : room;
    out[threadIdx.x] = from[threadIdx.x ^ 1] + in[threadIdx.x];
}

/* The same for copies to shared memory. */
#define PLANT_COPY(name, kind, bytes)                                                              \
    extern "C" __global__ void name(const uint4 *in, uint4 *out)                                   \
    {                                                                                              \
        __shared__ uint4 room[256];                                                                \
        const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(room + threadIdx.x));   \
        asm volatile("cp.async." kind ".shared.global [%0], [%1], " #bytes ";"                     \
                     :                                                                             \
                     : "r"(to), "l"(in + threadIdx.x));                                            \
        asm volatile("cp.async.wait_all;");                                                        \
        out[threadIdx.x] = room[threadIdx.x];                                                      \
    }
PLANT_COPY(plant_copy_4, "ca", 4)
PLANT_COPY(plant_copy_8, "ca", 8)
PLANT_COPY(plant_copy_16, "cg", 16)

static __device__ uint32_t plant_sum(const uint4 &x)
{
    return (x.x ^ x.y) + (x.z ^ x.w);
}

/* Four loads before the first use; and four loads, each of which needs the one before. */
extern "C" __global__ void plant_four_at_once(const uint4 *in, uint32_t *out)
{
    uint4 x[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        x[i] = in[i * 1024 + threadIdx.x];
    out[threadIdx.x] = plant_sum(x[0]) * plant_sum(x[1]) + plant_sum(x[2]) * plant_sum(x[3]);
}
extern "C" __global__ void plant_one_by_one(const uint32_t *in, uint32_t *out)
{
    out[threadIdx.x] = in[in[in[in[threadIdx.x]]]];
}

/* Loads that are allowed for weights, and loads that are not. */
extern "C" __global__ void plant_sb_tile_kernel(const uint4 *in, uint4 *out)
{
    out[threadIdx.x] = in[threadIdx.x];
}
PLANT_COPY(plant_sb_tile_kernel_copies, "cg", 16)
extern "C" __global__ void plant_sb_tile_kernel_bytes(const uint4 *in, const uint8_t *more,
                                                      uint4 *out)
{
    uint4 x = in[threadIdx.x];
    x.x ^= more[threadIdx.x];
    out[threadIdx.x] = x;
}
extern "C" __global__ void plant_sb_tile_kernel_either(const uint4 *in, uint32_t *out)
{
    __shared__ uint32_t room[64];
    room[threadIdx.x] = in[threadIdx.x].x;
    __syncthreads();
    const uint32_t *from = blockIdx.x ? reinterpret_cast<const uint32_t *>(in) : room;
    out[threadIdx.x] = from[threadIdx.x ^ 1];
}
