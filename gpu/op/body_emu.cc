/* body_emu.cc - memory and launches of the emulator: arrays of the host with their access
 * history. */
#include "gpu/emu/record.h"
#include "gpu/op/body.h"

#include <stdlib.h>
#include <string.h>

sb_status sb_gpu_begin(sb_gpu *gpu)
{
    gpu->queue.err = &gpu->err;
    gpu->queue.emu = sb_emu_new(0);
    gpu->queue.dependent = true; /* so that Y-16 is always checked */
    return gpu->queue.emu ? SB_OK : SB_ERR_MEMORY;
}

void sb_gpu_end(sb_gpu *gpu)
{
    sb_emu_free(gpu->queue.emu);
}

sb_emu *sb_gpu_emulator(sb_gpu *gpu)
{
    return gpu->queue.emu;
}

void sb_gpu_history(sb_gpu *gpu, bool kept)
{
    gpu->plain = !kept;
    sb_emu_history(gpu->queue.emu, kept);
}

void sb_gpu_count(sb_gpu *gpu, sb_emu_counts *counts)
{
    gpu->watched = counts != nullptr;
    sb_emu_count(gpu->queue.emu, counts);
}

static sb_status open_buffer(const sb_gpu *gpu, sb_gpu_piece *piece, const char *name,
                             sb_emu_use use, sb_error *err)
{
    return (gpu->watched ? sb_emu_region_counted
            : gpu->plain
                ? sb_emu_region_plain
                : sb_emu_region_open)(&piece->region, name, piece->at, piece->bytes, use, err);
}

static sb_emu_use seen(sb_gpu_use use)
{
    return use == SB_GPU_INPUT ? SB_EMU_INPUT : use == SB_GPU_INOUT ? SB_EMU_INOUT : SB_EMU_OUTPUT;
}

sb_status sb_gpu_take(sb_gpu *gpu, sb_gpu_piece *piece, const char *name, void *host, size_t bytes,
                      sb_gpu_use use)
{
    piece->bytes = bytes;
    if (sb_gpu_unrecorded(gpu, name))
        return SB_ERR_USAGE;
    piece->at = use == SB_GPU_INPUT ? host : sb_alloc(bytes, 1);
    if (!piece->at)
        return sb_fail(&gpu->err, SB_ERR_MEMORY, "out of memory for buffer %s", name);
    if (use == SB_GPU_INOUT)
        memcpy(piece->at, host, bytes);
    const sb_status status = open_buffer(gpu, piece, name, seen(use), &gpu->err);
    piece->region.brought = use == SB_GPU_INPUT;
    return status;
}

void sb_gpu_give(sb_gpu *gpu, sb_gpu_piece *piece, sb_gpu_use use)
{
    (void)gpu;
    sb_emu_region_close(&piece->region);
    if (use != SB_GPU_INPUT)
        free(piece->at);
}

void sb_gpu_trim(sb_gpu *)
{
}

/* Y-13: "A byte of an output that no kernel has written is a fault" */
sb_status sb_gpu_fetch(sb_gpu *gpu, sb_gpu_piece *piece, void *host)
{
    if (sb_gpu_unrecorded(gpu, piece->region.name))
        return SB_ERR_USAGE;
    const size_t unset = sb_emu_unset(&piece->region, 0);
    if (unset < piece->bytes)
        return sb_fail(&gpu->err, SB_ERR_DIFF, "no kernel has written byte %zu of %zu of buffer %s",
                       unset, piece->bytes, piece->region.name);
    memcpy(host, piece->at, piece->bytes);
    return SB_OK;
}

/* There is nothing to wait for: a launch on the emulator returns after its end. */
sb_status sb_gpu_wait(sb_gpu *gpu)
{
    return sb_gpu_unrecorded(gpu, "the end of all launches");
}

sb_status sb_gpu_allot(sb_gpu *gpu, sb_gpu_piece *piece, const char *name, size_t bytes)
{
    return sb_gpu_take(gpu, piece, name, nullptr, bytes, SB_GPU_SCRATCH);
}

sb_status sb_gpu_set(sb_gpu *gpu, const sb_gpu_part *part, const void *host)
{
    if (sb_gpu_unrecorded(gpu, part->of->region.name))
        return SB_ERR_USAGE;
    memcpy(static_cast<char *>(part->of->at) + part->offset, host, part->bytes);
    memset(part->of->region.state + part->offset, SB_EMU_SET, part->bytes);
    return SB_OK;
}

/* Y-13 holds here, too: a byte that no kernel has written is a fault. */
sb_status sb_gpu_get(sb_gpu *gpu, const sb_gpu_part *part, void *host)
{
    if (sb_gpu_unrecorded(gpu, part->of->region.name))
        return SB_ERR_USAGE;
    const size_t unset = sb_emu_unset(&part->of->region, part->offset);
    if (unset < part->offset + part->bytes)
        return sb_fail(&gpu->err, SB_ERR_DIFF, "no kernel has written byte %zu of buffer %s", unset,
                       part->of->region.name);
    memcpy(host, static_cast<char *>(part->of->at) + part->offset, part->bytes);
    return SB_OK;
}

/* While launches are recorded, the call is recorded, too, and each replay repeats it. */
void sb_gpu_unset(sb_gpu *gpu, const sb_gpu_part *part)
{
    if (gpu->queue.record) {
        if (sb_emu_keep_unset(gpu->queue.record, &part->of->region, part->offset, part->bytes,
                              &gpu->err))
            gpu->recorded = SB_ERR_MEMORY;
        return;
    }
    memset(part->of->region.state + part->offset, SB_EMU_UNSET, part->bytes);
}

sb_status sb_gpu_fill(sb_gpu *gpu, sb_gpu_piece *piece, const char *name,
                      const sb_gpu_matrices &all, sb_gpu_pack pack, size_t bytes, size_t step)
{
    if (sb_gpu_unrecorded(gpu, name))
        return SB_ERR_USAGE;
    unsigned char *to = static_cast<unsigned char *>(sb_alloc(all.count, bytes));
    piece->at = to;
    piece->bytes = all.count * bytes;
    if (!to)
        return sb_fail(&gpu->err, SB_ERR_MEMORY, "out of memory for %s", name);
    const size_t part = step < SB_GPU_STAGE ? SB_GPU_STAGE / step * step : step;
    sb_status status = SB_OK;
    for (size_t i = 0; i < all.count; i++, to += bytes)
        for (size_t at = 0; at < bytes && !status; at += part)
            status = pack(all.at(i), at, bytes - at < part ? bytes - at : part, to + at);
    if (status)
        return sb_gpu_unpacked(gpu, name, status);
    return open_buffer(gpu, piece, name, SB_EMU_INPUT, &gpu->err);
}

void sb_gpu_drop(sb_gpu *gpu, sb_gpu_piece *piece)
{
    (void)gpu;
    sb_emu_region_close(&piece->region);
    free(piece->at);
}
