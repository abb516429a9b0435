/* calls.h - a set of implementations of the functions of meter.h. set.cc defines one set for the
 * emulator and one for a device. */
#ifndef SB_METER_CALLS_H
#define SB_METER_CALLS_H

#include "gpu/meter/meter.h"

typedef struct sb_meter_calls {
    sb_status (*measure)(const sb_backend *backend, const sb_meter_options *options,
                         sb_meter_report *report, sb_error *err);
    sb_status (*draws)(const sb_backend *backend, const void *first, size_t bytes, uint64_t seed,
                       sb_error *err);
    sb_status (*watch)(const sb_backend *backend, sb_meter_launch *launches, size_t room,
                       sb_error *err);
    sb_status (*watched)(const sb_backend *backend, size_t *count, sb_error *err);
    sb_status (*mark)(const sb_backend *backend, unsigned mark, sb_error *err);
    sb_status (*between)(const sb_backend *backend, unsigned from, unsigned to, double *seconds,
                         sb_error *err);
} sb_meter_calls;

#ifdef __cplusplus
extern "C" {
#endif
/* Return the set for this backend; NULL: the backend is of another kind, or was not built. */
const sb_meter_calls *sb_meter_calls_emu(const sb_backend *backend);
const sb_meter_calls *sb_meter_calls_gpu(const sb_backend *backend);
#ifdef __cplusplus
}
#endif

#endif
