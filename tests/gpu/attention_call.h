/* attention_call.h - calls of attention and their division into blocks, for the tests of the
 * kernels for few rows and for many. */
#ifndef SB_TESTS_GPU_ATTENTION_CALL_H
#define SB_TESTS_GPU_ATTENTION_CALL_H

/* Whether each part of the cache is a block of its own, and whether blocks have several tiles. */
static bool split_now, wide_now;
#define SB_ATTENTION_CUT(pairs, kv_heads, parts)                                                   \
    ((void)cut_of(pairs, kv_heads, parts), cut{(parts) > 1 && split_now, wide_now})
#include "gpu/op/attention.cc"
#include "ref/ops/kv_cache.h"
#include "tests/gpu/gpu_op.h"

struct shape {
    size_t heads, kv_heads, hd;
};
static const shape small = {4, 2, 64};

struct cache {
    bool fp8;
    float key_scale, value_scale;
};
static const cache plain = {false, 0.0f, 0.0f}, narrow = {true, 0.037f, 0.11f};

inline sb_knobs knobs_of_cache(const cache &kv)
{
    sb_knobs knobs = sm121();
    sb_error err = {};
    if (kv.fp8)
        assert_int_equal(sb_knobs_set(&knobs, "kv_cache=fp8", &err), SB_OK);
    return knobs;
}

inline sb_attention_args call_of(const shape &s, const cache &kv, size_t first, size_t rows)
{
    const sb_knobs knobs = knobs_of_cache(kv);
    const size_t width = s.kv_heads * s.hd, kept = (first + rows) * width;
    float *keys = bf16_values("keys", kept, 0.0f, 1.0f);
    float *values = bf16_values("values", kept, 0.5f, 1.0f);
    sb_kv_store(&knobs, kv.key_scale, keys, kept, keys);
    sb_kv_store(&knobs, kv.value_scale, values, kept, values);
    sb_attention_args a = {};
    a.q = bf16_values("q", (first + rows) * s.heads * s.hd, 0.0f, 2.0f) + first * s.heads * s.hd;
    a.keys = keys;
    a.values = values;
    a.first = first;
    a.rows = rows;
    a.heads = s.heads;
    a.kv_heads = s.kv_heads;
    a.hd = s.hd;
    a.key_scale = kv.key_scale;
    a.value_scale = kv.value_scale;
    a.out = test_output(rows * s.heads * s.hd);
    return a;
}

#endif
