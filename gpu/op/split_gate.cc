#include "gpu/kernel/elementwise.cuh"
#include "gpu/op/bring.h"

sb_status sb_gpu_split_gate(sb_gpu *gpu, const sb_knobs *, const sb_split_gate_args *a)
{
    sb_gpu_work work(gpu);
    const size_t half = a->rows * a->heads * a->hd;
    const auto at = sb_bring_split_gate(work, a);
    SB_GPU_RUN(work, sb_split_gate_kernel<float>, sb_gpu_blocks(2 * half, SB_EACH_THREADS),
               SB_EACH_THREADS, 0, at.in, a->hd, 2 * half, at.query, at.gate);
    return work.finish();
}
