#include "gpu/kernel/elementwise.cuh"
#include "gpu/op/gpu.h"

sb_status sb_gpu_attn_gate(sb_gpu *gpu, const sb_knobs *, const sb_attn_gate_args *a)
{
    sb_gpu_work work(gpu);
    const auto in = work.in("in", a->in, a->count), gate = work.in("gate", a->gate, a->count);
    const auto out = work.out("out", a->out, a->count);
    SB_GPU_RUN(work, sb_attn_gate_kernel<float>, sb_gpu_blocks(a->count, SB_EACH_THREADS),
               SB_EACH_THREADS, 0, in, gate, a->count, out);
    return work.finish();
}
