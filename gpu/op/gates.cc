#include "gpu/kernel/elementwise.cuh"
#include "gpu/op/bring.h"

sb_status sb_gpu_gates(sb_gpu *gpu, const sb_knobs *, const sb_gates_args *args)
{
    sb_gpu_work work(gpu);
    const size_t n = args->rows * args->heads;
    const auto at = sb_bring_gates(work, args);
    SB_GPU_RUN(work, sb_gates_kernel<float>, sb_gpu_blocks(n, SB_EACH_THREADS), SB_EACH_THREADS, 0,
               at.a, at.b, at.a_log, at.dt_bias, args->heads, n, at.g, at.beta);
    return work.finish();
}
