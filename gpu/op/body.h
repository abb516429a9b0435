/* body.h - what the two bodies have in common, and what each brings: body_emu.cc, body_cuda.cu. */
#ifndef SB_GPU_OP_BODY_H
#define SB_GPU_OP_BODY_H

#include "gpu/op/gpu.h"

#ifdef __CUDACC__
namespace sb_on_device
#else
namespace sb_on_host
#endif
{
/* Which matrix, in which packing. */
struct sb_gpu_key {
    const void *data, *row_map, *scales, *zero_points;
    sb_gpu_pack pack;
    uint32_t rows, cols, first_row;
    sb_format format;
};

/* Memory that does not move, and how many matrices of the table have a part of it. */
struct sb_gpu_kept {
    sb_gpu_piece piece;
    size_t users;
};

struct sb_gpu_weight {
    sb_gpu_key key;
    sb_gpu_share share; /* of NULL: the place is free */
};

/* Memory that stays where it is (resident.h), and scratch of the step that it belongs to. */
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

/* What the host has made, and where it was brought to. */
struct sb_gpu_constant {
    sb_gpu_piece piece;
    void *host;
    sb_gpu_constant *next;
};

/* Bytes that stand for weights, and are never read (gpu/meter/body.h). */
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
    sb_gpu_weight *weights; /* (room), a power of two: a table by hash */
    size_t weight_count, weight_room;
    sb_gpu_mode mode;
    uint64_t packed, counted; /* bytes */
    sb_gpu_resident *residents;
    sb_gpu_constant *constants;
    sb_gpu_pool *pool; /* where ops take scratch from; NULL: each has its own */
    bool sealed;
    sb_status recorded; /* what became of the recording that is made */
    sb_gpu_hollow hollow;
    sb_gpu_watching *watching; /* gpu/meter/watch.cc */
    sb_gpu_marks *marks;       /* sb_meter_mark */
#ifndef __CUDACC__
    bool plain;   /* buffers have no history */
    bool watched; /* accesses of buffers are counted */
#else
    bool records;               /* launches */
    unsigned char *stage;       /* pinned */
    struct sb_gpu_spare *spare; /* what ops gave back */
#endif
};
}

/* Bytes that are packed at a time. */
enum : size_t { SB_GPU_STAGE = size_t(32) << 20 };

sb_status sb_gpu_begin(sb_gpu *gpu); /* behind the allocation of a zeroed *gpu */
void sb_gpu_end(sb_gpu *gpu);

/* Memory of that size alone, which sb_gpu_drop gives back. */
sb_status sb_gpu_allot(sb_gpu *gpu, sb_gpu_piece *piece, const char *name, size_t bytes);
/* Parts of a piece: from the host, which may change them at once; back; and without a value, which
 * only the emulator can tell. */
sb_status sb_gpu_set(sb_gpu *gpu, const sb_gpu_part *part, const void *host);
sb_status sb_gpu_get(sb_gpu *gpu, const sb_gpu_part *part, void *host);
void sb_gpu_unset(sb_gpu *gpu, const sb_gpu_part *part);

/* The resident piece that `at` lies in; NULL: there is none. */
sb_gpu_piece *sb_gpu_residence(const sb_gpu *gpu, const void *at);
void sb_gpu_forget_constants(sb_gpu *gpu);
/* Scratch that is free in the body's pool, or a new piece of it; NULL, and what failed is said. */
sb_gpu_pooled *sb_gpu_from_pool(sb_gpu *gpu, const char *name, size_t bytes);

/* A buffer of an op. On the emulator an input is the array of the host itself. */
sb_status sb_gpu_take(sb_gpu *gpu, sb_gpu_piece *piece, const char *name, void *host, size_t bytes,
                      sb_gpu_use use);
void sb_gpu_give(sb_gpu *gpu, sb_gpu_piece *piece, sb_gpu_use use);
/* A device keeps what was given back for the next op that wants as much: no longer. */
void sb_gpu_trim(sb_gpu *gpu);
/* Its values go to the host: every byte must have been written. */
sb_status sb_gpu_fetch(sb_gpu *gpu, sb_gpu_piece *piece, void *host);
sb_status sb_gpu_wait(sb_gpu *gpu);

/* Y-18: "nothing is copied, allocated or waited for" while launches are recorded: an error, and of
 * the recording, too. */
bool sb_gpu_records(const sb_gpu *gpu);
static inline sb_status sb_gpu_unrecorded(sb_gpu *gpu, const char *name)
{
    if (!sb_gpu_records(gpu))
        return SB_OK;
    return gpu->recorded =
               sb_fail(&gpu->err, SB_ERR_USAGE,
                       "%s: what belongs to no launch, while launches are recorded", name);
}

/* Memory for packed matrices, `bytes` each, and its contents, in parts. */
sb_status sb_gpu_fill(sb_gpu *gpu, sb_gpu_piece *piece, const char *name,
                      const sb_gpu_matrices &all, sb_gpu_pack pack, size_t bytes, size_t step);
/* Says why a matrix could not be packed, and returns `status`. */
sb_status sb_gpu_unpacked(sb_gpu *gpu, const char *name, sb_status status);
void sb_gpu_drop(sb_gpu *gpu, sb_gpu_piece *piece);

#endif
