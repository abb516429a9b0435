/* launches.cu - in the place of the CUDA runtime: what launches ask for, where there is no device.
 *
 * The program of the build, linked with this instead of the runtime, has a gpu backend whose
 * kernels do nothing. When it ends it appends a line for each kernel that was started to the file
 * that SAMEBIT_LAUNCHES names: KERNEL THREADS BYTES, the most threads that a block had and the most
 * dynamic shared memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

enum { KERNELS = 1024 };

static struct kernel {
    const void *stub;
    const char *name;
    size_t threads, bytes;
} kernels[KERNELS];
static size_t kernel_count;
static const kernel *last;
static struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} next;

static void write_launches()
{
    const char *path = getenv("SAMEBIT_LAUNCHES");
    FILE *file = path ? fopen(path, "a") : nullptr;
    for (size_t i = 0; file && i < kernel_count; i++)
        if (kernels[i].threads)
            fprintf(file, "%s %zu %zu\n", kernels[i].name, kernels[i].threads, kernels[i].bytes);
    if (file)
        fclose(file);
}

/* --- what objects of nvcc call -----------------------------------------------------------------
 */
extern "C" void **__cudaRegisterFatBinary(void *)
{
    static void *handle;
    return &handle;
}
extern "C" void __cudaRegisterFatBinaryEnd(void **)
{
}
extern "C" void __cudaUnregisterFatBinary(void **)
{
}
extern "C" void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int)
{
}
extern "C" void __cudaRegisterFunction(void **, const char *stub, char *, const char *name, int,
                                       uint3 *, uint3 *, dim3 *, dim3 *, int *)
{
    if (kernel_count == 0)
        atexit(write_launches);
    if (kernel_count == KERNELS)
        abort();
    kernels[kernel_count++] = {stub, name, 0, 0};
}
extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                                cudaStream_t stream)
{
    next = {grid, block, shared, stream};
    return 0;
}
extern "C" cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
                                                  void *stream)
{
    *grid = next.grid;
    *block = next.block;
    *shared = next.shared;
    memcpy(stream, &next.stream, sizeof next.stream);
    return cudaSuccess;
}
static kernel *kernel_of(const void *stub)
{
    for (size_t i = 0; i < kernel_count; i++)
        if (kernels[i].stub == stub)
            return &kernels[i];
    return nullptr;
}
static cudaError_t start(kernel *k, dim3 block, size_t shared)
{
    if (!k)
        return cudaErrorInvalidDeviceFunction;
    const size_t threads = static_cast<size_t>(block.x) * block.y * block.z;
    k->threads = threads > k->threads ? threads : k->threads;
    k->bytes = shared > k->bytes ? shared : k->bytes;
    last = k;
    return cudaSuccess;
}
extern "C" cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *stub)
{
    *out = reinterpret_cast<cudaKernel_t>(kernel_of(stub));
    return *out ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}
extern "C" cudaError_t __cudaLaunchKernel(cudaKernel_t of, dim3, dim3 block, void **, size_t shared,
                                          cudaStream_t)
{
    return start(reinterpret_cast<kernel *>(of), block, shared);
}

/* --- what the backend calls --------------------------------------------------------------------
 */
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *stub, void **)
{
    return start(kernel_of(stub), config->blockDim, config->dynamicSmemBytes);
}
cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int)
{
    memset(out, 0, sizeof *out);
    out->major = 12;
    out->minor = 1;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr, int)
{
    *value = 0;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    *available = *total = size_t(1) << 40;
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int)
{
    return cudaSuccess;
}
static cudaError_t allocate(void **out, size_t bytes)
{
    *out = calloc(bytes, 1);
    return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaMalloc(void **out, size_t bytes)
{
    return allocate(out, bytes);
}
cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    return allocate(out, bytes);
}
cudaError_t cudaFree(void *at)
{
    free(at);
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void *at)
{
    free(at);
    return cudaSuccess;
}
/* Results are zero; only the ids of a router differ where up to eight stand together, as they have
 * to. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t)
{
    const bool ids = last && strstr(last->name, "router");
    if (kind == cudaMemcpyHostToDevice)
        memcpy(to, from, bytes);
    else
        for (size_t i = 0; i < bytes; i++)
            static_cast<unsigned char *>(to)[i] = ids && i % 4 == 0 ? i / 4 % 8 : 0;
    return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    *out = nullptr;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t)
{
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return cudaSuccess;
}
cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}
const char *cudaGetErrorString(cudaError_t)
{
    return "an error of the stand-in";
}
