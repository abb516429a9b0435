/* kv_cache.h - keys and values on their way into the cache. */
#ifndef SB_OPS_KV_CACHE_H
#define SB_OPS_KV_CACHE_H

#include <stddef.h>

#include "ref/ops/knobs.h"

/* The multiplier of what the cache holds: that of the file, 1 where the file has none (0) or where
 * the cache holds the values themselves. */
float sb_kv_scale(const sb_knobs *knobs, float stored_scale);

/* in (count) as the cache holds it: itself, rounded, or the decoded E4M3 codes (K-24). out may be
 * in. */
void sb_kv_store(const sb_knobs *knobs, float stored_scale, const float *in, size_t count,
                 float *out);

#endif
