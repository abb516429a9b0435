/* watch.cc - notes the launches of a step by name, in order, with the time of each. */
#include "gpu/meter/body.h"

#include <stdlib.h>

#ifdef __CUDACC__
namespace sb_on_device
#else
namespace sb_on_host
#endif
{
struct sb_gpu_watching {
    sb_launch_watch watch; /* first member: the queue points to it */
    sb_gpu *gpu;
    sb_gpu_marks *marks; /* 2 i: before launch i; 2 i + 1: after it, if it is the last of a group */
    sb_meter_launch *launches;
    size_t count, room, labelled;
    sb_status status;
};
}

/* The number of launches that are queued while the queue is held. The device then finds each launch
 * ready, so that its time excludes the host's. */
enum : size_t { HELD_TOGETHER = 128 };

static bool is_last(const sb_gpu_watching *w, size_t i)
{
    return i + 1 == w->count || (i + 1) % HELD_TOGETHER == 0;
}

static sb_gpu_watching *of(sb_launch_watch *watch)
{
    return reinterpret_cast<sb_gpu_watching *>(watch);
}

static void before(sb_launch_watch *watch, const char *kernel)
{
    sb_gpu_watching *w = of(watch);
    if (w->count == w->room || w->status)
        return;
    if (w->count % HELD_TOGETHER == 0) {
        if (w->count > 0)
            w->status = sb_gpu_mark(w->gpu, w->marks, 2 * w->count - 1);
        if (!w->status)
            w->status = sb_gpu_hold(w->gpu);
    }
    if (!w->status)
        w->status = sb_gpu_mark(w->gpu, w->marks, 2 * w->count);
    w->launches[w->count++] = {kernel, "", 0};
}

static void behind(sb_launch_watch *watch, const char *op)
{
    sb_gpu_watching *w = of(watch);
    for (; w->labelled < w->count; w->labelled++)
        w->launches[w->labelled].op = op;
}

static void end(sb_gpu *gpu)
{
    sb_gpu_watching *w = gpu->watching;
    gpu->queue.watch = nullptr;
    gpu->watching = nullptr;
    if (w)
        sb_gpu_marks_close(gpu, w->marks);
    free(w);
}

sb_status sb_gpu_watch(sb_gpu *gpu, sb_meter_launch *launches, size_t room)
{
    end(gpu);
    sb_gpu_watching *w = static_cast<sb_gpu_watching *>(sb_alloc(1, sizeof *w));
    if (!w)
        return sb_fail(&gpu->err, SB_ERR_MEMORY, "out of memory to watch launches");
    gpu->watching = w;
    w->watch = {before, behind};
    w->gpu = gpu;
    w->launches = launches;
    w->room = room;
    const sb_status status = sb_gpu_marks_open(gpu, 2 * room, &w->marks);
    if (status)
        end(gpu);
    else
        gpu->queue.watch = &w->watch;
    return status;
}

/* The time of a launch runs to the begin of the next launch, or for the last launch of a group to
 * its own end. */
sb_status sb_gpu_watched(sb_gpu *gpu, size_t *count)
{
    sb_gpu_watching *w = gpu->watching;
    if (!w)
        return sb_fail(&gpu->err, SB_ERR_USAGE, "no launches are watched");
    sb_status status = w->status;
    if (!status && w->count > 0)
        status = sb_gpu_mark(gpu, w->marks, 2 * w->count - 1);
    for (size_t i = 0; i < w->count && !status; i++)
        status = sb_gpu_between(gpu, w->marks, 2 * i, 2 * i + (is_last(w, i) ? 1 : 2),
                                &w->launches[i].seconds);
    *count = w->count;
    end(gpu);
    return status;
}
