/* gpu.h - the base of the host side of an op: buffers, launches, packed weights that are kept.
 *
 * gpu/op/NAME.cc has one function for each op, compiled twice: by the host's compiler for the
 * emulator, and by nvcc for a device. sb_gpu is a different type in each, so that both fit into one
 * program: every non-static function of these files has an sb_gpu parameter.
 *
 *     sb_status sb_gpu_add(sb_gpu *gpu, const sb_knobs *knobs, const sb_add_args *a)
 *     {
 *         sb_gpu_work work(gpu);
 *         const auto x = work.in("a", a->a, a->count), y = work.in("b", a->b, a->count);
 *         const auto sum = work.out("out", a->out, a->count);
 *         SB_GPU_RUN(work, sb_add_kernel, grid, block, 0, x, y, sum, a->count);
 *         return work.finish();
 *     }
 */
#ifndef SB_GPU_OP_GPU_H
#define SB_GPU_OP_GPU_H

#include "gpu/cuda.h"
#include "gpu/gpu.h"
#include "ref/ops/op.h"
#include "ref/run/backend.h"

#ifdef __CUDACC__
namespace sb_on_device
#else
namespace sb_on_host
#endif
{
struct sb_gpu;

/* A piece of the body's memory. On the emulator a region describes it. */
struct sb_gpu_piece {
    void *at;
    size_t bytes;
#ifndef __CUDACC__
    sb_emu_region region;
#endif
};

/* Matrices of one shape. Their sb_matrix structures are `stride` bytes apart. */
struct sb_gpu_matrices {
    const sb_matrix *first;
    size_t stride, count;

    const sb_matrix *at(size_t i) const
    {
        const void *matrix = reinterpret_cast<const char *>(first) + i * stride;
        return static_cast<const sb_matrix *>(matrix);
    }
};

/* The packed form of a matrix: a part of memory that other matrices may share. */
struct sb_gpu_kept;
struct sb_gpu_share {
    sb_gpu_kept *of;
    size_t offset, bytes;
};

/* A range of a piece, which several buffers may share. */
struct sb_gpu_part {
    sb_gpu_piece *of;
    size_t offset, bytes;
};

/* Writes bytes [first, first + bytes) of the packed form of a matrix. */
typedef sb_status (*sb_gpu_pack)(const sb_matrix *matrix, size_t first, size_t bytes,
                                 unsigned char *to);

/* How the kernels of an op use a buffer. */
enum sb_gpu_use { SB_GPU_INPUT, SB_GPU_INOUT, SB_GPU_OUTPUT, SB_GPU_SCRATCH };

/* One running op. Its status is the first failure; all calls after a failure do nothing. */
class sb_gpu_work
{
  public:
    explicit sb_gpu_work(sb_gpu *on);
    ~sb_gpu_work();
    sb_gpu_work(const sb_gpu_work &) = delete;
    sb_gpu_work &operator=(const sb_gpu_work &) = delete;

    /* Makes a host array accessible to kernels. finish() copies outputs back to the host. `name` is
     * a literal, for messages. An array in resident memory (resident.h) is used in place. */
    template <class T> sb_global<const T> in(const char *name, const T *host, size_t n)
    {
        return as<const T>(add(name, const_cast<T *>(host), n * sizeof(T), SB_GPU_INPUT));
    }
    template <class T> sb_global<T> inout(const char *name, T *host, size_t n)
    {
        return as<T>(add(name, host, n * sizeof(T), SB_GPU_INOUT));
    }
    template <class T> sb_global<T> out(const char *name, T *host, size_t n)
    {
        return as<T>(add(name, host, n * sizeof(T), SB_GPU_OUTPUT));
    }
    /* Memory for the kernels of this op, without values at first. */
    template <class T> sb_global<T> scratch(const char *name, size_t n)
    {
        return as<T>(add(name, nullptr, n * sizeof(T), SB_GPU_SCRATCH));
    }
    /* Values that the host computes from a model and that are the same for every call. They are
     * copied once. */
    template <class T> sb_global<const T> constant(const char *name, const T *host, size_t n)
    {
        return as<const T>(bring(name, host, n * sizeof(T)));
    }
    /* True if an array lies in resident memory. Kernels have written its values, and the host does
     * not check them. */
    bool resident(const void *at) const;
    /* Returns the packed form of a matrix, of `bytes` bytes. It is kept: later ops with the same
     * matrix and packing use the same bytes. The matrix is packed in parts that fit into the pinned
     * buffer. The size of each part except the last is a multiple of `step`. */
    template <class T>
    sb_global<const T> kept(const char *name, const sb_matrix *matrix, sb_gpu_pack pack,
                            size_t bytes, size_t step)
    {
        return as<const T>(keep(name, {matrix, 0, 1}, pack, bytes, step));
    }
    /* The same for several matrices, `bytes` bytes each, stored one after the other. There is only
     * one copy: kept() for one of them returns its part of this memory, no matter which of the two
     * functions is called first. */
    template <class T>
    sb_global<const T> kept_all(const char *name, const sb_gpu_matrices &all, sb_gpu_pack pack,
                                size_t bytes, size_t step)
    {
        return as<const T>(keep(name, all, pack, bytes, step));
    }
    /* The values of a matrix that is not quantized, row by row. values_bf16 returns the bits of the
     * values rounded to bfloat16. */
    sb_global<const float> values(const char *name, const sb_matrix *matrix);
    sb_global<const uint16_t> values_bf16(const char *name, const sb_matrix *matrix);

    bool ok() const
    {
        return status == SB_OK;
    }
    void did(sb_status what)
    {
        status = status ? status : what;
    }
    const sb_queue *queue() const;
    /* For an op's own error message: work.did(sb_fail(work.err(), ...)). */
    sb_error *err() const;

    /* Waits for the kernels and copies the outputs to the host. */
    sb_status finish();

  private:
    enum { PIECES = 24 };
    struct buffer {
        sb_gpu_piece own;
        sb_gpu_part part;
        void *host; /* the destination of finish() */
        sb_gpu_use use;
        struct sb_gpu_pooled *pooled; /* scratch from the pool of a step */
    };
    sb_gpu *gpu;
    buffer buffers[PIECES];
    size_t count = 0;
    sb_status status = SB_OK;

    sb_gpu_part add(const char *name, void *host, size_t bytes, sb_gpu_use use);
    sb_status place(buffer *b, const char *name, size_t bytes);
    sb_gpu_part bring(const char *name, const void *host, size_t bytes);
    sb_gpu_share keep(const char *name, const sb_gpu_matrices &all, sb_gpu_pack pack, size_t bytes,
                      size_t step);
    static sb_gpu_part part_of(const sb_gpu_share &share);
    template <class T> static sb_global<T> as(const sb_gpu_part &part)
    {
        if (!part.of)
            return sb_global<T>(nullptr);
#ifdef __CUDACC__
        return reinterpret_cast<T *>(static_cast<char *>(part.of->at) + part.offset);
#else
        const sb_global<T> all(&part.of->region);
        return sb_part(all + part.offset / sizeof(T), part.bytes / sizeof(T));
#endif
    }
    template <class T> static sb_global<T> as(const sb_gpu_share &share)
    {
        return as<T>(part_of(share));
    }
};
}
#ifdef __CUDACC__
using namespace sb_on_device;
#else
using namespace sb_on_host;
#endif

/* Starts a kernel, unless something has failed before. */
#define SB_GPU_RUN(work, kernel, grid, block, shared, ...)                                         \
    do {                                                                                           \
        if ((work).ok())                                                                           \
            (work).did(SB_LAUNCH((work).queue(), kernel, grid, block, shared, __VA_ARGS__));       \
    } while (0)

/* The number of blocks of `each` elements for n elements. */
inline unsigned sb_gpu_blocks(size_t n, size_t each)
{
    return static_cast<unsigned>((n + each - 1) / each);
}

/* --- one body: gpu.cc ------------------------------------------------------------------------- */
sb_status sb_gpu_open(sb_gpu **out, sb_error *err);
void sb_gpu_close(sb_gpu *gpu);
void sb_gpu_forget_weights(sb_gpu *gpu);
/* Sets the mode, and returns *bytes of sb_gpu_staging. An op requests its weights before its
 * buffers. The requests pack or count the weights. Unless the mode is SB_GPU_COMPUTES, the op ends
 * there. */
uint64_t sb_gpu_stage(sb_gpu *gpu, sb_gpu_mode mode);
const sb_error *sb_gpu_said(const sb_gpu *gpu); /* the message of the failed op */
/* Tells the observer of launches that all launches since the last call of sb_gpu_named belong to
 * `op`. */
void sb_gpu_named(sb_gpu *gpu, const char *op);
/* sb_emu_body and sb_device_body return the body of a backend, made on first use; NULL on failure,
 * or if the backend is of another kind. */
#ifndef __CUDACC__
sb_emu *sb_gpu_emulator(sb_gpu *gpu);
void sb_gpu_history(sb_gpu *gpu, bool kept);
/* Counts all launches until the next call of sb_gpu_count (Y-15); NULL: counts none. Accesses to
 * weights that an op packs meanwhile are counted as long as the weights exist. */
void sb_gpu_count(sb_gpu *gpu, sb_emu_counts *counts);
sb_gpu *sb_emu_body(const sb_backend *backend);
#else
sb_gpu *sb_device_body(const sb_backend *backend);
#endif

/* The ops: gpu/op/<name>.cc. */
#define SB_OP(name, clause)                                                                        \
    sb_status sb_gpu_##name(sb_gpu *gpu, const sb_knobs *knobs, const sb_##name##_args *args);
#include "ref/ops/ops.def"
#undef SB_OP

#endif
