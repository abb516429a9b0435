/* launches.cu - a replacement of the CUDA runtime that records what launches ask for, without a
 * device.
 *
 * The program of the build, linked with this file instead of the runtime, has a gpu backend whose
 * kernels do nothing.
 *
 * At its end the program appends a line to the file named by SAMEBIT_LAUNCHES for each kernel that
 * was launched: KERNEL THREADS BYTES, the largest number of threads in a block and the largest
 * dynamic shared memory.
 *
 * It appends lines about graphs to the file named by SAMEBIT_GRAPHS. When a graph is made: `graph`
 * with its number, the number of its launches and the number of dependent ones, then `KERNEL
 * yes|no` for each launch in order. When it is launched: `run` and its number.
 *
 * A call that a capture does not allow fails, and ends the capture. A launch after a copy of the
 * host's memory fails if nobody has waited for the copy, because the memory may not have been read
 * yet. A launch with more dynamic shared memory than its kernel was given fails as well; the memory
 * given never becomes less.
 *
 * SAMEBIT_CLOCK is A,B: a launch takes A microseconds, a launch inside a graph B, and nothing else
 * takes time. Without it, nothing takes time. Whenever the program asks for the free memory, the
 * number of bytes allocated on the device is appended to the file named by SAMEBIT_MEMORY. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

enum { KERNELS = 1024, LAUNCHES = 4096 };

static struct kernel {
    const void *stub;
    const char *name;
    size_t threads, bytes, given; /* given: in bytes */
} kernels[KERNELS];
static size_t kernel_count;
static const kernel *last;
static struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} next;

static FILE *appended(const char *variable)
{
    const char *path = getenv(variable);
    return path ? fopen(path, "a") : nullptr;
}
static void write_launches()
{
    FILE *file = appended("SAMEBIT_LAUNCHES");
    for (size_t i = 0; file && i < kernel_count; i++)
        if (kernels[i].threads)
            fprintf(file, "%s %zu %zu\n", kernels[i].name, kernels[i].threads, kernels[i].bytes);
    if (file)
        fclose(file);
}

/* --- captures --------------------------------------------------------------------------------- */
static struct graph {
    struct {
        const kernel *of;
        bool dependent;
    } launch[LAUNCHES];
    size_t launches, number;
    bool broken;
} * capture;

static void keep(const kernel *k, bool dependent)
{
    if (capture->launches == LAUNCHES)
        abort();
    capture->launch[capture->launches++] = {k, dependent};
}
/* Called by functions that a capture does not allow. */
static bool breaks_capture()
{
    if (capture)
        capture->broken = true;
    return capture != nullptr;
}
static FILE *graph_file()
{
    return appended("SAMEBIT_GRAPHS");
}

/* --- the functions that objects of nvcc call -------------------------------------------------- */
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
    kernels[kernel_count++] = {stub, name, 0, 0, 0};
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
/* In microseconds. A launch ends at once. */
static double now;
static void pass_time(size_t launches, bool of_graph)
{
    double each[2] = {0, 0};
    const char *clock = getenv("SAMEBIT_CLOCK");
    if (clock && sscanf(clock, "%lf,%lf", &each[0], &each[1]) != 2)
        abort();
    now += each[of_graph] * static_cast<double>(launches);
}
static bool lent; /* a copy may still read memory of the host */
static const size_t UNASKED = 48 << 10;
static cudaError_t start(kernel *k, dim3 block, size_t shared, bool dependent)
{
    if (!k)
        return cudaErrorInvalidDeviceFunction;
    if (lent)
        return cudaErrorIllegalState;
    if (shared > UNASKED && shared > k->given)
        return cudaErrorInvalidValue;
    if (capture)
        keep(k, dependent);
    else
        pass_time(1, false);
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
    return start(reinterpret_cast<kernel *>(of), block, shared, false);
}

/* --- the functions that the backend calls ----------------------------------------------------- */
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *stub, void **)
{
    bool dependent = false;
    for (unsigned i = 0; i < config->numAttrs; i++)
        dependent = dependent ||
                    (config->attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization &&
                     config->attrs[i].val.programmaticStreamSerializationAllowed);
    return start(kernel_of(stub), config->blockDim, config->dynamicSmemBytes, dependent);
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
/* The bytes given by cudaMalloc. Each allocation has its size in front of it. */
static size_t taken;
enum { FRONT = 256 };
cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    FILE *const file = appended("SAMEBIT_MEMORY");
    *total = size_t(1) << 40;
    *available = *total - taken;
    if (!file)
        return cudaSuccess;
    fprintf(file, "%zu\n", taken);
    fclose(file);
    return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, const void *stub)
{
    const kernel *const k = kernel_of(stub);
    if (!k)
        return cudaErrorInvalidDeviceFunction;
    memset(out, 0, sizeof *out);
    out->maxDynamicSharedSizeBytes = static_cast<int>(k->given > UNASKED ? k->given : UNASKED);
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *stub, cudaFuncAttribute, int value)
{
    kernel *const k = kernel_of(stub);
    if (!k)
        return cudaErrorInvalidDeviceFunction;
    if (static_cast<size_t>(value) < k->given)
        return cudaErrorInvalidValue;
    k->given = static_cast<size_t>(value);
    return cudaSuccess;
}
static cudaError_t allocate(void **out, size_t bytes)
{
    if (breaks_capture())
        return cudaErrorStreamCaptureUnsupported;
    *out = calloc(bytes, 1);
    return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaMalloc(void **out, size_t bytes)
{
    void *front;
    const cudaError_t status = allocate(&front, FRONT + bytes);
    if (status != cudaSuccess)
        return status;
    memcpy(front, &bytes, sizeof bytes);
    taken += bytes;
    *out = static_cast<char *>(front) + FRONT;
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    return allocate(out, bytes);
}
cudaError_t cudaFree(void *at)
{
    if (breaks_capture())
        return cudaErrorStreamCaptureUnsupported;
    if (!at)
        return cudaSuccess;
    void *const front = static_cast<char *>(at) - FRONT;
    size_t bytes;
    memcpy(&bytes, front, sizeof bytes);
    taken -= bytes;
    free(front);
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void *at)
{
    free(at);
    return cudaSuccess;
}
/* Results are zero, except the ids of a router: up to eight ids in a row must differ. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t)
{
    if (breaks_capture()) /* it would become a node that reads the host's memory at launch */
        return cudaErrorStreamCaptureUnsupported;
    const bool ids = last && strstr(last->name, "router");
    lent = lent || kind == cudaMemcpyHostToDevice;
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
/* An event holds the time at which it was recorded. */
cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    *out = static_cast<cudaEvent_t>(calloc(1, sizeof now));
    return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t)
{
    memcpy(event, &now, sizeof now);
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t)
{
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    double begin, end;
    memcpy(&begin, from, sizeof begin);
    memcpy(&end, to, sizeof end);
    *ms = static_cast<float>((end - begin) / 1000);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    lent = false;
    return breaks_capture() ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode mode)
{
    if (capture || mode != cudaStreamCaptureModeThreadLocal)
        return cudaErrorIllegalState;
    capture = static_cast<graph *>(calloc(1, sizeof *capture));
    return capture ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *out)
{
    graph *const ended = capture;
    const bool broken = ended && ended->broken;
    capture = nullptr;
    *out = broken ? nullptr : reinterpret_cast<cudaGraph_t>(ended);
    if (broken)
        free(ended);
    return broken ? cudaErrorStreamCaptureInvalidated : ended ? cudaSuccess : cudaErrorIllegalState;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t of, cudaGraphNode_t *, size_t *count)
{
    *count = reinterpret_cast<const graph *>(of)->launches;
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t of, unsigned long long)
{
    static size_t graphs;
    size_t dependent = 0;
    graph *const made = static_cast<graph *>(malloc(sizeof *made));
    if (!made)
        return cudaErrorMemoryAllocation;
    *made = *reinterpret_cast<const graph *>(of);
    made->number = ++graphs;
    *out = reinterpret_cast<cudaGraphExec_t>(made);
    for (size_t i = 0; i < made->launches; i++)
        dependent += made->launch[i].dependent;
    FILE *const file = graph_file();
    if (!file)
        return cudaSuccess;
    fprintf(file, "graph %zu %zu %zu\n", made->number, made->launches, dependent);
    for (size_t i = 0; i < made->launches; i++)
        fprintf(file, "%s %s\n", made->launch[i].of->name,
                made->launch[i].dependent ? "yes" : "no");
    fclose(file);
    return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t)
{
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t of, cudaStream_t)
{
    FILE *const file = graph_file();
    if (file) {
        fprintf(file, "run %zu\n", reinterpret_cast<const graph *>(of)->number);
        fclose(file);
    }
    pass_time(reinterpret_cast<const graph *>(of)->launches, true);
    return breaks_capture() ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t of)
{
    free(reinterpret_cast<graph *>(of));
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t of)
{
    free(reinterpret_cast<graph *>(of));
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
