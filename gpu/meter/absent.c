/* absent.c - replaces gpu/meter in a build without a C++ compiler. */
#include "gpu/meter/calls.h"

const sb_meter_calls *sb_meter_calls_emu(const sb_backend *backend)
{
    (void)backend;
    return NULL;
}
