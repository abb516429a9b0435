#include "gpu/kernel/attention_parts.cuh"
#include "gpu/op/resident.h"
#include "ref/math/fn.h"
#include "ref/ops/knob.h"

/* How a call is cut into blocks; the choice changes no bit. `split`: few rows, so each part of the
 * cache gets its own blocks. `wide`: SB_ATTENTION_WIDE tiles share a block. This needs tiles for
 * two such blocks, and 32 blocks, enough for most multiprocessors of a GB10. */
struct cut {
    bool split, wide;
};
static cut cut_of(size_t pairs, size_t kv_heads, size_t parts)
{
    constexpr size_t wide = SB_ATTENTION_WIDE * SB_ATTENTION_ROWS;
    const bool split = parts > 1 && sb_gpu_blocks(pairs, SB_ATTENTION_ROWS) * kv_heads < 96;
    const size_t blocks = sb_gpu_blocks(pairs, wide) * kv_heads * (split ? parts : 1);
    return {split, pairs >= 2 * wide && blocks >= 32};
}
/* A test can replace this choice. */
#ifndef SB_ATTENTION_CUT
#define SB_ATTENTION_CUT cut_of
#endif

template <class KV, int HD, bool SPLIT, int TILES>
static void start(sb_gpu_work &work, const sb_attention_job<float, KV> &job, unsigned pairs)
{
    constexpr size_t bytes = sb_attention_bytes<HD, TILES>();
    static_assert(bytes <= 101376, "Y-11");
    SB_GPU_RUN(
        work, (sb_attention_kernel<float, KV, HD, SPLIT, TILES>),
        dim3(sb_gpu_blocks(pairs, TILES * SB_ATTENTION_ROWS), job.kv_heads, SPLIT ? job.parts : 1),
        TILES * SB_ATTENTION_THREADS, bytes, job);
}

template <class KV, int HD>
static void run(sb_gpu_work &work, sb_attention_job<float, KV> job, size_t positions)
{
    const unsigned pairs = job.rows * (job.heads / job.kv_heads);
    job.parts = sb_gpu_blocks(positions, SB_ATTENTION_PART);
    const cut as = SB_ATTENTION_CUT(pairs, job.kv_heads, job.parts);
    if (!as.split) {
        if (as.wide)
            start<KV, HD, false, SB_ATTENTION_WIDE>(work, job, pairs);
        else
            start<KV, HD, false, 1>(work, job, pairs);
        return;
    }
    const size_t all = static_cast<size_t>(job.rows) * job.heads * job.parts;
    job.part = work.scratch<float>("part", all * HD);
    job.top = work.scratch<float2>("top", all);
    if (as.wide)
        start<KV, HD, true, SB_ATTENTION_WIDE>(work, job, pairs);
    else
        start<KV, HD, true, 1>(work, job, pairs);
    SB_GPU_RUN(work, (sb_attention_parts_kernel<float, KV, HD>), dim3(job.rows, job.heads), HD, 0,
               job);
}

/* Runs attention over a cache with at most `positions` positions. */
template <class KV>
static sb_status attend(sb_gpu_work &work, const sb_attention_args *a, sb_global<const KV> keys,
                        sb_global<const KV> values, const uint32_t *first, size_t positions)
{
    const size_t queries = a->rows * a->heads * a->hd;
    sb_attention_job<float, KV> job = {};
    job.q = work.in("q", a->q, queries);
    job.keys = keys;
    job.values = values;
    job.first = work.in("first", first, 1);
    job.out = work.out("out", a->out, queries);
    job.rows = static_cast<uint32_t>(a->rows);
    job.heads = static_cast<uint32_t>(a->heads);
    job.kv_heads = static_cast<uint32_t>(a->kv_heads);
    job.scale = sb_root_power(static_cast<double>(a->hd), -1, 2);
    job.key_scale = a->key_scale > 0 ? a->key_scale : 1.0f;
    job.value_scale = a->value_scale > 0 ? a->value_scale : 1.0f;
    if (a->hd == 64)
        run<KV, 64>(work, job, positions);
    else if (a->hd == 128)
        run<KV, 128>(work, job, positions);
    else
        run<KV, 256>(work, job, positions);
    return work.finish();
}

static sb_status check(const sb_gpu_work &work, const sb_attention_args *a)
{
    return a->hd == 64 || a->hd == 128 || a->hd == 256
               ? SB_OK
               : sb_fail(work.err(), SB_ERR_UNSUPPORTED,
                         "heads of %zu elements, expected 64, 128 or 256", a->hd);
}

/* Converts host values to the codes of a cache. A resident cache already has codes. */
template <class KV>
static sb_global<const KV> cached(sb_gpu_work &work, const char *name, const float *host, size_t n)
{
    const sb_global<const float> in = work.in(name, host, n);
    const sb_global<KV> codes = work.scratch<KV>("cache", n);
    SB_GPU_RUN(work, sb_kv_kernel<KV>, sb_gpu_blocks(n, SB_ATTENTION_THREADS), SB_ATTENTION_THREADS,
               0, in, codes, n);
    return codes;
}

template <class KV> static sb_status attend_values(sb_gpu_work &work, const sb_attention_args *a)
{
    const size_t positions = a->first + a->rows, count = positions * a->kv_heads * a->hd;
    const uint32_t first = static_cast<uint32_t>(a->first);
    const auto keys = cached<KV>(work, "keys", a->keys, count);
    const auto values = cached<KV>(work, "values", a->values, count);
    return attend<KV>(work, a, keys, values, &first, positions);
}

sb_status sb_gpu_attention(sb_gpu *gpu, const sb_knobs *knobs, const sb_attention_args *args)
{
    sb_gpu_work work(gpu);
    const sb_status status = check(work, args);
    if (status)
        return status;
    return SB_IS(knobs, kv_cache, fp8) ? attend_values<uint8_t>(work, args)
                                       : attend_values<uint16_t>(work, args);
}

/* --- a resident cache ------------------------------------------------------------------------- */
template <class KV>
static sb_status attend_cache(sb_gpu_work &work, const sb_attention_args *a,
                              const sb_gpu_cache *cache)
{
    const size_t count = cache->positions * a->kv_heads * a->hd;
    const auto keys = work.in("keys", static_cast<const KV *>(cache->keys), count);
    const auto values = work.in("values", static_cast<const KV *>(cache->values), count);
    return attend<KV>(work, a, keys, values, cache->first, cache->reach);
}

sb_status sb_gpu_attention_cache(sb_gpu *gpu, const sb_knobs *knobs, const sb_attention_args *args,
                                 const sb_gpu_cache *cache)
{
    sb_gpu_work work(gpu);
    const sb_status status = check(work, args);
    if (status)
        return status;
    return SB_IS(knobs, kv_cache, fp8) ? attend_cache<uint8_t>(work, args, cache)
                                       : attend_cache<uint16_t>(work, args, cache);
}

template <class KV>
static sb_status append(sb_gpu_work &work, const float *in, size_t rows, size_t width, float scale,
                        KV *to, const sb_gpu_cache *cache)
{
    const size_t n = rows * width;
    const auto values = work.in("in", in, n);
    const auto first = work.in("first", cache->first, 1);
    const auto codes = work.inout("cache", to, cache->positions * width);
    SB_GPU_RUN(work, sb_kv_append_kernel<KV>, sb_gpu_blocks(n, SB_ATTENTION_THREADS),
               SB_ATTENTION_THREADS, 0, values, codes, first, static_cast<uint32_t>(width), scale,
               n);
    return work.finish();
}

sb_status sb_gpu_append(sb_gpu *gpu, const sb_knobs *knobs, const float *in, size_t rows,
                        size_t width, float scale, void *to, const sb_gpu_cache *cache)
{
    sb_gpu_work work(gpu);
    return SB_IS(knobs, kv_cache, fp8)
               ? append(work, in, rows, width, scale, static_cast<uint8_t *>(to), cache)
               : append(work, in, rows, width, scale, static_cast<uint16_t *>(to), cache);
}
