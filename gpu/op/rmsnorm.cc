#include "gpu/kernel/norm.cuh"
#include "gpu/op/bring.h"

sb_status sb_gpu_rmsnorm(sb_gpu *gpu, const sb_knobs *, const sb_rmsnorm_args *a)
{
    sb_gpu_work work(gpu);
    if (a->plain)
        work.did(sb_fail(work.err(), SB_ERR_UNSUPPORTED,
                         "a norm that multiplies by w: the kernel multiplies by 1 + w"));
    const auto at = sb_bring_rmsnorm(work, a);
    SB_GPU_RUN(work, (sb_rmsnorm_kernel<float, float>), sb_gpu_blocks(a->rows, 1),
               sb_sum_threads(a->n), 0, at.in, at.weight, a->eps, a->n, at.out);
    return work.finish();
}
