/* atom_gates.cu - all kernels of atom_kernels.cuh for a device, for tests/gpu/gates.sh. */
#ifndef PLANT_EXPANSION
#include "tests/gpu/atom_kernels.cuh"

#define LDMATRIX(count, transposed)                                                                \
    template __global__ void atom_ldmatrix<count, transposed>(sb_global<const uint32_t>,           \
                                                              sb_global<uint32_t>);
LDMATRIX(1, false)
LDMATRIX(2, false)
LDMATRIX(4, false)
LDMATRIX(1, true)
LDMATRIX(2, true)
LDMATRIX(4, true)

#else
#include <stdint.h>

/* Has only the expansion of the FP8 instruction: the gate must detect that. */
extern "C" __global__ void plant_expansion(const uint32_t *in, float *out)
{
    float d[4] = {0, 0, 0, 0};
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
                 "{%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(in[threadIdx.x]));
    out[threadIdx.x] = d[0];
}

/* Has more values than fit into 24 registers. */
extern "C" __global__ void __launch_bounds__(1024, 2) plant_spill(const uint32_t *in, uint32_t *out)
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
#endif
