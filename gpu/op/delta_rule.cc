#include "gpu/op/delta_rule.h"

template <int DK> static void run(sb_gpu_work &work, const sb_delta_job<float> &job)
{
    const dim3 grid(sb_gpu_blocks(job.dv, SB_DELTA_COLUMNS), job.v_heads);
    SB_GPU_RUN(work, (sb_delta_rule_kernel<float, DK>), grid, SB_DELTA_THREADS, 0, job);
}

sb_status sb_gpu_delta_rule_slots(sb_gpu *gpu, const sb_knobs *, const sb_delta_rule_args *args,
                                  const sb_gpu_slots *slots)
{
    sb_gpu_work work(gpu);
    const sb_delta_job<float> job = sb_delta_bring(work, args, slots);
    if (args->dk <= 32)
        run<32>(work, job);
    else if (args->dk <= 64)
        run<64>(work, job);
    else
        run<128>(work, job);
    return work.finish();
}

sb_status sb_gpu_delta_rule(sb_gpu *gpu, const sb_knobs *knobs, const sb_delta_rule_args *args)
{
    return sb_gpu_delta_rule_slots(gpu, knobs, args, nullptr);
}
