#include "gpu/kernel/norm.cuh"
#include "gpu/op/bring.h"

sb_status sb_gpu_gated_rmsnorm(sb_gpu *gpu, const sb_knobs *, const sb_gated_rmsnorm_args *a)
{
    sb_gpu_work work(gpu);
    const size_t rows = a->rows * a->heads;
    const auto at = sb_bring_gated_rmsnorm(work, a);
    SB_GPU_RUN(work, sb_gated_rmsnorm_kernel<float>, sb_gpu_blocks(rows, 1), sb_sum_threads(a->n),
               0, at.in, at.z, at.weight, a->eps, a->n, at.out);
    return work.finish();
}
