/* body_cuda.cu - times from the events of a device; memory for random weights. */
#include "gpu/meter/body.h"

#include <stdio.h>
#include <stdlib.h>

namespace sb_on_device
{
struct sb_gpu_marks {
    cudaEvent_t *events;
    size_t count;
};
} // namespace sb_on_device

static sb_status timed(sb_gpu *gpu, const char *what, cudaError_t status)
{
    return status == cudaSuccess
               ? SB_OK
               : sb_fail(&gpu->err, SB_ERR_IO, "%s: %s", what, cudaGetErrorString(status));
}

sb_status sb_gpu_marks_open(sb_gpu *gpu, size_t count, sb_gpu_marks **out)
{
    sb_gpu_marks *marks = static_cast<sb_gpu_marks *>(sb_alloc(1, sizeof *marks));
    *out = marks;
    if (marks)
        marks->events = static_cast<cudaEvent_t *>(sb_alloc(count, sizeof *marks->events));
    if (!marks || !marks->events)
        return sb_fail(&gpu->err, SB_ERR_MEMORY, "out of memory for %zu events", count);
    sb_status status = SB_OK;
    for (; marks->count < count && !status; marks->count += !status)
        status = timed(gpu, "event", cudaEventCreate(&marks->events[marks->count]));
    return status;
}

void sb_gpu_marks_close(sb_gpu *, sb_gpu_marks *marks)
{
    if (!marks)
        return;
    for (size_t i = 0; i < marks->count; i++)
        cudaEventDestroy(marks->events[i]);
    free(marks->events);
    free(marks);
}

sb_status sb_gpu_mark(sb_gpu *gpu, sb_gpu_marks *marks, size_t i)
{
    return timed(gpu, "event", cudaEventRecord(marks->events[i], gpu->queue.stream));
}

sb_status sb_gpu_between(sb_gpu *gpu, const sb_gpu_marks *marks, size_t i, size_t j,
                         double *seconds)
{
    float ms = 0;
    sb_status status = timed(gpu, "event", cudaEventSynchronize(marks->events[j]));
    if (!status)
        status = timed(gpu, "event", cudaEventElapsedTime(&ms, marks->events[i], marks->events[j]));
    *seconds = 1e-3 * static_cast<double>(ms);
    return status;
}

sb_status sb_gpu_card(sb_gpu *gpu, sb_meter_card *card)
{
    cudaDeviceProp device;
    const sb_status status = timed(gpu, "device", cudaGetDeviceProperties(&device, 0));
    *card = sb_meter_card();
    if (status)
        return status;
    snprintf(card->name, sizeof card->name, "%s", device.name);
    card->multiprocessors = static_cast<uint32_t>(device.multiProcessorCount);
    card->threads = static_cast<uint32_t>(device.maxThreadsPerMultiProcessor);
    card->cache = static_cast<uint64_t>(device.l2CacheSize);
    card->memory = device.totalGlobalMem;
    return SB_OK;
}

sb_status sb_gpu_drawn_open(sb_gpu *gpu, sb_gpu_piece *piece, const char *name, size_t bytes)
{
    const cudaError_t status = cudaMalloc(&piece->at, bytes ? bytes : 16);
    piece->bytes = bytes;
    return status == cudaErrorMemoryAllocation
               ? sb_fail(&gpu->err, SB_ERR_MEMORY, "%s: %s", name, cudaGetErrorString(status))
               : timed(gpu, name, status);
}

sb_status sb_gpu_drawn_close(sb_gpu *, sb_gpu_piece *piece, const char *, size_t bytes)
{
    piece->bytes = bytes;
    return SB_OK;
}

/* One thread waits for 2 ms. The host needs less time for a hundred launches. */
static __global__ void sb_meter_hold()
{
    uint64_t begin, now;
    sb_launch_ready();
    sb_launch_wait();
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - begin < 2000000);
}

sb_status sb_gpu_hold(sb_gpu *gpu)
{
    sb_meter_hold<<<1, 1, 0, gpu->queue.stream>>>();
    return timed(gpu, "sb_meter_hold", cudaGetLastError());
}
