/* backend_gpu.cu - the kernels on a device as a backend. */
#include "gpu/backend.h"
#include "gpu/op/memory_fit.h"

/* Machine code for one target does not run on another (docs/gpu.md). */
static bool is_target(int major, int minor)
{
    return (major == 9 && minor == 0) || (major == 12 && minor == 1);
}

static sb_status find_device(sb_error *err)
{
    int count = 0;
    cudaDeviceProp device;
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess && count > 0)
        status = cudaGetDeviceProperties(&device, 0);
    const bool none = status == cudaSuccess || status == cudaErrorNoDevice ||
                      status == cudaErrorInsufficientDriver; /* also reported without a driver */
    if (status != cudaSuccess || count == 0)
        return sb_fail(err, none ? SB_ERR_SKIPPED : SB_ERR_IO,
                       "there is no device for the gpu backend: %s",
                       status == cudaSuccess ? "none was found" : cudaGetErrorString(status));
    if (!is_target(device.major, device.minor))
        return sb_fail(err, SB_ERR_SKIPPED,
                       "the device is an sm_%d%d (%s); the gpu backend has code for sm_90 and "
                       "sm_121",
                       device.major, device.minor, device.name);
    return SB_OK;
}

static sb_backend backend;

sb_status sb_backend_gpu(const sb_backend **out, sb_error *err)
{
    *out = nullptr;
    const sb_status status = find_device(err);
    if (status)
        return status;
    backend = backend_of("gpu");
    *out = &backend;
    return SB_OK;
}

sb_gpu *sb_device_body(const sb_backend *of)
{
    return of == &backend ? opened() : nullptr;
}

/* If device and host share memory, the page cache counts as free; else the device reports its free
 * memory. */
sb_status sb_gpu_check_memory(const sb_backend *of, uint64_t weights, sb_error *err)
{
    size_t free_bytes = 0, total = 0;
    int integrated = 0;
    if (of != &backend)
        return SB_OK;
    cudaError_t status = cudaDeviceGetAttribute(&integrated, cudaDevAttrIntegrated, 0);
    if (status == cudaSuccess)
        status = cudaMemGetInfo(&free_bytes, &total);
    if (status != cudaSuccess)
        return sb_fail(err, SB_ERR_IO, "cannot ask the device for its memory: %s",
                       cudaGetErrorString(status));
    uint64_t available = free_bytes;
    if (integrated) {
        const sb_status read = sb_gpu_available("/proc/meminfo", &available, err);
        if (read)
            return read;
    }
    return sb_gpu_fits(weights, available, err);
}

void sb_device_forget(const sb_backend *of)
{
    if (body && of == &backend)
        sb_gpu_forget_weights(body);
}

sb_status sb_device_staging(const sb_backend *of, sb_gpu_mode mode, uint64_t *bytes, sb_error *err)
{
    return of == &backend ? stage(mode, bytes, err) : SB_ERR_UNSUPPORTED;
}
