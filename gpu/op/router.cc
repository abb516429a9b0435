#include "gpu/kernel/fused_route.cuh"
#include "gpu/op/bring.h"
#include "gpu/op/experts_pairs.h"

sb_status sb_gpu_router(sb_gpu *gpu, const sb_knobs *, const sb_router_args *a)
{
    sb_gpu_work work(gpu);
    if (a->experts > SB_ROUTER_EXPERTS)
        work.did(sb_fail(work.err(), SB_ERR_UNSUPPORTED, "%zu experts: the kernel takes at most %d",
                         a->experts, static_cast<int>(SB_ROUTER_EXPERTS)));
    const auto at = sb_bring_router(work, a);
    const size_t shared = (2 * a->experts + a->kept) * sizeof(float);
    SB_GPU_RUN(work, sb_router_kernel, sb_gpu_blocks(a->rows, 1), SB_WARP, shared, at.logits,
               static_cast<unsigned>(a->experts), static_cast<unsigned>(a->kept),
               static_cast<unsigned>(a->renormalise != 0), at.ids, at.weights);
    return work.finish();
}

sb_status sb_gpu_choose(sb_gpu *gpu, const sb_router_args *a, const sb_gpu_choice *choice,
                        const sb_gpu_beside *beside)
{
    sb_gpu_work work(gpu);
    const uint32_t pairs = static_cast<uint32_t>(a->rows * a->kept);
    const uint32_t experts = static_cast<uint32_t>(a->experts);
    const uint32_t most = sb_gpu_set_of(pairs, experts, false);
    const size_t sets = sb_route_most(pairs, experts, most);
    sb_choice_job job = {};
    job.logits = work.in("logits", a->logits, a->rows * a->experts);
    job.ids = work.out("ids", a->ids, pairs);
    job.weights = work.out("weights", a->weights, pairs);
    job.order = work.out("order of pairs", choice->order, pairs);
    job.begin = work.out("first pairs", choice->begin, a->experts + 1);
    job.sets = sb_cast<uint2>(work.out("sets of pairs", choice->sets, 2 * sets));
    job.count = work.out("count of sets", choice->count, 1);
    job.rows = static_cast<uint32_t>(a->rows);
    job.experts = experts;
    job.kept = static_cast<uint32_t>(a->kept);
    job.most = most;
    job.renormalise = a->renormalise != 0;
    if (beside) {
        const size_t values = a->rows * beside->cols;
        job.beside = {work.in("gate", beside->gate, values), work.in("up", beside->up, values),
                      static_cast<uint32_t>(beside->cols)};
        job.shape = sb_stage_shape(job.beside.cols);
        job.staged = work.out("staged", static_cast<uint2 *>(beside->layers),
                              sb_gpu_staged_bytes(a->rows, beside->cols) / sizeof(uint2));
    }
    if (work.ok())
        work.did(sb_choice_launch(work.queue(), job));
    return work.finish();
}
