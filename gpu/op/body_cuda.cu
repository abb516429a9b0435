/* body_cuda.cu - memory and launches of a device. Everything goes through one stream, in order. */
#include "gpu/op/body.h"
#include "ref/formats/format.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Memory that an op gave back. A later op of the same size takes it. */
namespace sb_on_device
{
struct sb_gpu_spare {
    sb_gpu_spare *next;
    void *at;
    size_t bytes;
};
} // namespace sb_on_device

static sb_status did(sb_gpu *gpu, const char *what, cudaError_t status)
{
    if (status == cudaSuccess)
        return SB_OK;
    return sb_fail(&gpu->err, status == cudaErrorMemoryAllocation ? SB_ERR_MEMORY : SB_ERR_IO,
                   "%s: %s", what, cudaGetErrorString(status));
}

void sb_gpu_trim(sb_gpu *gpu)
{
    while (gpu->spare) {
        sb_gpu_spare *next = gpu->spare->next;
        cudaFree(gpu->spare->at);
        free(gpu->spare);
        gpu->spare = next;
    }
}

sb_status sb_gpu_begin(sb_gpu *gpu)
{
    gpu->queue.err = &gpu->err;
    sb_status status = did(gpu, "stream", cudaStreamCreate(&gpu->queue.stream));
    void *stage = nullptr;
    if (!status)
        status = did(gpu, "pinned memory", cudaMallocHost(&stage, SB_GPU_STAGE));
    gpu->stage = static_cast<unsigned char *>(stage);
    return status;
}

void sb_gpu_end(sb_gpu *gpu)
{
    sb_gpu_trim(gpu);
    if (gpu->stage)
        cudaFreeHost(gpu->stage);
    if (gpu->queue.stream)
        cudaStreamDestroy(gpu->queue.stream);
}

/* Allocates exactly `bytes` bytes: compute-sanitizer sees an access beyond the end of a buffer only
 * if its memory ends there. */
static sb_status allocate(sb_gpu *gpu, const char *name, size_t bytes, void **out)
{
    for (sb_gpu_spare **at = &gpu->spare; *at; at = &(*at)->next)
        if ((*at)->bytes == bytes) {
            sb_gpu_spare *found = *at;
            *at = found->next;
            *out = found->at;
            free(found);
            return SB_OK;
        }
    cudaError_t status = cudaMalloc(out, bytes ? bytes : 1);
    if (status == cudaErrorMemoryAllocation && gpu->spare) {
        cudaGetLastError(); /* clears the error */
        sb_gpu_trim(gpu);
        status = cudaMalloc(out, bytes ? bytes : 1);
    }
    return did(gpu, name, status);
}

/* Copies from the host and waits, so that the host may change its memory at once. Without the wait,
 * even a copy from memory that is not pinned may be asynchronous: a device that reads host pages
 * directly needs no staging. */
static sb_status copied(sb_gpu *gpu, const char *name, void *to, const void *host, size_t bytes)
{
    const sb_status status =
        did(gpu, name, cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, gpu->queue.stream));
    return status ? status : sb_gpu_wait(gpu);
}

sb_status sb_gpu_take(sb_gpu *gpu, sb_gpu_piece *piece, const char *name, void *host, size_t bytes,
                      sb_gpu_use use)
{
    piece->bytes = bytes;
    if (sb_gpu_unrecorded(gpu, name))
        return SB_ERR_USAGE;
    const sb_status status = allocate(gpu, name, bytes, &piece->at);
    if (status || (use != SB_GPU_INPUT && use != SB_GPU_INOUT))
        return status;
    return copied(gpu, name, piece->at, host, bytes);
}

/* Does not wait: kernels that still use the memory precede its next use in the stream. */
void sb_gpu_give(sb_gpu *gpu, sb_gpu_piece *piece, sb_gpu_use)
{
    sb_gpu_spare *spare = static_cast<sb_gpu_spare *>(sb_alloc(1, sizeof *spare));
    if (!piece->at || !spare) {
        cudaFree(piece->at);
        free(spare);
        return;
    }
    *spare = {gpu->spare, piece->at, piece->bytes};
    gpu->spare = spare;
}

sb_status sb_gpu_wait(sb_gpu *gpu)
{
    const sb_status status = sb_gpu_unrecorded(gpu, "the end of all launches");
    return status ? status : did(gpu, "kernels", cudaStreamSynchronize(gpu->queue.stream));
}

sb_status sb_gpu_fetch(sb_gpu *gpu, sb_gpu_piece *piece, void *host)
{
    if (sb_gpu_unrecorded(gpu, "outputs"))
        return SB_ERR_USAGE;
    const sb_status status = did(
        gpu, "outputs",
        cudaMemcpyAsync(host, piece->at, piece->bytes, cudaMemcpyDeviceToHost, gpu->queue.stream));
    return status ? status : sb_gpu_wait(gpu);
}

sb_status sb_gpu_allot(sb_gpu *gpu, sb_gpu_piece *piece, const char *name, size_t bytes)
{
    piece->bytes = bytes;
    if (sb_gpu_unrecorded(gpu, name))
        return SB_ERR_USAGE;
    return did(gpu, name, cudaMalloc(&piece->at, bytes ? bytes : 1));
}

sb_status sb_gpu_set(sb_gpu *gpu, const sb_gpu_part *part, const void *host)
{
    char *const to = static_cast<char *>(part->of->at) + part->offset;
    if (sb_gpu_unrecorded(gpu, "values of the host"))
        return SB_ERR_USAGE;
    return copied(gpu, "values of the host", to, host, part->bytes);
}

sb_status sb_gpu_get(sb_gpu *gpu, const sb_gpu_part *part, void *host)
{
    const char *const from = static_cast<const char *>(part->of->at) + part->offset;
    if (sb_gpu_unrecorded(gpu, "values of the device"))
        return SB_ERR_USAGE;
    const sb_status status =
        did(gpu, "values of the device",
            cudaMemcpyAsync(host, from, part->bytes, cudaMemcpyDeviceToHost, gpu->queue.stream));
    return status ? status : sb_gpu_wait(gpu);
}

void sb_gpu_unset(sb_gpu *, const sb_gpu_part *)
{
}

/* Lets the operating system drop the pages of a packed matrix: if device and host share memory, the
 * matrix would be in memory twice. The call is only a hint, harmless for memory that is not a
 * mapped file. It is made only if the rows are contiguous. */
static void forget_pages(const sb_matrix *m)
{
#ifdef MADV_PAGEOUT
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t row = static_cast<uint64_t>(m->cols) * sb_format_bits(m->format) / 8;
    const uint64_t from = reinterpret_cast<uintptr_t>(m->data) + m->first_row * row;
    const uint64_t first = (from + page - 1) / page * page;
    const uint64_t last = (from + m->rows * row) / page * page;
    if (!m->row_map && m->quant.packing == SB_PACKING_rows && last > first)
        madvise(reinterpret_cast<void *>(first), last - first, MADV_PAGEOUT);
#else
    (void)m;
#endif
}

/* Packs a matrix part by part into the pinned buffer and copies each part to the device. */
static sb_status fill_one(sb_gpu *gpu, char *to, const char *name, const sb_matrix *matrix,
                          sb_gpu_pack pack, size_t bytes, size_t step)
{
    const size_t part = SB_GPU_STAGE / step * step;
    sb_status status = SB_OK;
    for (size_t at = 0; at < bytes && !status; at += part) {
        const size_t n = bytes - at < part ? bytes - at : part;
        status = pack(matrix, at, n, gpu->stage);
        if (status)
            sb_gpu_unpacked(gpu, name, status);
        else
            status = did(
                gpu, name,
                cudaMemcpyAsync(to + at, gpu->stage, n, cudaMemcpyHostToDevice, gpu->queue.stream));
        if (!status)
            status = sb_gpu_wait(gpu); /* the stage is refilled next */
    }
    forget_pages(matrix);
    return status;
}

sb_status sb_gpu_fill(sb_gpu *gpu, sb_gpu_piece *piece, const char *name,
                      const sb_gpu_matrices &all, sb_gpu_pack pack, size_t bytes, size_t step)
{
    if (sb_gpu_unrecorded(gpu, name))
        return SB_ERR_USAGE;
    if (step > SB_GPU_STAGE)
        return sb_fail(&gpu->err, SB_ERR_UNSUPPORTED, "%s: a part of it has %zu bytes", name, step);
    piece->bytes = all.count * bytes;
    sb_status status = did(gpu, name, cudaMalloc(&piece->at, piece->bytes ? piece->bytes : 1));
    for (size_t i = 0; i < all.count && !status; i++)
        status = fill_one(gpu, static_cast<char *>(piece->at) + i * bytes, name, all.at(i), pack,
                          bytes, step);
    return status;
}

void sb_gpu_drop(sb_gpu *gpu, sb_gpu_piece *piece)
{
    (void)gpu;
    cudaFree(piece->at);
}
