/* resident.h - memory that stays where kernels run, from one op to the next.
 *
 * Its address stands for it in the arguments of ops: a buffer that lies in it is neither brought
 * nor fetched, and an op that has no other leaves its kernels in the queue. The host has the
 * address alone, and values by sb_gpu_write and sb_gpu_read. */
#ifndef SB_GPU_OP_RESIDENT_H
#define SB_GPU_OP_RESIDENT_H

#include "gpu/op/gpu.h"

/* Memory without values, until sb_gpu_depart or the end of the body. */
sb_status sb_gpu_reside(sb_gpu *gpu, const char *name, size_t bytes, void **at);
void sb_gpu_depart(sb_gpu *gpu, void *at);

/* Behind all that is in the queue, and waits for it. Of sb_gpu_read, Y-13 holds. */
sb_status sb_gpu_write(sb_gpu *gpu, void *resident, const void *host, size_t bytes);
sb_status sb_gpu_read(sb_gpu *gpu, void *host, const void *resident, size_t bytes);
/* From now on without a value (on the emulator, which notices who reads it). */
void sb_gpu_void(sb_gpu *gpu, void *resident, size_t bytes);

/* Where ops take their scratch from now on: it stays in the pool, so that a second time nothing is
 * allocated and every op gets what it had. NULL: from the body, as at first. A pool lives up to
 * sb_gpu_pool_free. */
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

/* Y-74: "a buffer of the host, memory that is not there and a weight that was not brought are
 * errors" from now on, which name it. */
void sb_gpu_seal(sb_gpu *gpu, bool sealed);

/* --- ops over what a sequence remembers --------------------------------------------------------
 * States, of which the number in `slot` says the one that counts: the state of the arguments is the
 * first of `count`, and their trail the same or NULL (slots.cuh). NULL for slots: one state. */
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

/* Keys and values as codes of K-24, or bfloat16, each (positions, nKV, hd). Row 0 of a call stands
 * at position *first, and no row behind `reach`: which of the larger numbers that is changes no
 * bit. */
struct sb_gpu_cache {
    void *keys, *values;
    const uint32_t *first;
    size_t positions, reach;
};
/* Of the arguments keys, values and first are not read. */
sb_status sb_gpu_attention_cache(sb_gpu *gpu, const sb_knobs *knobs, const sb_attention_args *args,
                                 const sb_gpu_cache *cache);
/* in (rows, width) to the keys or values of the cache, which `to` is; scale is that of K-24. */
sb_status sb_gpu_append(sb_gpu *gpu, const sb_knobs *knobs, const float *in, size_t rows,
                        size_t width, float scale, void *to, const sb_gpu_cache *cache);

/* Of all rows: logits (rows). */
sb_status sb_gpu_moe_combine_rows(sb_gpu *gpu, const sb_moe_combine_args *args, size_t rows,
                                  const float *logits);

#endif
