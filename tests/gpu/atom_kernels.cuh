/* atom_kernels.cuh - a kernel for each atom. The gates compile them for devices, and the tests run
 * them in the emulator. A warp handles one fragment of each block. */
#ifndef SB_TESTS_GPU_ATOM_KERNELS_CUH
#define SB_TESTS_GPU_ATOM_KERNELS_CUH

#include "gpu/atom/convert.h"
#include "gpu/atom/ldmatrix.h"
#include "gpu/atom/mma_e4m3.h"
#include "gpu/atom/mma_half.h"
#include "gpu/atom/mma_nvfp4.h"
#include "gpu/atom/mma_s8.h"

/* The registers of a lane, as words: A, B, the scales, C; and D. */
enum { ATOM_IN = 12, ATOM_OUT = 4 };

struct atom_lane {
    uint32_t a[4], b[2], scales_a, scales_b;
    uint32_t c[4];
};

__device__ __forceinline__ void atom_read(sb_global<const uint32_t> in, atom_lane &out)
{
    sb_global<const uint32_t> at = in + ATOM_IN * (blockIdx.x * blockDim.x + threadIdx.x);
    for (int i = 0; i < 4; i++) {
        out.a[i] = at[i];
        out.c[i] = at[8 + i];
    }
    out.b[0] = at[4];
    out.b[1] = at[5];
    out.scales_a = at[6];
    out.scales_b = at[7];
}

__device__ __forceinline__ void atom_write(sb_global<uint32_t> out, const uint32_t (&d)[4])
{
    sb_global<uint32_t> at = out + ATOM_OUT * (blockIdx.x * blockDim.x + threadIdx.x);
    for (int i = 0; i < 4; i++)
        at[i] = d[i];
}

/* d = c + a b by the given float MMA. */
#define ATOM_KERNEL(name, call)                                                                    \
    extern "C" __global__ void atom_##name(sb_global<const uint32_t> in, sb_global<uint32_t> out)  \
    {                                                                                              \
        atom_lane x;                                                                               \
        atom_read(in, x);                                                                          \
        float d[4];                                                                                \
        uint32_t bits[4];                                                                          \
        for (int i = 0; i < 4; i++)                                                                \
            d[i] = sb_atom_float(x.c[i]);                                                          \
        call;                                                                                      \
        for (int i = 0; i < 4; i++)                                                                \
            bits[i] = sb_atom_bits(d[i]);                                                          \
        atom_write(out, bits);                                                                     \
    }

ATOM_KERNEL(bf16, sb_mma_bf16(d, x.a, x.b))
ATOM_KERNEL(f16, sb_mma_f16(d, x.a, x.b))
ATOM_KERNEL(e4m3, sb_mma_e4m3(d, x.a, x.b))
ATOM_KERNEL(e4m3_portable, sb_mma_e4m3_portable(d, x.a, x.b))
ATOM_KERNEL(nvfp4, sb_mma_nvfp4(d, x.a, x.b, x.scales_a, x.scales_b))
ATOM_KERNEL(nvfp4_12, (sb_mma_nvfp4<1, 2>(d, x.a, x.b, x.scales_a, x.scales_b)))
ATOM_KERNEL(nvfp4_portable, (sb_mma_nvfp4_portable<0, 0>(d, x.a, x.b, x.scales_a, x.scales_b)))
ATOM_KERNEL(nvfp4_portable_01, (sb_mma_nvfp4_portable<0, 1>(d, x.a, x.b, x.scales_a, x.scales_b)))
ATOM_KERNEL(nvfp4_portable_12, (sb_mma_nvfp4_portable<1, 2>(d, x.a, x.b, x.scales_a, x.scales_b)))
ATOM_KERNEL(nvfp4_portable_13, (sb_mma_nvfp4_portable<1, 3>(d, x.a, x.b, x.scales_a, x.scales_b)))
#undef ATOM_KERNEL

extern "C" __global__ void atom_s8(sb_global<const uint32_t> in, sb_global<uint32_t> out)
{
    atom_lane x;
    int32_t d[4];
    uint32_t bits[4];
    atom_read(in, x);
    for (int i = 0; i < 4; i++)
        d[i] = static_cast<int32_t>(x.c[i]);
    sb_mma_s8(d, x.a, x.b);
    for (int i = 0; i < 4; i++)
        bits[i] = static_cast<uint32_t>(d[i]);
    atom_write(out, bits);
}

/* Each lane writes its A registers to a row of shared memory, and loads them back as matrices. */
template <int COUNT, bool TRANSPOSED>
__global__ void atom_ldmatrix(sb_global<const uint32_t> in, sb_global<uint32_t> out)
{
    SB_SHARED(uint4, rows, 32);
    atom_lane x;
    uint32_t d[COUNT], all[4] = {0, 0, 0, 0};
    atom_read(in, x);
    rows[threadIdx.x] = make_uint4(x.a[0], x.a[1], x.a[2], x.a[3]);
    __syncthreads();
    sb_ldmatrix<COUNT, TRANSPOSED>(d, rows + threadIdx.x);
    for (int i = 0; i < COUNT; i++)
        all[i] = d[i];
    atom_write(out, all);
}

/* All conversions of the words of a lane, folded into four: for the gates. */
extern "C" __global__ void atom_convert(sb_global<const uint32_t> in, sb_global<uint32_t> out)
{
    atom_lane x;
    uint32_t d[4], pair[2];
    atom_read(in, x);
    float low = sb_atom_float(x.c[0]), high = sb_atom_float(x.c[1]);
    sb_cvt_bf16x4_e2m1x4(pair, x.a[0]);
    d[0] = sb_cvt_bf16x2_f32(low, high) ^ sb_cvt_f16x2_e2m1x2(x.a[1] & 0xff);
    d[1] = sb_cvt_e4m3x2_f32(low, high) | sb_cvt_e2m1x2_f32(low, high) << 16;
    d[2] = sb_cvt_f16x2_e4m3x2(x.a[2] & 0xffff) ^ pair[0];
    d[3] = sb_cvt_bf16x2_e4m3x2(x.a[3] & 0xffff) ^ pair[1];
    atom_write(out, d);
}

#endif
