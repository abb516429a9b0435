/* device_kernels.cu - launches of single atoms and functions. */
#include "tests/gpu/device_kernels.h"

#include "gpu/math/fn.h"
#include "gpu/math/log1p.h"
#include "tests/gpu/atom_kernels.cuh"
#include "tests/gpu/math_functions.h"

enum : unsigned { THREADS = 256 };

static __global__ void both_ldmatrix(const uint32_t *in, uint32_t *out)
{
    __shared__ uint4 rows[32];
    const unsigned lane = threadIdx.x;
    const uint32_t *x = in + DEVICE_IN * (32 * blockIdx.x + lane);
    uint32_t d[4], *to = out + DEVICE_OUT * (32 * blockIdx.x + lane);
    rows[lane] = make_uint4(x[0], x[1], x[2], x[3]);
    __syncthreads();
    if (blockIdx.x % 2)
        sb_ldmatrix<4, true>(d, rows + lane);
    else
        sb_ldmatrix<4, false>(d, rows + lane);
    for (int i = 0; i < 4; i++)
        to[i] = d[i];
}

/* Copies bytes to the device, launches, and copies bytes back. */
template <class LAUNCH>
static const char *there_and_back(const void *in, size_t in_bytes, void *out, size_t out_bytes,
                                  LAUNCH launch)
{
    void *from = nullptr, *to = nullptr;
    cudaError_t status = cudaMalloc(&from, in_bytes);
    if (status == cudaSuccess)
        status = cudaMalloc(&to, out_bytes);
    if (status == cudaSuccess)
        status = cudaMemcpy(from, in, in_bytes, cudaMemcpyHostToDevice);
    if (status == cudaSuccess) /* so that unwritten bytes are detected */
        status = cudaMemset(to, 0xa5, out_bytes);
    if (status == cudaSuccess) {
        launch(from, to);
        status = cudaGetLastError();
    }
    if (status == cudaSuccess)
        status = cudaMemcpy(out, to, out_bytes, cudaMemcpyDeviceToHost);
    cudaFree(from);
    cudaFree(to);
    return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}

static void atom_ldmatrix_both(const uint32_t *in, uint32_t *out, unsigned warps)
{
    both_ldmatrix<<<warps, 32>>>(in, out);
}

const char *device_atom(int which, const uint32_t *in, uint32_t *out, size_t warps)
{
    const size_t lanes = 32 * warps;
    const unsigned blocks = static_cast<unsigned>(warps);
    return there_and_back(in, lanes * DEVICE_IN * sizeof *in, out, lanes * DEVICE_OUT * sizeof *out,
                          [which, blocks](const void *from, void *to) {
                              const uint32_t *x = static_cast<const uint32_t *>(from);
                              uint32_t *y = static_cast<uint32_t *>(to);
                              switch (which) {
#define ATOM(name)                                                                                 \
    case DEVICE_ATOM_##name:                                                                       \
        atom_##name<<<blocks, 32>>>(x, y);                                                         \
        break;
                                  ATOM(bf16)
                                  ATOM(f16)
                                  ATOM(e4m3)
                                  ATOM(e4m3_portable)
                                  ATOM(nvfp4)
                                  ATOM(nvfp4_12)
                                  ATOM(nvfp4_portable)
                                  ATOM(nvfp4_portable_01)
                                  ATOM(nvfp4_portable_12)
                                  ATOM(nvfp4_portable_13)
                                  ATOM(s8)
                                  ATOM(convert)
#undef ATOM
                              case DEVICE_ATOM_ldmatrix:
                                  atom_ldmatrix_both(x, y, blocks);
                                  break;
                              default:
                                  break;
                              }
                          });
}

#define X(name)                                                                                    \
    static __global__ void run_##name(const float *x, float *y, size_t n)                          \
    {                                                                                              \
        const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;                            \
        if (i < n)                                                                                 \
            y[i] = sb_gpu_##name(x[i]);                                                            \
    }
MATH_FUNCTION_NAMES(X)
#undef X

static bool is(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

const char *device_function(const char *name, const float *x, float *y, size_t count)
{
    const unsigned blocks = static_cast<unsigned>((count + THREADS - 1) / THREADS);
    bool known = false;
    const char *wrong =
        there_and_back(x, count * sizeof *x, y, count * sizeof *y, [&](const void *from, void *to) {
            const float *in = static_cast<const float *>(from);
            float *out = static_cast<float *>(to);
#define X(function)                                                                                \
    if (is(name, #function)) {                                                                     \
        known = true;                                                                              \
        run_##function<<<blocks, THREADS>>>(in, out, count);                                       \
    }
            MATH_FUNCTION_NAMES(X)
#undef X
        });
    return known || wrong ? wrong : "no such function";
}

const char *device_name(void)
{
    static cudaDeviceProp device;
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0 ||
        cudaGetDeviceProperties(&device, 0) != cudaSuccess)
        return nullptr;
    return device.name;
}
