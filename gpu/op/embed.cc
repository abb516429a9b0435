#include "gpu/kernel/elementwise.cuh"
#include "gpu/op/gpu.h"

sb_status sb_gpu_embed(sb_gpu *gpu, const sb_knobs *, const sb_embed_args *a)
{
    sb_gpu_work work(gpu);
    const size_t n = a->table->cols;
    const auto table = work.values_bf16("table", a->table);
    const auto tokens = work.in("tokens", a->tokens, a->rows);
    const auto out = work.out("out", a->out, a->rows * n);
    SB_GPU_RUN(work, sb_embed_kernel<float>, sb_gpu_blocks(a->rows, 1), SB_EACH_THREADS, 0, table,
               tokens, out, n);
    return work.finish();
}
