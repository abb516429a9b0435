#include "gpu/kernel/combine.cuh"
#include "gpu/op/gpu.h"

sb_status sb_gpu_moe_combine(sb_gpu *gpu, const sb_knobs *, const sb_moe_combine_args *a)
{
    sb_gpu_work work(gpu);
    const auto expert_out = work.in("expert_out", a->expert_out, a->kept * a->n);
    const auto weights = work.in("weights", a->weights, a->kept);
    const auto shared_out = work.in("shared_out", a->shared_out, a->n);
    const auto logit = work.in("shared_logit", &a->shared_logit, 1);
    const auto out = work.out("out", a->out, a->n);
    SB_GPU_RUN(work, sb_moe_combine_kernel<float>, sb_gpu_blocks(a->n, SB_COMBINE_THREADS),
               SB_COMBINE_THREADS, 0, expert_out, weights, shared_out, logit,
               static_cast<unsigned>(a->kept), a->n, a->n, out);
    return work.finish();
}
