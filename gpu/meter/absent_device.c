/* absent_device.c - replaces device.cu in a build without nvcc. */
#include "gpu/meter/calls.h"

const sb_meter_calls *sb_meter_calls_gpu(const sb_backend *backend)
{
    (void)backend;
    return NULL;
}
