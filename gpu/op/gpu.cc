/* gpu.cc - a running op and its buffers: sb_gpu_work. */
#include "gpu/op/body.h"
#include "gpu/op/resident.h"

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
    while (gpu->residents)
        sb_gpu_depart(gpu, gpu->residents->piece.at);
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

void sb_gpu_named(sb_gpu *gpu, const char *op)
{
    if (gpu->queue.watch)
        gpu->queue.watch->behind(gpu->queue.watch, op);
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
        if (buffers[i].pooled)
            buffers[i].pooled->taken = false;
        else if (buffers[i].part.of == &buffers[i].own)
            sb_gpu_give(gpu, &buffers[i].own, buffers[i].use);
}

bool sb_gpu_work::resident(const void *at) const
{
    return sb_gpu_residence(gpu, at) != nullptr;
}

static bool meet(const sb_gpu_part &a, const sb_gpu_part &b)
{
    return a.of == b.of && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

/* Y-75: "an output whose memory is not shared with an input of its op has no value before the op"
 */
static bool shared(const sb_gpu_part &part, const sb_gpu_part &before)
{
    return before.of && meet(part, before);
}

sb_status sb_gpu_work::place(buffer *b, const char *name, size_t bytes)
{
    sb_gpu_piece *const residence = b->host ? sb_gpu_residence(gpu, b->host) : nullptr;
    if (residence) {
        const size_t offset =
            static_cast<size_t>(static_cast<char *>(b->host) - static_cast<char *>(residence->at));
        if (bytes > residence->bytes - offset)
            return sb_fail(
                err(), SB_ERR_USAGE,
                "buffer %s: %zu bytes at byte %zu are beyond the %zu bytes of its memory", name,
                bytes, offset, residence->bytes);
        b->part = {residence, offset, bytes};
        bool fresh = b->use == SB_GPU_OUTPUT;
        for (const buffer *other = buffers; other < b; other++)
            fresh = fresh && !shared(b->part, other->part);
        b->host = nullptr;
        if (fresh)
            sb_gpu_unset(gpu, &b->part);
        return SB_OK;
    }
    if (gpu->pool && b->use == SB_GPU_SCRATCH) {
        b->pooled = sb_gpu_from_pool(gpu, name, bytes);
        b->part = {b->pooled ? &b->pooled->piece : nullptr, 0, bytes};
        return b->pooled ? SB_OK : SB_ERR_MEMORY;
    }
    if (gpu->sealed)
        return sb_fail(err(), SB_ERR_USAGE, "buffer %s belongs to the host", name);
    b->part = {&b->own, 0, bytes};
    return sb_gpu_take(gpu, &b->own, name, b->host, bytes, b->use);
}

sb_gpu_part sb_gpu_work::add(const char *name, void *host, size_t bytes, sb_gpu_use use)
{
    if (!ok())
        return sb_gpu_part();
    if (gpu->mode != SB_GPU_COMPUTES) { /* the op has brought its weights before its first buffer */
        did(SB_ERR_SKIPPED);
        return sb_gpu_part();
    }
    if (count == PIECES) {
        did(sb_fail(err(), SB_ERR_USAGE, "buffer %s is one more than an op may have", name));
        return sb_gpu_part();
    }
    buffer *b = &buffers[count++];
    *b = buffer();
    b->host = host;
    b->use = use;
    did(place(b, name, bytes));
    return ok() ? b->part : sb_gpu_part();
}

/* Waits only if the op has outputs for the host. */
sb_status sb_gpu_work::finish()
{
    bool waited = false;
    if (gpu->mode != SB_GPU_COMPUTES && status == SB_ERR_SKIPPED)
        return SB_OK;
    for (size_t i = 0; i < count && ok(); i++) {
        const buffer &b = buffers[i];
        if (!b.host || (b.use != SB_GPU_INOUT && b.use != SB_GPU_OUTPUT))
            continue;
        if (!waited)
            did(sb_gpu_wait(gpu));
        waited = true;
        if (ok())
            did(sb_gpu_fetch(gpu, &buffers[i].own, b.host));
    }
    return status;
}
