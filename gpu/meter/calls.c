/* calls.c - each function of meter.h calls the function of the same name in the set of the backend.
 */
#include "gpu/meter/calls.h"

#include <stdlib.h>

static sb_status find(const sb_backend *backend, const sb_meter_calls **out, sb_error *err)
{
    *out = sb_meter_calls_emu(backend);
    if (!*out)
        *out = sb_meter_calls_gpu(backend);
    return *out ? SB_OK
                : sb_fail(err, SB_ERR_UNSUPPORTED,
                          "this backend has no meters, because meters are kernels");
}

sb_status sb_meter(const sb_backend *backend, const sb_meter_options *options,
                   sb_meter_report *report, sb_error *err)
{
    const sb_meter_calls *calls;
    const sb_status status = find(backend, &calls, err);
    return status ? status : calls->measure(backend, options, report, err);
}

sb_status sb_meter_draws(const sb_backend *backend, const void *first, size_t bytes, uint64_t seed,
                         sb_error *err)
{
    const sb_meter_calls *calls;
    const sb_status status = find(backend, &calls, err);
    return status ? status : calls->draws(backend, first, bytes, seed, err);
}

sb_status sb_meter_watch(const sb_backend *backend, sb_meter_launch *launches, size_t room,
                         sb_error *err)
{
    const sb_meter_calls *calls;
    const sb_status status = find(backend, &calls, err);
    return status ? status : calls->watch(backend, launches, room, err);
}

sb_status sb_meter_watched(const sb_backend *backend, size_t *count, sb_error *err)
{
    const sb_meter_calls *calls;
    const sb_status status = find(backend, &calls, err);
    return status ? status : calls->watched(backend, count, err);
}

sb_status sb_meter_mark(const sb_backend *backend, unsigned mark, sb_error *err)
{
    const sb_meter_calls *calls;
    const sb_status status = find(backend, &calls, err);
    return status ? status : calls->mark(backend, mark, err);
}

sb_status sb_meter_between(const sb_backend *backend, unsigned from, unsigned to, double *seconds,
                           sb_error *err)
{
    const sb_meter_calls *calls;
    const sb_status status = find(backend, &calls, err);
    return status ? status : calls->between(backend, from, to, seconds, err);
}

static int compare_seconds(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

sb_meter_time sb_meter_time_of(double *seconds, size_t n)
{
    qsort(seconds, n, sizeof *seconds, compare_seconds);
    return (sb_meter_time){seconds[n / 2], seconds[0], seconds[n - 1]};
}
