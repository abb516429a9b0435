#include "gpu/kernel/norm.cuh"
#include "gpu/op/gpu.h"

sb_status sb_gpu_gated_rmsnorm(sb_gpu *gpu, const sb_knobs *, const sb_gated_rmsnorm_args *a)
{
    sb_gpu_work work(gpu);
    const size_t rows = a->rows * a->heads;
    const auto in = work.in("in", a->in, rows * a->n), z = work.in("z", a->z, rows * a->n);
    const auto weight = work.values("weight", a->weight);
    const auto out = work.out("out", a->out, rows * a->n);
    SB_GPU_RUN(work, sb_gated_rmsnorm_kernel<float>, sb_gpu_blocks(rows, 1), sb_sum_threads(a->n),
               0, in, z, weight, a->eps, a->n, out);
    return work.finish();
}
