/* plant_gates.cu - kernels with what device_gates.sh must find: compiled as the kernels of the
 * backend are, and named as some of these. */
#include <stdint.h>

/* More values than 32 registers hold. */
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

/* FP8 by way of f16: what sm_90 makes of the instruction by itself. */
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

/* No matrix unit in any. */
extern "C" __global__ void plant_sb_w4a4(const uint32_t *in, uint32_t *out)
{
    out[threadIdx.x] = in[threadIdx.x] * 3;
}
extern "C" __global__ void plant_sb_linear_kernel(const uint32_t *in, uint32_t *out)
{
    out[threadIdx.x] = in[threadIdx.x] * 5;
}

/* 40 KiB, beside which 60 KiB more are too much. */
extern "C" __global__ void plant_room(const uint32_t *in, uint32_t *out)
{
    __shared__ uint32_t room[10240];
    extern __shared__ uint32_t more[];
    for (uint32_t i = threadIdx.x; i < 10240; i += blockDim.x)
        room[i] = more[i] = in[i];
    __syncthreads();
    out[threadIdx.x] = room[in[threadIdx.x] % 10240] + more[in[threadIdx.x] % 10240];
}

/* Two operations, or one. */
extern "C" __global__ void plant_contracted(const float *in, float *out)
{
    out[threadIdx.x] = in[threadIdx.x] * in[threadIdx.x + 1] + in[threadIdx.x + 2];
}
