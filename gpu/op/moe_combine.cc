#include "gpu/kernel/combine.cuh"
#include "gpu/op/resident.h"

/* `logits` has one logit per row; a->shared_logit is not read. */
sb_status sb_gpu_moe_combine_rows(sb_gpu *gpu, const sb_moe_combine_args *a, size_t rows,
                                  const float *logits)
{
    sb_gpu_work work(gpu);
    const size_t n = rows * a->n;
    const auto expert_out = work.in("expert_out", a->expert_out, a->kept * n);
    const auto weights = work.in("weights", a->weights, a->kept * rows);
    const auto shared_out = work.in("shared_out", a->shared_out, n);
    const auto logit = work.in("shared_logit", logits, rows);
    const auto out = work.out("out", a->out, n);
    SB_GPU_RUN(work, sb_moe_combine_kernel<float>, sb_gpu_blocks(n, SB_COMBINE_THREADS),
               SB_COMBINE_THREADS, 0, expert_out, weights, shared_out, logit,
               static_cast<unsigned>(a->kept), a->n, n, out);
    return work.finish();
}

sb_status sb_gpu_moe_combine(sb_gpu *gpu, const sb_knobs *, const sb_moe_combine_args *a)
{
    return sb_gpu_moe_combine_rows(gpu, a, 1, &a->shared_logit);
}
