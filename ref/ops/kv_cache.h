/* kv_cache.h - keys and values as the cache stores them. */
#ifndef SB_OPS_KV_CACHE_H
#define SB_OPS_KV_CACHE_H

#include <stddef.h>

#include "ref/ops/knobs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The multiplier of the cached values: stored_scale, the scale in the file. It is 1 if the file has
 * no scale (stored_scale 0) or if the cache holds unscaled values. */
float sb_kv_scale(const sb_knobs *knobs, float stored_scale);

/* Writes in (count) to out as the cache holds it: unchanged, rounded, or as decoded E4M3 codes
 * (K-24). out may be in. */
void sb_kv_store(const sb_knobs *knobs, float stored_scale, const float *in, size_t count,
                 float *out);

#ifdef __cplusplus
}
#endif

#endif
