/* set.cc - implements the functions of meter.h on a body. */
#include "gpu/meter/body.h"
#include "gpu/meter/calls.h"

#ifdef __CUDACC__
#define BODY_OF sb_device_body
#define CALLS_OF sb_meter_calls_gpu
#else
#define BODY_OF sb_emu_body
#define CALLS_OF sb_meter_calls_emu
#endif

/* Copies the body's message to err if there is a failure. */
static sb_status said(sb_gpu *gpu, sb_status status, sb_error *err)
{
    const char *text = sb_gpu_said(gpu)->text;
    return status ? sb_fail(err, status, "%s", *text ? text : "out of memory") : SB_OK;
}

static sb_status measure_card(const sb_backend *backend, const sb_meter_options *options,
                              sb_meter_report *report, sb_error *err)
{
    sb_gpu *gpu = BODY_OF(backend);
    return said(gpu, sb_gpu_meter(gpu, options, report), err);
}

static sb_status draws(const sb_backend *backend, const void *first, size_t bytes, uint64_t seed,
                       sb_error *)
{
    sb_gpu_draws(BODY_OF(backend), first, bytes, seed);
    return SB_OK;
}

static sb_status watch(const sb_backend *backend, sb_meter_launch *launches, size_t room,
                       sb_error *err)
{
    sb_gpu *gpu = BODY_OF(backend);
    return said(gpu, sb_gpu_watch(gpu, launches, room), err);
}

static sb_status watched(const sb_backend *backend, size_t *count, sb_error *err)
{
    sb_gpu *gpu = BODY_OF(backend);
    return said(gpu, sb_gpu_watched(gpu, count), err);
}

static sb_status mark(const sb_backend *backend, unsigned at, sb_error *err)
{
    sb_gpu *gpu = BODY_OF(backend);
    sb_status status = SB_OK;
    if (!gpu->marks)
        status = sb_gpu_marks_open(gpu, SB_METER_MARKS, &gpu->marks);
    return said(gpu, status ? status : sb_gpu_mark(gpu, gpu->marks, at), err);
}

static sb_status between(const sb_backend *backend, unsigned from, unsigned to, double *seconds,
                         sb_error *err)
{
    sb_gpu *gpu = BODY_OF(backend);
    return said(gpu, sb_gpu_between(gpu, gpu->marks, from, to, seconds), err);
}

const sb_meter_calls *CALLS_OF(const sb_backend *backend)
{
    static const sb_meter_calls calls = {measure_card, draws, watch, watched, mark, between};
    return BODY_OF(backend) ? &calls : nullptr;
}
