/* resident.h - memory that kernels can access, and that keeps its values from one op to the next.
 *
 * Arguments of ops may point to resident memory. Such a buffer is not copied in either direction,
 * and an op that has only such buffers returns without waiting for its kernels. The host must not
 * dereference the address. It reads and writes the values by sb_gpu_read and sb_gpu_write. */
#ifndef SB_GPU_OP_RESIDENT_H
#define SB_GPU_OP_RESIDENT_H

#include "gpu/op/gpu.h"

/* Allocates memory without values, which lives until sb_gpu_depart or the end of the body. */
sb_status sb_gpu_reside(sb_gpu *gpu, const char *name, size_t bytes, void **at);
void sb_gpu_depart(sb_gpu *gpu, void *at);

/* Both wait for all work in the queue. Y-13 holds for sb_gpu_read. */
sb_status sb_gpu_write(sb_gpu *gpu, void *resident, const void *host, size_t bytes);
sb_status sb_gpu_read(sb_gpu *gpu, void *host, const void *resident, size_t bytes);
/* Marks bytes as without values: on the emulator a read of them is a fault. */
void sb_gpu_void(sb_gpu *gpu, void *resident, size_t bytes);

/* A pool keeps scratch memory of ops, so that a repeated sequence of ops allocates nothing and
 * every op gets the same memory again. After sb_gpu_use_pool ops take their scratch from this pool.
 * NULL, the default: ops allocate their scratch from the body. */
#ifdef __CUDACC__
namespace sb_on_device
#else
namespace sb_on_host
#endif
{
struct sb_gpu_pool;
}
sb_gpu_pool *sb_gpu_pool_new(sb_gpu *gpu); /* NULL: out of memory */
void sb_gpu_pool_free(sb_gpu *gpu, sb_gpu_pool *pool);
void sb_gpu_use_pool(sb_gpu *gpu, sb_gpu_pool *pool);

/* Y-74: "A buffer of the host, memory that is not there and a weight that was not brought are
 * errors" from now on. */
void sb_gpu_seal(sb_gpu *gpu, bool sealed);

/* --- ops over the state of a sequence --------------------------------------------------------- */
/* There are `count` copies of the state (slots.cuh); *slot is the index of the current copy. The
 * `state` of the arguments points to the first copy. Their `trail` is the same pointer, or NULL. If
 * `slots` is NULL, there is only one copy. */
struct sb_gpu_slots {
    const uint32_t *slot;
    size_t count;
};
sb_status sb_gpu_conv_slots(sb_gpu *gpu, const sb_conv_args *args, const sb_gpu_slots *slots);
sb_status sb_gpu_delta_rule_slots(sb_gpu *gpu, const sb_knobs *knobs,
                                  const sb_delta_rule_args *args, const sb_gpu_slots *slots);
sb_status sb_gpu_delta_rule_chunk_slots(sb_gpu *gpu, const sb_knobs *knobs,
                                        const sb_delta_rule_chunk_args *args,
                                        const sb_gpu_slots *slots);

/* Keys and values as codes of K-24, or bfloat16, each (positions, nKV, hd). Row 0 of a call has the
 * position *first. `reach` is an upper bound of the end of the call, *first + rows. Its value
 * changes no bit. */
struct sb_gpu_cache {
    void *keys, *values;
    const uint32_t *first;
    size_t positions, reach;
};
/* Attention over this cache. args->keys, args->values and args->first are not read. */
sb_status sb_gpu_attention_cache(sb_gpu *gpu, const sb_knobs *knobs, const sb_attention_args *args,
                                 const sb_gpu_cache *cache);
/* Appends `in` (rows, width) to `to`, which is cache->keys or cache->values; `scale` is the scale
 * of K-24. */
sb_status sb_gpu_append(sb_gpu *gpu, const sb_knobs *knobs, const float *in, size_t rows,
                        size_t width, float scale, void *to, const sb_gpu_cache *cache);

/* sb_gpu_moe_combine for several rows. logits: (rows), one logit per row. */
sb_status sb_gpu_moe_combine_rows(sb_gpu *gpu, const sb_moe_combine_args *args, size_t rows,
                                  const float *logits);

#endif
