#include "gpu/kernel/elementwise.cuh"
#include "gpu/op/bring.h"

/* In the profiles of this path K-48 needs no second sum. */
sb_status sb_gpu_add(sb_gpu *gpu, const sb_knobs *, const sb_add_args *args)
{
    sb_gpu_work work(gpu);
    const size_t n = args->count;
    const auto at = sb_bring_add(work, args);
    SB_GPU_RUN(work, sb_add_kernel<float>, sb_gpu_blocks(n, SB_EACH_THREADS), SB_EACH_THREADS, 0,
               at.a, at.b, at.out, n);
    return work.finish();
}
