#include "gpu/kernel/elementwise.cuh"
#include "gpu/op/gpu.h"

sb_status sb_gpu_gates(sb_gpu *gpu, const sb_knobs *, const sb_gates_args *args)
{
    sb_gpu_work work(gpu);
    const size_t n = args->rows * args->heads;
    const auto a = work.in("a", args->a, n), b = work.in("b", args->b, n);
    const auto a_log = work.values("a_log", args->a_log);
    const auto dt_bias = work.values("dt_bias", args->dt_bias);
    const auto g = work.out("g", args->g, n), beta = work.out("beta", args->beta, n);
    SB_GPU_RUN(work, sb_gates_kernel<float>, sb_gpu_blocks(n, SB_EACH_THREADS), SB_EACH_THREADS, 0,
               a, b, a_log, dt_bias, args->heads, n, g, beta);
    return work.finish();
}
