/* fused_mixer.cc - fused kernels between the projections of attention and its scores, and between
 * the projections of linear attention. */
#include "gpu/kernel/fused_delta.cuh"
#include "gpu/kernel/fused_heads.cuh"
#include "gpu/op/fused.h"
#include "ref/ops/form.h"
#include "ref/ops/knob.h"

static uint32_t number(size_t n)
{
    return static_cast<uint32_t>(n);
}

/* --- attention -------------------------------------------------------------------------------- */
template <class KV>
static sb_status run_heads(sb_gpu_work &work, const sb_gpu_heads_args *a, const sb_gpu_cache *cache)
{
    const size_t queries = a->rows * a->heads * a->hd, kv = a->kv_heads * a->hd;
    sb_heads_job<float, KV> job = {};
    job.q_weight = work.values("q_norm", a->q_norm);
    job.k_weight = work.values("k_norm", a->k_norm);
    job.packed = work.in("packed", a->packed, 2 * queries);
    job.key = work.in("key", a->key, a->rows * kv);
    job.value = work.in("value", a->value, a->rows * kv);
    job.table = sb_cast<const float2>(work.in("turns", a->turns, a->rows * a->rd));
    job.query = work.out("query", a->query, queries);
    if (a->gate)
        job.gate = work.out("gate", a->gate, queries);
    job.keys = work.inout("keys", static_cast<KV *>(cache->keys), cache->positions * kv);
    job.values = work.inout("values", static_cast<KV *>(cache->values), cache->positions * kv);
    job.first = work.in("first", cache->first, 1);
    job.rows = number(a->rows);
    job.heads = number(a->heads);
    job.kv_heads = number(a->kv_heads);
    job.hd = number(a->hd);
    job.half = number(a->rd / 2);
    job.eps = a->eps;
    job.key_scale = a->key_scale;
    job.value_scale = a->value_scale;
    if (work.ok())
        work.did(sb_heads_launch(work.queue(), job));
    return work.finish();
}

sb_status sb_gpu_heads(sb_gpu *gpu, const sb_knobs *knobs, const sb_gpu_heads_args *args,
                       const sb_gpu_cache *cache)
{
    sb_gpu_work work(gpu);
    if (args->hd > SB_HEADS_MOST)
        return sb_fail(work.err(), SB_ERR_UNSUPPORTED, "heads of %zu elements, expected at most %u",
                       args->hd, SB_HEADS_MOST);
    return SB_IS(knobs, kv_cache, fp8) ? run_heads<uint8_t>(work, args, cache)
                                       : run_heads<uint16_t>(work, args, cache);
}

/* --- linear attention ------------------------------------------------------------------------- */
/* Sets up the job of the convolution. If `writes`, the kernel also writes the conv state. */
static sb_conv_job<float> bring_conv(sb_gpu_work &work, const sb_conv_args *a,
                                     sb_global<const float> weight, const sb_gpu_slots *slots,
                                     bool writes)
{
    const size_t channels = a->weight->rows, kept = (SB_GDN_TAPS - 1) * channels;
    sb_conv_job<float> job = {};
    job.in = work.in("in", a->in, a->rows * channels);
    job.weight = weight;
    job.state = work.in("conv state", a->state, slots->count * kept);
    job.slot = work.in("slot", slots->slot, 1);
    if (writes && a->trail)
        job.trail = work.out("conv trail", a->trail, a->rows * kept);
    else if (writes)
        job.next = work.out("conv next", a->state, 2 * kept);
    job.rows = number(a->rows);
    job.channels = number(channels);
    return job;
}

static sb_delta_job<float> bring_rule(sb_gpu_work &work, const sb_delta_rule_args *a,
                                      const sb_gpu_slots *slots)
{
    const size_t state = a->v_heads * a->dk * a->dv;
    sb_delta_job<float> job = {};
    job.from = work.in("state", a->state, slots->count * state);
    job.slot = work.in("slot", slots->slot, 1);
    if (a->trail)
        job.trail = work.out("trail", a->trail, a->rows * state);
    else
        job.to = work.out("next", a->state, 2 * state);
    job.out = work.out("out", a->out, a->rows * a->v_heads * a->dv);
    job.rows = number(a->rows);
    job.k_heads = number(a->k_heads);
    job.v_heads = number(a->v_heads);
    job.dk = number(a->dk);
    job.dv = number(a->dv);
    return job;
}

sb_status sb_gpu_gdn(sb_gpu *gpu, const sb_knobs *knobs, const sb_gpu_gdn_args *args,
                     const sb_gpu_slots *slots)
{
    sb_gpu_work work(gpu);
    const sb_gates_args *gates = args->gates;
    const sb_l2norm_args *norm = args->norm;
    const size_t n = gates->rows * gates->heads;
    sb_gdn_job<float> job = {};
    if (args->conv->weight->cols != SB_GDN_TAPS)
        return sb_fail(work.err(), SB_ERR_UNSUPPORTED, "a convolution of %u taps, expected %d",
                       args->conv->weight->cols, SB_GDN_TAPS);
    const auto weight = work.values("conv", args->conv->weight);
    job.a_log = work.values("a_log", gates->a_log);
    job.dt_bias = work.values("dt_bias", gates->dt_bias);
    job.conv = bring_conv(work, args->conv, weight, slots, false);
    job.delta = bring_rule(work, args->rule, slots);
    job.a = work.in("a", gates->a, n);
    job.b = work.in("b", gates->b, n);
    job.eps = norm->eps;
    /* K-33 and K-16, as in l2norm.cc */
    job.rounds = sb_l2norm_rounds(knobs, norm->form) != 0;
    job.scale = sb_scales_output(knobs, norm->recurrent)
                    ? 1.0f
                    : sb_gpu_rsqrt(static_cast<float>(norm->dk));
    if (work.ok())
        work.did(sb_gdn_launch(work.queue(), job));
    return work.finish();
}

sb_status sb_gpu_gdn_end(sb_gpu *gpu, const sb_gated_rmsnorm_args *norm, const sb_conv_args *conv,
                         const sb_gpu_slots *slots, const sb_gpu_staged *staged)
{
    sb_gpu_work work(gpu);
    const size_t width = norm->heads * norm->n, all = norm->rows * width;
    sb_gdn_end_job<float> job = {};
    const auto taps = work.values("conv", conv->weight);
    job.weight = work.values("weight", norm->weight);
    job.conv = bring_conv(work, conv, taps, slots, true);
    job.in = work.in("core", norm->in, all);
    job.z = work.in("z", norm->z, all);
    if (norm->out)
        job.out = work.out("out", norm->out, all);
    if (staged->layers)
        job.staged = work.out("staged", static_cast<uint2 *>(staged->layers),
                              sb_gpu_staged_bytes(norm->rows, width) / sizeof(uint2));
    job.shape = sb_stage_shape(number(width));
    job.rows = number(norm->rows);
    job.heads = number(norm->heads);
    job.n = number(norm->n);
    job.eps = norm->eps;
    if (norm->n % 2)
        work.did(sb_fail(work.err(), SB_ERR_UNSUPPORTED, "heads of %zu elements", norm->n));
    if (work.ok())
        work.did(sb_gdn_end_launch(work.queue(), job));
    return work.finish();
}
