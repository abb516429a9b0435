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

struct sb_gpu {
    sb_queue queue;
    sb_error err;
    sb_gpu_weight *weights; /* (room), a power of two: a table by hash */
    size_t weight_count, weight_room;
    sb_gpu_mode mode;
    uint64_t packed, counted; /* bytes */
#ifndef __CUDACC__
    bool plain; /* buffers have no history */
#else
    unsigned char *stage;       /* pinned */
    struct sb_gpu_spare *spare; /* what ops gave back */
#endif
};
}

/* Bytes that are packed at a time. */
enum : size_t { SB_GPU_STAGE = size_t(32) << 20 };

sb_status sb_gpu_begin(sb_gpu *gpu); /* behind the allocation of a zeroed *gpu */
void sb_gpu_end(sb_gpu *gpu);

/* A buffer of an op. On the emulator an input is the array of the host itself. */
sb_status sb_gpu_take(sb_gpu *gpu, sb_gpu_piece *piece, const char *name, void *host, size_t bytes,
                      sb_gpu_use use);
void sb_gpu_give(sb_gpu *gpu, sb_gpu_piece *piece, sb_gpu_use use);
/* Its values go to the host: every byte must have been written. */
sb_status sb_gpu_fetch(sb_gpu *gpu, sb_gpu_piece *piece, void *host);
sb_status sb_gpu_wait(sb_gpu *gpu);

/* Memory for packed matrices, `bytes` each, and its contents, in parts. */
sb_status sb_gpu_fill(sb_gpu *gpu, sb_gpu_piece *piece, const char *name,
                      const sb_gpu_matrices &all, sb_gpu_pack pack, size_t bytes, size_t step);
/* Says why a matrix could not be packed, and returns `status`. */
sb_status sb_gpu_unpacked(sb_gpu *gpu, const char *name, sb_status status);
void sb_gpu_drop(sb_gpu *gpu, sb_gpu_piece *piece);

#endif
