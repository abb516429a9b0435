/* absent.c - replaces the steps if there was no C++ compiler. */
#include "gpu/step/step.h"

const sb_gpu_step_calls *sb_gpu_step_calls_emu(const sb_backend *backend)
{
    (void)backend;
    return NULL;
}
