#include "gpu/kernel/router.cuh"
#include "gpu/op/gpu.h"

sb_status sb_gpu_router(sb_gpu *gpu, const sb_knobs *, const sb_router_args *a)
{
    sb_gpu_work work(gpu);
    if (a->experts > SB_ROUTER_EXPERTS)
        work.did(sb_fail(work.err(), SB_ERR_UNSUPPORTED, "%zu experts: the kernel takes at most %d",
                         a->experts, static_cast<int>(SB_ROUTER_EXPERTS)));
    const auto logits = work.in("logits", a->logits, a->rows * a->experts);
    const auto ids = work.out("ids", a->ids, a->rows * a->kept);
    const auto weights = work.out("weights", a->weights, a->rows * a->kept);
    const size_t shared = (2 * a->experts + a->kept) * sizeof(float);
    SB_GPU_RUN(work, sb_router_kernel, sb_gpu_blocks(a->rows, 1), SB_WARP, shared, logits,
               static_cast<unsigned>(a->experts), static_cast<unsigned>(a->kept),
               a->renormalise != 0, ids, weights);
    return work.finish();
}
