/* absent_device.c - replaces device.cu if there was no nvcc. */
#include "gpu/meter/calls.h"

const sb_meter_calls *sb_meter_calls_gpu(const sb_backend *backend)
{
    (void)backend;
    return NULL;
}
