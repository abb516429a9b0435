/* body.h - the common part of the two bodies, and the functions that each defines: body_emu.cc,
 * body_cuda.cu. */
#ifndef SB_GPU_OP_BODY_H
#define SB_GPU_OP_BODY_H

#include "gpu/op/gpu.h"

#ifdef __CUDACC__
namespace sb_on_device
#else
namespace sb_on_host
#endif
{
/* Identifies a matrix and its packing. */
struct sb_gpu_key {
    const void *data, *row_map, *scales, *zero_points;
    sb_gpu_pack pack;
    uint32_t rows, cols, first_row;
    sb_format format;
};

/* Memory at a fixed address, which holds the packed forms of `users` matrices of the table. */
struct sb_gpu_kept {
    sb_gpu_piece piece;
    size_t users;
};

struct sb_gpu_weight {
    sb_gpu_key key;
    sb_gpu_share share; /* share.of NULL: the place is free */
};

/* Resident memory (resident.h), and the scratch of a step. */
struct sb_gpu_resident {
    sb_gpu_piece piece;
    sb_gpu_resident *next;
};
struct sb_gpu_pooled {
    sb_gpu_piece piece;
    const char *name;
    bool taken;
    sb_gpu_pooled *next;
};
struct sb_gpu_pool {
    sb_gpu_pooled *first;
};

/* Values that the host has computed, and their copy for kernels. */
struct sb_gpu_constant {
    sb_gpu_piece piece;
    void *host;
    sb_gpu_constant *next;
};

/* A range of bytes in place of weights; the bytes are never read (gpu/meter/body.h). */
struct sb_gpu_hollow {
    const unsigned char *first;
    size_t bytes;
    uint64_t seed;
};
struct sb_gpu_watching;
struct sb_gpu_marks;

struct sb_gpu {
    sb_queue queue;
    sb_error err;
    sb_gpu_weight *weights; /* (weight_room), a power of two: a hash table */
    size_t weight_count, weight_room;
    sb_gpu_mode mode;
    uint64_t packed, counted; /* bytes */
    sb_gpu_resident *residents;
    sb_gpu_constant *constants;
    sb_gpu_pool *pool; /* the scratch of ops; NULL: each op has its own */
    bool sealed;
    sb_status recorded; /* the status of the current recording */
    sb_gpu_hollow hollow;
    sb_gpu_watching *watching; /* gpu/meter/watch.cc */
    sb_gpu_marks *marks;       /* sb_meter_mark */
#ifndef __CUDACC__
    bool plain;   /* buffers without a history */
    bool watched; /* accesses of buffers are counted */
#else
    bool records;               /* launches are being recorded */
    unsigned char *stage;       /* pinned */
    struct sb_gpu_spare *spare; /* memory that ops gave back */
#endif
};
}

/* The size of the pinned buffer: the most bytes that are packed at once. */
enum : size_t { SB_GPU_STAGE = size_t(32) << 20 };

sb_status sb_gpu_begin(sb_gpu *gpu); /* after the allocation of a zeroed *gpu */
void sb_gpu_end(sb_gpu *gpu);

/* Allocates exactly `bytes` bytes, which sb_gpu_drop frees. */
sb_status sb_gpu_allot(sb_gpu *gpu, sb_gpu_piece *piece, const char *name, size_t bytes);
/* sb_gpu_set copies host values into a part of a piece; the host may change its array at once.
 * sb_gpu_get copies a part to the host. sb_gpu_unset marks a part as without values; only the
 * emulator does so. */
sb_status sb_gpu_set(sb_gpu *gpu, const sb_gpu_part *part, const void *host);
sb_status sb_gpu_get(sb_gpu *gpu, const sb_gpu_part *part, void *host);
void sb_gpu_unset(sb_gpu *gpu, const sb_gpu_part *part);

/* Returns the resident piece that contains `at`, or NULL. */
sb_gpu_piece *sb_gpu_residence(const sb_gpu *gpu, const void *at);
void sb_gpu_forget_constants(sb_gpu *gpu);
/* Returns free scratch of the body's pool, allocated if there is none; NULL, with a message, on
 * failure. */
sb_gpu_pooled *sb_gpu_from_pool(sb_gpu *gpu, const char *name, size_t bytes);

/* Provides a buffer for an op. On the emulator an input buffer is the host's array itself. */
sb_status sb_gpu_take(sb_gpu *gpu, sb_gpu_piece *piece, const char *name, void *host, size_t bytes,
                      sb_gpu_use use);
void sb_gpu_give(sb_gpu *gpu, sb_gpu_piece *piece, sb_gpu_use use);
/* Frees the buffers that a device keeps for the next op of the same size. */
void sb_gpu_trim(sb_gpu *gpu);
/* Copies a buffer to the host: every byte must have been written. */
sb_status sb_gpu_fetch(sb_gpu *gpu, sb_gpu_piece *piece, void *host);
sb_status sb_gpu_wait(sb_gpu *gpu);

/* Y-18: "nothing is copied, allocated or waited for" while launches are recorded. The call fails,
 * and so does sb_graph_end. */
bool sb_gpu_records(const sb_gpu *gpu);
static inline sb_status sb_gpu_unrecorded(sb_gpu *gpu, const char *name)
{
    if (!sb_gpu_records(gpu))
        return SB_OK;
    return gpu->recorded = sb_fail(&gpu->err, SB_ERR_USAGE,
                                   "%s: is not a launch, and only launches can be recorded", name);
}

/* Allocates memory for packed matrices, `bytes` each, and fills it in parts. */
sb_status sb_gpu_fill(sb_gpu *gpu, sb_gpu_piece *piece, const char *name,
                      const sb_gpu_matrices &all, sb_gpu_pack pack, size_t bytes, size_t step);
/* Writes the message that a matrix could not be packed, and returns `status`. */
sb_status sb_gpu_unpacked(sb_gpu *gpu, const char *name, sb_status status);
void sb_gpu_drop(sb_gpu *gpu, sb_gpu_piece *piece);

#endif
