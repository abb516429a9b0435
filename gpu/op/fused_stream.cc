/* fused_stream.cc - fused kernels for the residual stream and its norms, and for staged inputs of
 * layers. */
#include "gpu/kernel/fused_norm.cuh"
#include "gpu/op/fused.h"

/* The two staged forms of an input: for ordinary layers and for experts. */
struct staged_input {
    sb_linear_shape shape;
    sb_global<uint2> layers;
    sb_global<uint32_t> experts;
};
static staged_input bring(sb_gpu_work &work, const sb_gpu_staged &to, size_t rows, size_t cols)
{
    staged_input in = {sb_stage_shape(static_cast<uint32_t>(cols)), nullptr, nullptr};
    const size_t bytes = sb_gpu_staged_bytes(rows, cols);
    if (to.layers)
        in.layers = work.out("staged", static_cast<uint2 *>(to.layers), bytes / sizeof(uint2));
    if (to.experts)
        in.experts = work.out("staged for experts", static_cast<uint32_t *>(to.experts),
                              rows * in.shape.chunks * (SB_CHUNK / 2));
    return in;
}

template <class INPUT>
static sb_status stage(sb_gpu_work &work, const INPUT &in, const staged_input &to, size_t rows)
{
    const uint32_t all = static_cast<uint32_t>(rows);
    if (work.ok() && to.layers)
        work.did(sb_stage_launch(work.queue(), in, nullptr, to.layers, to.shape, all));
    if (work.ok() && to.experts)
        work.did(sb_stage_pairs_launch(work.queue(), in, nullptr, to.experts, to.shape, all));
    return work.finish();
}

sb_status sb_gpu_swiglu_staged(sb_gpu *gpu, const float *gate, const float *up, size_t rows,
                               size_t cols, const sb_gpu_staged *out)
{
    sb_gpu_work work(gpu);
    const sb_swiglu_input<float> in = {work.in("gate", gate, rows * cols),
                                       work.in("up", up, rows * cols), static_cast<uint32_t>(cols)};
    return stage(work, in, bring(work, *out, rows, cols), rows);
}

sb_status sb_gpu_attn_gate_staged(sb_gpu *gpu, const float *in, const float *packed, size_t rows,
                                  size_t heads, size_t hd, void *layers)
{
    sb_gpu_work work(gpu);
    const size_t cols = heads * hd;
    const sb_attn_gate_input<float> gated = {
        work.in("in", in, rows * cols), work.in("packed", packed, 2 * rows * cols),
        static_cast<uint32_t>(cols), static_cast<uint32_t>(hd)};
    const staged_input to = bring(work, {layers, nullptr}, rows, cols);
    if (work.ok())
        work.did(sb_stage_launch(work.queue(), gated, nullptr, to.layers, to.shape,
                                 static_cast<uint32_t>(rows)));
    return work.finish();
}

template <class ADDED>
static void run(sb_gpu_work &work, const sb_gpu_add_norm_args *a, const ADDED &added)
{
    const size_t all = a->rows * a->n;
    sb_add_norm_job<ADDED, float> job = {};
    const auto weight = work.values("weight", a->weight);
    job.added = added;
    if (ADDED::ADDS) {
        job.sum = work.inout("x", a->x, all);
        job.x = job.sum;
    } else {
        job.x = work.in("x", a->x, all);
    }
    job.weight = weight;
    if (a->out)
        job.out = work.out("out", a->out, all);
    const staged_input to = bring(work, a->staged, a->rows, a->n);
    job.staged = to.layers;
    job.pairs = to.experts;
    job.shape = to.shape;
    job.rows = static_cast<uint32_t>(a->rows);
    job.n = static_cast<uint32_t>(a->n);
    job.eps = a->eps;
    if (work.ok())
        work.did(sb_add_norm_launch(work.queue(), job));
}

static sb_add_combined<float> combined(sb_gpu_work &work, const sb_gpu_add_norm_args *a)
{
    const sb_moe_combine_args *c = a->combine;
    const size_t all = a->rows * a->n, slots = a->rows * c->kept;
    return {work.in("expert_out", c->expert_out, c->kept * all),
            work.in("weights", c->weights, slots),
            work.in("shared_out", c->shared_out, all),
            work.in("shared_logit", a->shared_logits, a->rows),
            static_cast<uint32_t>(c->kept),
            static_cast<uint32_t>(a->n),
            0.0f};
}

sb_status sb_gpu_add_norm(sb_gpu *gpu, const sb_gpu_add_norm_args *args)
{
    sb_gpu_work work(gpu);
    work.values("weight", args->weight); /* weights come before all buffers */
    if (args->added == SB_ADDED_nothing)
        run(work, args, sb_add_nothing());
    else if (args->added == SB_ADDED_values)
        run(work, args, sb_add_values<float>{work.in("y", args->y, args->rows * args->n)});
    else
        run(work, args, combined(work, args));
    return work.finish();
}
