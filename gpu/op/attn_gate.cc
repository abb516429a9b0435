#include "gpu/kernel/elementwise.cuh"
#include "gpu/op/bring.h"

sb_status sb_gpu_attn_gate(sb_gpu *gpu, const sb_knobs *, const sb_attn_gate_args *a)
{
    sb_gpu_work work(gpu);
    const auto at = sb_bring_attn_gate(work, a);
    SB_GPU_RUN(work, sb_attn_gate_kernel<float>, sb_gpu_blocks(a->count, SB_EACH_THREADS),
               SB_EACH_THREADS, 0, at.in, at.gate, a->count, at.out);
    return work.finish();
}
