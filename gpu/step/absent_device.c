/* absent_device.c - replaces step_gpu.cu in a build without nvcc. */
#include "gpu/step/step.h"

const sb_gpu_step_calls *sb_gpu_step_calls_gpu(const sb_backend *backend)
{
    (void)backend;
    return NULL;
}
