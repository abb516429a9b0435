#include "gpu/kernel/elementwise.cuh"
#include "gpu/op/bring.h"

/* In the profiles of this path K-6 and K-51 round no silu, so all three kinds are the same. */
sb_status sb_gpu_swiglu(sb_gpu *gpu, const sb_knobs *, const sb_swiglu_args *a)
{
    sb_gpu_work work(gpu);
    const auto at = sb_bring_swiglu(work, a);
    SB_GPU_RUN(work, sb_swiglu_kernel<float>, sb_gpu_blocks(a->count, SB_EACH_THREADS),
               SB_EACH_THREADS, 0, at.gate, at.up, a->count, at.out);
    return work.finish();
}
