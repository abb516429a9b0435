#include "gpu/kernel/norm.cuh"
#include "gpu/op/gpu.h"

sb_status sb_gpu_rmsnorm(sb_gpu *gpu, const sb_knobs *, const sb_rmsnorm_args *a)
{
    sb_gpu_work work(gpu);
    const auto in = work.in("in", a->in, a->rows * a->n);
    const auto weight = work.values("weight", a->weight);
    const auto out = work.out("out", a->out, a->rows * a->n);
    SB_GPU_RUN(work, (sb_rmsnorm_kernel<float, float>), sb_gpu_blocks(a->rows, 1),
               sb_sum_threads(a->n), 0, in, weight, a->eps, a->n, out);
    return work.finish();
}
