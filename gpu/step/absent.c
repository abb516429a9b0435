/* absent.c - replaces gpu/step in a build without a C++ compiler. */
#include "gpu/step/step.h"

const sb_gpu_step_calls *sb_gpu_step_calls_emu(const sb_backend *backend)
{
    (void)backend;
    return NULL;
}
