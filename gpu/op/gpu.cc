/* gpu.cc - an op at work: its buffers from the first to the last. */
#include "gpu/op/body.h"

#include <stdlib.h>

sb_status sb_gpu_open(sb_gpu **out, sb_error *err)
{
    sb_gpu *gpu = static_cast<sb_gpu *>(sb_alloc(1, sizeof(sb_gpu)));
    *out = nullptr;
    if (!gpu)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the kernels");
    const sb_status status = sb_gpu_begin(gpu);
    if (status) {
        sb_fail(err, status, "%s", *gpu->err.text ? gpu->err.text : "out of memory");
        sb_gpu_close(gpu);
        return status;
    }
    *out = gpu;
    return SB_OK;
}

void sb_gpu_close(sb_gpu *gpu)
{
    if (!gpu)
        return;
    sb_gpu_forget_weights(gpu);
    sb_gpu_end(gpu);
    free(gpu);
}

uint64_t sb_gpu_stage(sb_gpu *gpu, sb_gpu_mode mode)
{
    const uint64_t bytes = gpu->mode == SB_GPU_COUNTS ? gpu->counted : gpu->packed;
    gpu->mode = mode;
    gpu->counted = 0;
    return bytes;
}

const sb_error *sb_gpu_said(const sb_gpu *gpu)
{
    return &gpu->err;
}

const sb_queue *sb_gpu_work::queue() const
{
    return &gpu->queue;
}

sb_error *sb_gpu_work::err() const
{
    return &gpu->err;
}

sb_gpu_work::sb_gpu_work(sb_gpu *on) : gpu(on)
{
    gpu->err.text[0] = 0;
}

sb_gpu_work::~sb_gpu_work()
{
    for (size_t i = 0; i < count; i++)
        sb_gpu_give(gpu, &buffers[i].piece, buffers[i].use);
}

sb_gpu_piece *sb_gpu_work::add(const char *name, void *host, size_t bytes, sb_gpu_use use)
{
    if (!ok())
        return nullptr;
    if (gpu->mode != SB_GPU_COMPUTES) { /* weights come before all buffers */
        did(SB_ERR_SKIPPED);
        return nullptr;
    }
    if (count == PIECES) {
        did(sb_fail(err(), SB_ERR_USAGE, "buffer %s is one too many for an op", name));
        return nullptr;
    }
    buffer *b = &buffers[count++];
    *b = buffer();
    b->host = host;
    b->use = use;
    did(sb_gpu_take(gpu, &b->piece, name, host, bytes, use));
    return ok() ? &b->piece : nullptr;
}

sb_status sb_gpu_work::finish()
{
    if (gpu->mode != SB_GPU_COMPUTES && status == SB_ERR_SKIPPED)
        return SB_OK;
    if (ok())
        did(sb_gpu_wait(gpu));
    for (size_t i = 0; i < count && ok(); i++)
        if (buffers[i].use == SB_GPU_INOUT || buffers[i].use == SB_GPU_OUTPUT)
            did(sb_gpu_fetch(gpu, &buffers[i].piece, buffers[i].host));
    return status;
}
