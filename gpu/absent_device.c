/* absent_device.c - replaces backend_gpu.cu if there was no nvcc. */
#include "gpu/gpu.h"

sb_status sb_backend_gpu(const sb_backend **out, sb_error *err)
{
    *out = NULL;
    return sb_fail(err, SB_ERR_SKIPPED,
                   "this program was built without nvcc, so it has no gpu backend; emu runs the "
                   "same kernels");
}

sb_status sb_gpu_check_memory(const sb_backend *backend, uint64_t weights, sb_error *err)
{
    (void)backend;
    (void)weights;
    (void)err;
    return SB_OK;
}

void sb_device_forget(const sb_backend *backend)
{
    (void)backend;
}

sb_status sb_device_staging(const sb_backend *backend, sb_gpu_mode mode, uint64_t *bytes,
                            sb_error *err)
{
    (void)backend;
    (void)mode;
    (void)bytes;
    (void)err;
    return SB_ERR_UNSUPPORTED;
}
