/* absent.c - in the place of the meters where there was no C++ compiler. */
#include "gpu/meter/calls.h"

const sb_meter_calls *sb_meter_calls_emu(const sb_backend *backend)
{
    (void)backend;
    return NULL;
}
